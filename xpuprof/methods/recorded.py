# SPDX-License-Identifier: Apache-2.0
"""The `SliceProfile` of recorded processes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import sparse

from xpuprof.clustering.allocation_by_times import SliceTimes
from xpuprof.methods.block_vectors import ProcessAtHand, RecordedVectors
from xpuprof.methods.profile import SliceProfile
from xpuprof.trace.layout import MIX
from xpuprof.trace.tables import Process

F64 = npt.NDArray[np.float64]

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
    own = [_metrics(process) for process in processes]
    common = set.intersection(*map(set, own))
    return SliceProfile(
        slices=slices,
        times=known.typical if known else None,
        metrics={
            metric: np.concatenate([metrics[metric] for metrics in own])
            for metric in own[0]
            if metric in common
        },
        gpu_vectors=lambda: _stacked(
            [_gpu_matrix(p) for p in processes],
            [p.gpu.blocks.identity if p.gpu else None for p in processes],
        ),
        cpu_vectors=lambda: _stacked(
            [_cpu_matrix(p) for p in processes],
            [p.cpu.blocks.identity if p.cpu else None for p in processes],
        ),
        vectors=RecordedVectors([ProcessAtHand(process) for process in processes]),
        repeats=known.repeats if known else 1,
        name=name,
        startup=True,
    )


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
    launches, warp_size = process.launches, process.meta.warp_size
    lanes = launches["lane_instructions"].to_numpy(np.float64)
    executed = process.slices["gpu_instructions"].to_numpy(np.float64)[: len(launches)]
    if not warp_size or not lanes.any() or (executed[lanes == 0.0] > 0.0).any():
        return {}
    values = np.zeros(len(process.slices))
    values[: len(launches)] = lanes / np.maximum(warp_size * executed, 1.0)
    return {"divergence_efficiency": values}


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
    grids = sparse.csr_matrix(
        (
            gpu.run_length.astype(np.float64),
            gpu.run_vector.astype(np.int64),
            gpu.grid_start.astype(np.int64),
        ),
        shape=(len(gpu.grid_start) - 1, vectors.shape[0]),
    )
    return (grids @ vectors).tocsr()


def _gpu_matrix(process: Process) -> sparse.csr_matrix | None:
    """slices x blocks, summed over the warps of each launch, weighted by instructions."""
    counts = _grid_counts(process)
    if counts is None or process.gpu is None:
        return None
    launched = np.flatnonzero(process.gpu.launch_grid >= 0)
    pick = sparse.csr_matrix(
        (np.ones(len(launched)), (launched, process.gpu.launch_grid[launched])),
        shape=(len(process.slices), counts.shape[0]),
    )
    weights = sparse.diags(process.gpu.blocks.instructions.astype(np.float64))
    return (pick @ counts @ weights).tocsr()


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
