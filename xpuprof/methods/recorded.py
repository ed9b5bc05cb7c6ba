# SPDX-License-Identifier: Apache-2.0
"""The `SliceProfile` of recorded processes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import sparse

from xpuprof.arrays import F64
from xpuprof.estimation.further_runs import SliceTimes
from xpuprof.methods.block_vectors import ProcessAtHand, RecordedVectors
from xpuprof.methods.profile import SliceProfile
from xpuprof.trace.layout import MIX
from xpuprof.trace.tables import GpuVectors, Process

CLASSES = 32
"""Warp classes of a launch that are told apart: launches that depend on data have one a warp."""

MIX_METRICS = {
    "global_loads": "LOAD_GLOBAL",
    "global_stores": "STORE_GLOBAL",
    "shared_loads": "LOAD_LOCAL",
    "shared_stores": "STORE_LOCAL",
    "private_accesses": "PRIVATE",
    "atomics": "ATOMIC",
}
"""Metrics of a recorded run and the instruction class that each counts (layout.MIX)."""


def from_process(process: Process, times: F64 | None = None, name: str = "run") -> SliceProfile:
    """The profile of a recorded process; `times` as in `from_processes`."""
    return from_processes(process.slices, [process], times, name)


def from_processes(
    slices: pd.DataFrame, processes: Sequence[Process], times: F64 | None = None, name: str = "run"
) -> SliceProfile:
    """The profile of recorded processes, concatenated; `slices` is their joint table, with a column
    `process` if there are several.

    `times`: float64[slices] or float64[repeats, slices] over all rows, seconds. Metrics count warp
    instructions: a load that 32 work-items of a warp execute counts once.
    """
    known = None if times is None else SliceTimes.of(times)
    return SliceProfile(
        slices=slices,
        times=known.typical if known else None,
        metrics=_Metrics(processes),
        gpu_vectors=lambda: _stacked(
            [_gpu_matrix(p) for p in processes],
            [p.gpu.blocks.identity if p.gpu else None for p in processes],
        ),
        cpu_vectors=lambda: _stacked(
            [_cpu_matrix(p) for p in processes],
            [p.cpu.blocks.identity if p.cpu else None for p in processes],
        ),
        class_vectors=lambda: _stacked(
            [class_matrix(p) for p in processes],
            [_of_ranks(p.gpu.blocks.identity) if p.gpu else None for p in processes],
        ),
        vectors=RecordedVectors([ProcessAtHand(process) for process in processes]),
        timed=known,
        name=name,
        startup=True,
    )


class _Metrics(Mapping[str, F64]):
    """Metrics that all of the processes have, concatenated; made on first use, since the default
    method does without."""

    def __init__(self, processes: Sequence[Process]) -> None:
        self._processes = processes

    @cached_property
    def _known(self) -> dict[str, F64]:
        own = [_metrics(process) for process in self._processes]
        common = set.intersection(*map(set, own))
        return {
            metric: np.concatenate([metrics[metric] for metrics in own])
            for metric in own[0]
            if metric in common
        }

    def __getitem__(self, metric: str) -> F64:
        return self._known[metric]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


def _metrics(process: Process) -> dict[str, F64]:
    counts = {
        column: process.slices[column].to_numpy(np.float64)
        for column in ("cpu_instructions", "gpu_instructions", "warps")
        if column in process.slices
    }
    return {**counts, **_mix(process)}


def _stacked(
    matrices: Sequence[sparse.csr_matrix | None],
    identities: Sequence[npt.NDArray[np.uint64] | None],
) -> sparse.csr_matrix | None:
    """Rows of all processes; a block has the same column in all of them. None when a process has no
    vectors."""
    if any(matrix is None for matrix in matrices):
        return None
    every, column = np.unique(
        np.concatenate([i for i in identities if i is not None]), return_inverse=True
    )
    parts, first = [], 0
    for matrix in matrices:
        assert matrix is not None
        entries = matrix.tocoo()
        place = column[first : first + matrix.shape[1]][entries.col]
        shape = (matrix.shape[0], len(every))
        parts.append(sparse.coo_matrix((entries.data, (entries.row, place)), shape=shape))
        first += matrix.shape[1]
    return sparse.vstack(parts).tocsr()


def _mix(process: Process) -> dict[str, F64]:
    """Executed instructions of every slice, by class."""
    counts = _grid_counts(process)
    if counts is None or process.gpu is None:
        return {}
    launched = np.flatnonzero(process.gpu.launch_grid >= 0)
    result = {}
    for metric, kind in MIX_METRICS.items():
        per_grid = np.asarray(counts @ process.gpu.mix[:, MIX[kind]].astype(np.float64)).ravel()
        values = np.zeros(len(process.slices))
        values[launched] = per_grid[process.gpu.launch_grid[launched]]
        result[metric] = values
    return result | _divergence(process)


def _divergence(process: Process) -> dict[str, F64]:
    """Share of active work-items per warp instruction, for every launch; empty when an instrumented
    launch does not record it."""
    warp_size = process.meta.warp_size
    lanes, executed = (
        process.slices[f"{of}_instructions"].to_numpy(np.float64) for of in ("lane", "gpu")
    )
    if not warp_size or not lanes.any() or (executed[lanes == 0.0] > 0.0).any():
        return {}
    return {"divergence_efficiency": lanes / np.maximum(warp_size * executed, 1.0)}


def _grid_counts(process: Process) -> sparse.csr_matrix | None:
    """Executions of each block, grids x blocks, summed over the warps."""
    gpu = process.gpu
    if gpu is None or len(gpu.vector_start) < 2:
        return None
    vectors = sparse.csr_matrix(
        (
            gpu.count.astype(np.float64),
            gpu.block.astype(np.int64),
            gpu.vector_start.astype(np.int64),
        ),
        shape=(len(gpu.vector_start) - 1, len(gpu.blocks.identity)),
    )
    return (_warps_of_vectors(gpu) @ vectors).tocsr()


def _warps_of_vectors(gpu: GpuVectors) -> sparse.csr_matrix:
    """Warps with each distinct vector, grids x vectors."""
    lengths = gpu.run_length.astype(np.float64)
    runs = (lengths, gpu.run_vector.astype(np.int64), gpu.grid_start.astype(np.int64))
    grids = sparse.csr_matrix(runs, shape=(len(gpu.grid_start) - 1, len(gpu.vector_start) - 1))
    grids.sum_duplicates()
    return grids


def _gpu_matrix(process: Process) -> sparse.csr_matrix | None:
    """slices x blocks, summed over the warps of each launch, weighted by instructions."""
    counts = _grid_counts(process)
    if counts is None or process.gpu is None:
        return None
    weights = sparse.diags(process.gpu.blocks.instructions.astype(np.float64))
    return _of_slices(process, (counts @ weights).tocsr())


def class_matrix(process: Process) -> sparse.csr_matrix | None:
    """slices x (rank of a warp class, block): a launch's classes, the largest first, each the
    shares of its instructions by block, weighted by its share of the warps. Classes from the
    CLASSES-th on count as one."""
    gpu = process.gpu
    if gpu is None or len(gpu.vector_start) < 2:
        return None
    blocks = len(gpu.blocks.identity)
    owner = np.repeat(np.arange(len(gpu.vector_start) - 1), np.diff(gpu.vector_start.astype(int)))
    work = gpu.count * gpu.blocks.instructions[gpu.block].astype(np.float64)
    total = np.bincount(owner, work, len(gpu.vector_start) - 1)
    vectors = sparse.csr_matrix(
        (work / np.maximum(total, 1.0)[owner], gpu.block, gpu.vector_start.astype(np.int64)),
        shape=(len(total), blocks),
    )
    grids = _warps_of_vectors(gpu)
    grid = np.repeat(np.arange(grids.shape[0]), np.diff(grids.indptr))
    # Equally large classes are in the order of their work, which repeats from run to run.
    order = np.lexsort((-total[grids.indices], -grids.data, grid))
    rank = np.minimum(np.arange(len(grid)) - grids.indptr[grid], CLASSES - 1)
    warps = np.bincount(grid, grids.data, grids.shape[0])
    entries = vectors[grids.indices[order]].tocoo()
    weight = (grids.data[order] / np.maximum(warps[grid], 1.0))[entries.row]
    places = grid[entries.row], rank[entries.row] * blocks + entries.col
    shape = (grids.shape[0], CLASSES * blocks)
    by_grid = sparse.coo_matrix((entries.data * weight, places), shape=shape).tocsr()
    return _of_slices(process, by_grid)


def _of_ranks(identity: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Identities of (rank of a warp class, block); the multiplier is odd, so they stay distinct."""
    rank = np.arange(CLASSES, dtype=np.uint64)[:, None] * np.uint64(0x9E3779B97F4A7C15)
    return (identity[None, :] + rank).ravel()


def _of_slices(process: Process, by_grid: sparse.csr_matrix) -> sparse.csr_matrix:
    """Rows of slices from rows of grids."""
    assert process.gpu is not None
    launched = np.flatnonzero(process.gpu.launch_grid >= 0)
    ones = (np.ones(len(launched)), (launched, process.gpu.launch_grid[launched]))
    pick = sparse.csr_matrix(ones, shape=(len(process.slices), by_grid.shape[0]))
    return (pick @ by_grid).tocsr()


def _cpu_matrix(process: Process) -> sparse.csr_matrix | None:
    """slices x blocks, summed over the threads, weighted by instructions."""
    cpu = process.cpu
    if cpu is None or not len(cpu.block):
        return None
    weighted = cpu.count.astype(np.float64) * cpu.blocks.instructions[cpu.block]
    return sparse.coo_matrix(
        (weighted, (cpu.slice.astype(np.int64), cpu.block.astype(np.int64))),
        shape=(len(process.slices), len(cpu.blocks.identity)),
    ).tocsr()
