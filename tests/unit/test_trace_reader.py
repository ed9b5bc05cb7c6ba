# SPDX-License-Identifier: Apache-2.0
"""From streams to tables: slices, vectors, and the finished slices of a run that was cut short."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import xpuprof
from tests.support import traces
from xpuprof.errors import TraceError
from xpuprof.signature.matrix import Projection, project
from xpuprof.trace import recorded_cpu
from xpuprof.trace.reader import process_folders, read_process
from xpuprof.trace.tables import CpuVectors, Process


def process(
    path: Path,
    events: list[traces.Record] | None,
    cpu: list[traces.Record] | None,
    closed: bool = True,
    complete: bool | None = None,
    role: str = "profile",
) -> Process:
    folder = traces.write_process(path / "h-77", events, cpu, closed)
    return read_process(folder, role, closed if complete is None else complete)  # fmt: skip


def test_tables_of_a_small_program(tmp_path: Path) -> None:
    run = xpuprof.open(traces.write_run(tmp_path / "run", traces.events(), traces.cpu()))
    assert run.profile is not None
    (found,) = run.profile.processes
    assert found.name == "h-77"
    assert found.complete
    assert found.meta["engine"] == found.meta["cpu_engine"] == "made-up"

    slices = found.slices
    assert slices["kernel"].tolist() == ["a", "b", "a", "SYS_exit"]
    assert slices["call"].tolist() == [1, 1, 2, 1]
    assert slices["cpu_instructions"].tolist() == [13, 116, 119, 122]
    assert slices["gpu_instructions"].tolist() == [66, 123, 66, 0]
    assert slices["warps"].tolist() == [2, 2, 2, 0]
    assert slices["gx"].tolist() == [64, 64, 64, 0]
    assert slices["lx"].tolist() == [32, 32, 32, 0]
    assert slices["program"].tolist() == [bytes(range(16)).hex()] * 3 + [""]

    launches = found.launches
    assert launches["tsc_run"].tolist() == [2000, 3000, 4000]
    assert launches["tsc_complete"].tolist() == [2300, 3300, 4300]
    assert launches["dev_end"].tolist() == [2200, 3200, 4200]
    assert launches["queue"].tolist() == [7] * 3
    assert launches["device"].tolist() == [8] * 3
    assert launches["instrumented"].all()
    assert found.kernels["name"].tolist() == ["a", "b"]
    assert found.images["build_id"].tolist() == ["00ff"]
    assert found.threads["system_id"].tolist() == [500, 501]
    assert found.copies["bytes"].tolist() == [4096]


def test_cpu_vectors(tmp_path: Path) -> None:
    cpu = process(tmp_path, traces.events(), traces.cpu()).cpu
    assert cpu is not None
    rows = [
        (0, 0, 0, 1), (0, 0, 1, 1),
        (1, 0, 0, 2), (1, 0, 1, 1), (1, 1, 2, 100),
        (2, 0, 0, 3), (2, 0, 1, 1), (2, 1, 2, 100),
        (3, 0, 0, 4), (3, 0, 1, 1), (3, 1, 2, 100),
    ]  # fmt: skip
    columns = np.stack([cpu.slice, cpu.thread, cpu.block, cpu.count], axis=1)
    assert columns.tolist() == [list(row) for row in rows]
    assert cpu.slice_start.tolist() == [0, 2, 5, 8, 11]
    assert cpu.blocks.instructions.tolist() == [3, 10, 1]
    kinds = (cpu.slice, cpu.thread, cpu.block, cpu.count, cpu.slice_start, cpu.blocks.identity)
    assert [k.dtype.str for k in kinds] == ["<u4", "<u4", "<u4", "<u8", "<u8", "<u8"]


def test_vectors_in_another_order_are_sorted(tmp_path: Path) -> None:
    """Threads may be written in any order, and a late vector of an earlier slice may come last."""
    records = traces.cpu()
    vectors = [r for r in records if r[0] == 5]
    others = [r for r in records if r[0] != 5]
    at = next(i for i, r in enumerate(others) if r[0] == 15)
    shuffled = [*others[:at], *reversed(vectors), *others[at:]]
    wanted = process(tmp_path / "a", traces.events(), records).cpu
    got = process(tmp_path / "b", traces.events(), shuffled).cpu
    assert_equal(got, wanted)


def assert_equal(got: CpuVectors | None, wanted: CpuVectors | None) -> None:
    assert wanted is not None
    assert got is not None
    for name in ("slice", "thread", "block", "count", "slice_start"):
        assert np.array_equal(getattr(got, name), getattr(wanted, name)), name


def in_small_chunks(records: list[traces.Record]) -> list[traces.Record]:
    """A chunk ends with each cut of a slice."""
    ended = [[r, traces.SEAL] if r[0] == 6 else [r] for r in records]
    return [record for pair in ended for record in pair]


@pytest.mark.parametrize(("late", "pieces"), [(None, 6), (0, 1), (2, 3)])
def test_vectors_piece_by_piece(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late: int | None, pieces: int
) -> None:
    """A piece ends with a chunk, once no vector of its slices is to come: of slice `late` one comes
    last."""
    records = in_small_chunks(traces.cpu(6))
    if late is not None:
        own = next(r for r in records if r[0] == 5 and r[2] == late)
        records.remove(own)
        records.insert(len(records) - 1, own)
    found = process(tmp_path, traces.events(5), records)
    wanted = found.cpu
    monkeypatch.setattr(recorded_cpu, "ENTRIES", 1)
    parts = list(found.cpu_pieces() or [])
    assert len(parts) == pieces
    assert_equal(CpuVectors.joined(parts), wanted)


def test_vectors_are_projected_piece_by_piece(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIVEN slices of which some are equal, in different pieces THEN every byte is that of slices
    projected together, and equal vectors are stored once."""
    records, slices = traces.cpu(4)[:-1], 60
    for i in range(4, slices):
        own = 1 + i % 7 if i % 5 else 0
        records += [traces.bbv(i, 1, [(0, own), (2, 9)], 3 * own + 9)] if own else []
        records += [traces.cut(i, traces.START + 1_000 * (i + 1) + 5, 3 * own + 9 if own else 0)]
    found = process(
        tmp_path, traces.events(slices - 1), in_small_chunks([*records, traces.end(slices, 0)])
    )
    together = project(found, Projection(1))
    monkeypatch.setattr(recorded_cpu, "ENTRIES", 1)
    assert len(list(found.cpu_pieces() or [])) > 20
    apart = project(found, Projection(1))
    for one, other in zip(together, apart, strict=True):
        assert one.kind == other.kind
        for name in ("mix", "length", "row"):
            a, b = (getattr(part.vectors, name) for part in (one, other))
            assert a.tobytes() == b.tobytes(), (one.kind, name)


def test_gpu_vectors(tmp_path: Path) -> None:
    gpu = process(tmp_path, traces.events(), traces.cpu()).gpu
    assert gpu is not None
    assert gpu.launch_grid.tolist() == [0, 1, 0]
    assert gpu.grid_start.tolist() == [0, 1, 3]
    assert gpu.run_vector.tolist() == [0, 1, 2]
    assert gpu.run_length.tolist() == [2, 1, 1]
    assert gpu.vector_start.tolist() == [0, 2, 3, 4]
    assert gpu.block.tolist() == [0, 1, 2, 2]  # kernel b's block is the third of all
    assert gpu.count.tolist() == [1, 4, 32, 9]
    assert gpu.kernel_block_start.tolist() == [0, 2, 3]
    assert gpu.blocks.instructions.tolist() == [5, 7, 3]
    assert gpu.mix.shape == (3, traces.MIX)
    assert len(set(gpu.blocks.identity.tolist())) == 3


def test_calls_count_by_name(tmp_path: Path) -> None:
    """The same kernel built twice has one count of calls."""
    records = [
        traces.program(0),
        traces.program(1, hash=bytes(16)),
        *(traces.kernel(i, i % 2, name, [1]) for i, name in enumerate(["k", "k", "other"])),
        *(traces.launch(i, kernel, 2000 + i) for i, kernel in enumerate([0, 1, 2, 1, 0])),
        traces.end(5, 5),
    ]
    slices = process(tmp_path, records, None, role="time").slices
    assert slices["kernel"].tolist() == ["k", "k", "other", "k", "k", "SYS_exit"]
    assert slices["call"].tolist() == [1, 2, 1, 3, 4, 1]
    assert slices["program"].nunique() == 3


def test_resources_of_a_launch(tmp_path: Path) -> None:
    events = traces.events()
    found = process(
        tmp_path, [*events[:-1], traces.resources(1, 40, 1024, 7, 16), events[-1]], None
    )
    names = ["registers", "local_static", "local_dynamic", "private_bytes"]
    assert found.launches[names].to_numpy().tolist() == [[0] * 4, [40, 1024, 7, 16], [0] * 4]


def test_lanes_of_a_launch(tmp_path: Path) -> None:
    events = traces.events()
    found = process(tmp_path, [*events[:-1], traces.lanes(1, 1 << 40), events[-1]], None)
    assert found.launches["lane_instructions"].tolist() == [0, 1 << 40, 0]


def test_executions_are_decoded_when_asked_for(tmp_path: Path) -> None:
    """GIVEN a damaged timer run THEN the profile can still be read."""
    path = traces.write_run(tmp_path / "run", traces.events(), traces.cpu())
    writer = traces.resume(path)
    traces.add_execution(writer, "time-0", "time", traces.events(), None)
    writer.finish("complete")
    (path / "time-0/h-77/events.xpt").write_bytes(b"nonsense")
    run = xpuprof.open(path)
    assert run.profile is run.profile
    assert run.profile is not None
    with pytest.raises(TraceError, match="is not an xpuprof trace"):
        _ = run.times


def test_no_launch_is_one_slice(tmp_path: Path) -> None:
    found = process(tmp_path, None, traces.cpu(1))
    assert found.slices["kernel"].tolist() == ["SYS_exit"]
    assert found.slices["cpu_instructions"].tolist() == [13]
    assert found.gpu is None
    assert not len(found.launches)


def test_a_program_without_any_stream_is_one_slice(tmp_path: Path) -> None:
    run = xpuprof.open(traces.write_run(tmp_path / "run", None, None))
    assert run.profile is not None
    (found,) = run.profile.processes
    assert found.slices["kernel"].tolist() == ["SYS_exit"]
    assert found.cpu is None
    assert found.gpu is None
    assert found.name == "77"


def test_a_program_killed_before_any_stream_has_no_slice(tmp_path: Path) -> None:
    run = xpuprof.open(traces.write_run(tmp_path / "run", None, None, "partial", tsc_end=None))
    assert run.profile is not None
    (found,) = run.profile.processes
    assert not len(found.slices)
    assert not found.complete


def test_uninstrumented_launches_are_told(tmp_path: Path) -> None:
    """Launches that ran without counters, with the reason, or whose counts were never read."""
    records = [
        *traces.events()[:11],
        traces.launch(0, 0, 2000, reason="does not compile"),
        traces.launch(1, 1, 3000),
        traces.launch(2, 0, 4000),
        traces.launch_grid(2, 0),
        traces.end(3, 2),
    ]
    found = process(tmp_path, records, traces.cpu())
    assert found.launches["instrumented"].tolist() == [False, False, True]
    assert found.slices["instrumented"].tolist() == [False, False, True, True]
    assert found.launches["reason"].tolist() == ["does not compile", "", ""]
    assert found.gpu is not None
    assert found.gpu.launch_grid.tolist() == [-1, -1, 0]


def test_columns_have_the_same_types_without_launches(tmp_path: Path) -> None:
    """GIVEN a program that launches nothing THEN the columns of its tables, kernels' names among
    them, have the types that they have with launches."""
    launched = process(tmp_path / "a", traces.events(), traces.cpu())
    bare = process(tmp_path / "b", None, traces.cpu(1))
    for table in ("launches", "slices", "kernels"):
        assert types_of(getattr(bare, table)) == types_of(getattr(launched, table)), table


def types_of(table: pd.DataFrame) -> dict[str, str]:
    """The type of each column, with that of its names."""
    return {
        str(name): f"{column.dtype} {column.cat.categories.dtype if 'cat' in dir(column) else ''}"
        for name, column in table.items()
    }


# ---- runs that were cut short --------------------------------------------------------------------


@pytest.mark.parametrize("cuts", [0, 1, 2, 3])
def test_a_killed_process_holds_every_finished_slice(tmp_path: Path, cuts: int) -> None:
    """GIVEN 3 launches and `cuts` cut slices WHEN killed THEN these slices exist, without an exit
    slice."""
    records = traces.cpu()
    last = [i for i, r in enumerate(records) if r[0] == 6][cuts]
    found = process(tmp_path, traces.events()[:-1], records[:last], closed=False)
    assert not found.complete
    assert found.slices["kernel"].tolist() == ["a", "b", "a"][:cuts]
    assert len(found.launches) == cuts
    assert found.cpu is not None
    assert sorted(set(found.cpu.slice.tolist())) == list(range(cuts))
    assert len(found.cpu.slice_start) == cuts + 1
    assert int(found.cpu.slice_start[-1]) == len(found.cpu.count)


def test_a_slice_whose_counts_were_not_read_back_is_not_finished(tmp_path: Path) -> None:
    records = [r for r in traces.events()[:-1] if r != traces.launch_grid(2, 0)]
    found = process(tmp_path, records, None, closed=False)
    assert found.slices["kernel"].tolist() == ["a", "b"]


def test_a_killed_timer_run_keeps_its_launches(tmp_path: Path) -> None:
    records = [r for r in traces.events()[:-1] if r[0] != 9]
    found = process(tmp_path, records, None, closed=False, role="time")
    assert found.slices["kernel"].tolist() == ["a", "b", "a"]


def test_a_program_that_leaves_by_exit_has_its_last_slice(tmp_path: Path) -> None:
    """_exit() skips END; the supervisor saw the program's end, so the last slice ended too. The
    process is complete unless a launch waits for its counts."""
    found = process(tmp_path / "a", traces.events()[:-1], None, closed=False, complete=True)
    assert found.slices["kernel"].tolist() == ["a", "b", "a", "SYS_exit"]
    assert found.complete
    outstanding = [r for r in traces.events()[:-1] if r[0] != 9]  # LAUNCH_GRID
    found = process(tmp_path / "b", outstanding, None, closed=False, complete=True)
    assert not found.complete


def test_more_slices_than_launches_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"has 5 slices where the launches make 4.*xpuprof check"):
        process(tmp_path, traces.events(), traces.cpu(5))


def test_launches_out_of_order_are_refused(tmp_path: Path) -> None:
    records = traces.events()
    first = next(i for i, r in enumerate(records) if r[0] == 4)
    records[first] = traces.launch(2, 0, 2000)
    with pytest.raises(TraceError, match="not numbered in order"):
        process(tmp_path, records, None)


def test_processes_are_ordered_by_number(tmp_path: Path) -> None:
    for name in ("h-1000", "h-99", "other"):
        traces.write_process(tmp_path / name, None, traces.cpu(1))
    (tmp_path / "stdout").write_text("x")
    (tmp_path / "empty").mkdir()
    assert [p.name for p in process_folders(tmp_path)] == ["h-99", "h-1000", "other"]
