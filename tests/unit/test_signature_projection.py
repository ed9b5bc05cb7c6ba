# SPDX-License-Identifier: Apache-2.0
"""The projection: rows by identity, exact sums, the same result with any number of threads."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.support.processes import with_tables
from tests.support.signature_data import process_of, signature_of
from xpuprof.errors import InputError, UsageError
from xpuprof.signature import kernels
from xpuprof.signature.matrix import frequency_signature
from xpuprof.trace.tables import Blocks, CpuVectors, GpuVectors

U32, U64 = np.uint32, np.uint64


def cpu_vectors(rows: Any, identity: Any, instructions: Any) -> Any:
    """`rows`: per slice, a list of (thread, block, count)."""
    flat = [entry for row in rows for entry in row]
    thread, block, count = (np.array([e[i] for e in flat]) for i in range(3))
    start = np.cumsum([0] + [len(row) for row in rows])
    blocks = Blocks(np.array(identity, U64), np.array(instructions, U32))
    return CpuVectors(
        thread.astype(U32), block.astype(U32), count.astype(U64),
        start.astype(U64), blocks,
    )  # fmt: skip


def gpu_vectors(grids: Any, vectors: Any, identity: Any, instructions: Any) -> Any:
    """`grids`: per grid, (vector, warps) runs; `vectors`: per vector, (block, count)."""
    runs = [run for grid in grids for run in grid]
    pairs = [pair for vector in vectors for pair in vector]
    return GpuVectors(
        launch_grid=np.arange(len(grids)),
        grid_start=np.cumsum([0] + [len(grid) for grid in grids]).astype(U64),
        run_vector=np.array([run[0] for run in runs], U32),
        run_length=np.array([run[1] for run in runs], U64),
        vector_start=np.cumsum([0] + [len(vector) for vector in vectors]).astype(U64),
        block=np.array([pair[0] for pair in pairs], U32),
        count=np.array([pair[1] for pair in pairs], U64),
        blocks=Blocks(np.array(identity, U64), np.array(instructions, U32)),
        kernel_block_start=np.array([0, len(identity)], U64),
        mix=np.zeros((len(identity), 12), np.uint16),
    )


def test_rows_belong_to_identities_not_to_numbers() -> None:
    """The same code gives the same vector, however its blocks are numbered."""
    a, _ = kernels.project_cpu(
        cpu_vectors([[(0, 0, 3), (0, 1, 5)]], [111, 222], [2, 7]), seed=1, dim=40
    )
    b, _ = kernels.project_cpu(
        cpu_vectors([[(0, 0, 5), (0, 2, 3)]], [222, 999, 111], [7, 1, 2]), seed=1, dim=40
    )
    np.testing.assert_allclose(a, b, rtol=0, atol=1e-7)


def test_projection_is_linear_in_instruction_weighted_counts() -> None:
    """A mix is the instruction-weighted mean of its blocks' rows; lengths are exact sums."""
    identity, instructions = [5, 6, 7], [2, 3, 11]
    rows = [kernels.project_cpu(cpu_vectors([[(t, b, 1)]], identity, instructions), 9, 33)[0][0]
            for t, b in ((0, 0), (0, 2), (1, 2))]  # fmt: skip
    entries = [(0, 0, 10), (0, 2, 1_000_000_007), (1, 2, 4)]
    mix, length = kernels.project_cpu(cpu_vectors([entries], identity, instructions), 9, 33)
    weights = np.array([10 * 2, 1_000_000_007 * 11, 4 * 11], float)
    assert length[0] == weights.sum()
    expected = (weights[:, None] * np.array(rows, float)).sum(0) / weights.sum()
    np.testing.assert_allclose(mix[0], expected, atol=1e-6)


def test_rows_are_uniform_and_independent() -> None:
    """Rows have mean 0, variance 1/3 and are uncorrelated, as the projection's theory requires."""
    identity = np.arange(1, 2001, dtype=U64)
    start = np.arange(2001, dtype=U64)
    rows, _ = kernels.project_values(start, identity, np.ones(2000), seed=3, dim=64)
    assert abs(rows.mean()) < 0.005
    assert abs(rows.var() - 1 / 3) < 0.005
    correlation = np.corrcoef(rows[:200])
    assert np.abs(correlation - np.eye(200)).max() < 0.65
    assert not np.array_equal(
        rows, kernels.project_values(start, identity, np.ones(2000), seed=4, dim=64)[0]
    )


def test_threads_of_the_program_are_dimensions_of_their_own() -> None:
    """The same block in another thread is another dimension."""
    one, _ = kernels.project_cpu(cpu_vectors([[(0, 0, 1)]], [5], [1]), 1, 16)
    two, _ = kernels.project_cpu(cpu_vectors([[(1, 0, 1)]], [5], [1]), 1, 16)
    assert not np.array_equal(one, two)


def test_equal_warps_give_the_same_mix_in_grids_of_any_size() -> None:
    """The warp axis is resampled: 3, 32 or 1,000 equal warps differ in length only."""
    grids = [[(0, 3)], [(0, 32)], [(0, 1000)], [(0, 400), (0, 600)]]
    mix, length = kernels.project_gpu(
        gpu_vectors(grids, [[(0, 4), (1, 2)]], [8, 9], [3, 5]), buckets=32, seed=1, dim=24
    )
    np.testing.assert_allclose(mix, np.tile(mix[0], (4, 1)), atol=1e-6)
    assert length.tolist() == [22.0 * n for n in (3, 32, 1000, 1000)]


def test_where_the_work_lies_among_the_warps_shows() -> None:
    """The same total, first or last half of the warps idle: different mixes, equal lengths."""
    vectors = [[(0, 10)], [(1, 1)]]
    grids = [[(0, 16), (1, 16)], [(1, 16), (0, 16)]]
    mix, length = kernels.project_gpu(gpu_vectors(grids, vectors, [8, 9], [3, 5]), 32, 1, 64)
    assert length[0] == length[1]
    assert np.linalg.norm(mix[0] - mix[1]) > 0.05


def test_cells_share_a_straddling_warp() -> None:
    """3 warps on 2 cells: the middle one counts half to each (an independent sum)."""
    vectors = [[(0, 6)], [(1, 6)], [(2, 6)]]
    grids = [[(0, 1), (1, 1), (2, 1)]]
    identity, ones = [8, 9, 10], [1, 1, 1]
    mix, _ = kernels.project_gpu(gpu_vectors(grids, vectors, identity, ones), 2, 1, 20)
    # Rows of (cell, block): a grid of two warps puts one in each cell.
    blank = [(3, 1)]
    rows = {}
    for block in range(3):
        for cell in range(2):
            runs = [(0, 1), (1, 1)] if cell == 0 else [(1, 1), (0, 1)]
            pair, length = kernels.project_gpu(
                gpu_vectors([runs], [[(block, 1)], blank], [*identity, 77], [1, 1, 1, 0]), 2, 1, 20
            )
            rows[cell, block] = pair[0] * length[0]
    expected = (6 * rows[0, 0] + 3 * rows[0, 1] + 3 * rows[1, 1] + 6 * rows[1, 2]) / 18
    np.testing.assert_allclose(mix[0], expected, atol=1e-6)


def test_number_of_threads_does_not_show() -> None:
    """One and two threads give the same bytes."""
    rng = np.random.default_rng(0)
    rows = [[(int(t), int(b), int(c)) for t, b, c in
             zip(rng.integers(0, 3, 20), rng.integers(0, 50, 20), rng.integers(1, 999, 20),
                 strict=True)] for _ in range(101)]  # fmt: skip
    vectors = cpu_vectors(rows, rng.integers(1, 2**63, 50), rng.integers(1, 30, 50))
    one = kernels.project_cpu(vectors, 1, 37, threads=1)
    two = kernels.project_cpu(vectors, 1, 37, threads=2)
    assert one[0].tobytes() == two[0].tobytes()
    assert one[1].tobytes() == two[1].tobytes()


def test_equal_slices_are_found_and_projected_once() -> None:
    """Slices are of one class if thread, block and count are equal, entry by entry: empty ones too,
    but not those of which one begins like the other."""
    rng = np.random.default_rng(5)
    rows: list[list[tuple[int, int, int]]] = [
        [(0, 0, 1)], [(1, 0, 1)], [(0, 1, 1)], [(0, 0, 2)], [], [(0, 0, 1), (0, 1, 1)], []
    ]  # fmt: skip
    rows += [rows[i] for i in rng.integers(0, len(rows), 500)]
    vectors = cpu_vectors(rows, [11, 22], [3, 5])
    point, first = kernels.distinct_cpu(vectors)
    seen: dict[tuple[tuple[int, int, int], ...], int] = {}
    assert point.tolist() == [seen.setdefault(tuple(row), len(seen)) for row in rows]
    assert first.tolist() == [rows.index(list(row)) for row in seen]
    mix, length = kernels.project_cpu(vectors, 1, 7)
    once, own_length = kernels.project_cpu(vectors, 1, 7, rows=first)
    assert once[point].tobytes() == mix.tobytes()
    assert own_length[point].tobytes() == length.tobytes()


def test_same_bytes_in_another_process() -> None:
    """Rows depend only on identity and seed, not on the process or Python's hash seed."""
    code = (
        "import numpy as np; from xpuprof.signature import kernels as k;"
        "a=np.arange(1,65,dtype=np.uint64);"
        "m,_=k.project_values(np.arange(0,65,8,dtype=np.uint64),a,np.ones(64),7,19);"
        "import hashlib; print(hashlib.sha256(m.tobytes()).hexdigest())"
    )
    path = ":".join(sys.path)
    digests = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed, "PYTHONPATH": path},
            capture_output=True, text=True, check=True,
        ).stdout
        for seed in ("0", "1", "77")
    }  # fmt: skip
    assert len(digests) == 1


def test_first_and_last_slice_and_launches_without_vectors() -> None:
    """Uninstrumented launches are told apart by kernel name; the last slice has no kernel."""
    signature = signature_of(process_of([0, 1, 0, 1], gpu=False), seed=1)
    distinct = np.unique(signature.matrix, axis=0)
    assert len(signature) == 5
    # First slice (start-up), two kernels, exit: kernel 0 appears with and without start-up.
    assert len(distinct) == 4


def test_without_cpu_vectors_only_the_gpu_part_remains() -> None:
    """dim + 1 columns per part."""
    assert signature_of(process_of([0, 1], cpu=False), seed=1, dim=10).matrix.shape == (3, 11)
    assert signature_of(process_of([0, 1]), seed=1, dim=10).matrix.shape == (3, 22)


def test_extent_adds_up_and_weighs_the_parts() -> None:
    """Extents are shares of instructions, CPU and GPU half each."""
    process = process_of([0, 0, 1], lengths=[1, 3, 1])
    signature = signature_of(process, seed=1)
    cpu = process.slices["cpu_instructions"].to_numpy(float)
    gpu = process.slices["gpu_instructions"].to_numpy(float)
    np.testing.assert_allclose(signature.extent, cpu / cpu.sum() / 2 + gpu / gpu.sum() / 2)
    np.testing.assert_allclose(signature.instructions, cpu + gpu)


def test_the_cpu_counts_by_its_share_of_the_slices_work() -> None:
    """The CPU's columns grow with its work, and level off where the launch is small beside it."""
    process = process_of([0, 1, 0])
    assert process.cpu is not None

    def scaled(factor: int) -> np.ndarray:
        count = process.cpu.count * U64(factor)
        cpu = replace(process.cpu, count=count)
        other = with_tables(process, cpu=cpu)
        return signature_of(other, seed=1, dim=16, length_weight=0.0).matrix

    own, more, most = scaled(1), scaled(1000), scaled(1_000_000)
    np.testing.assert_array_equal(own[:, :17], most[:, :17])
    assert np.linalg.norm(own[1, 17:]) < 0.25 * np.linalg.norm(most[1, 17:])
    np.testing.assert_allclose(more, most, rtol=0.01)


@pytest.mark.parametrize(
    ("options", "named"),
    [({"dim": 0}, "--dim"), ({"warp_buckets": 0}, "--warp-buckets"),
     ({"cpu_weight": 1.5}, "--cpu-weight")],
)  # fmt: skip
def test_parameters_out_of_range_are_named(options: Any, named: str) -> None:
    """One sentence that names the option."""
    with pytest.raises(UsageError, match=named):
        signature_of(process_of([0]), seed=1, **options)


def test_unsound_vectors_are_refused() -> None:
    """Block numbers and row starts are checked before C uses them."""
    good = cpu_vectors([[(0, 0, 1)]], [5], [1])
    with pytest.raises(InputError, match="not sound"):
        kernels.project_cpu(type(good)(**{**good.__dict__, "block": np.array([7], U32)}), 1, 4)
    with pytest.raises(InputError, match="row starts"):
        kernels.project_cpu(
            type(good)(**{**good.__dict__, "slice_start": np.array([0, 9], U64)}), 1, 4
        )
    with pytest.raises(InputError, match="not sound"):
        kernels.project_gpu(gpu_vectors([[(3, 1)]], [[(0, 1)]], [5], [1]), 4, 1, 4)


def test_empty_vectors_are_slices_of_no_length() -> None:
    """A slice without instructions is a zero row, not a NaN."""
    start = np.array([0, 0, 1], U64)
    signature = frequency_signature(start, np.array([4], U64), np.array([2.0]), seed=1, dim=5)
    assert signature.matrix[0].tolist() == [0.0] * 5
    assert np.isfinite(signature.matrix).all()
