# SPDX-License-Identifier: Apache-2.0
"""Synthetic processes for the tests of signature and selection."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from tests.support.processes import process_from
from xpuprof.methods import registry
from xpuprof.methods.recorded import from_process
from xpuprof.selection.selection import Selection
from xpuprof.signature.matrix import Projection, Signature, signatures
from xpuprof.trace.tables import Blocks, CpuVectors, GpuVectors, Process, Tables


def select(
    method: str,
    process: Process,
    *,
    seed: int,
    times: npt.NDArray[np.float64] | None = None,
    **options: Any,
) -> Selection:
    """Select from a process; `times` are its slices' times in one or several timer runs."""
    return registry.select(from_process(process, times), method, seed=seed, **options)


def signature_of(process: Process, *, ends: bool = True, **projection: Any) -> Signature:
    """The signature of one process."""
    return signatures([process], Projection(**projection), ends)[0]


def process_of(
    kinds: list[int],
    *,
    lengths: list[int] | None = None,
    cpu: bool = True,
    gpu: bool = True,
    seed: int = 0,
    warps: int = 8,
) -> Process:
    """A process whose launch i runs kernel `kinds[i]` (own blocks, count x lengths[i]), with two
    CPU threads; the first slice has its own start-up code."""
    rng = np.random.default_rng(seed)
    launches = len(kinds)
    lengths = lengths or [1] * launches
    kernels = max(kinds) + 1
    names = [f"kernel {k}" for k in kinds]
    calls = [names[: i + 1].count(name) for i, name in enumerate(names)]
    table = pd.DataFrame(
        {
            "lane_instructions": 0,
            "kernel": names,
            "call": calls,
            "program": "ab" * 16,
            "gx": [warps * 32 * n for n in lengths],
            "gy": 1,
            "gz": 1,
            "lx": 32,
            "ly": 1,
            "lz": 1,
            "instrumented": gpu,
        }
    )
    end = pd.DataFrame([{"kernel": "SYS_exit", "call": 1, "program": ""}])
    slices = pd.concat([table, end], ignore_index=True)
    slices.insert(0, "slice", np.arange(launches + 1))
    for column in ("gx", "gy", "gz", "lx", "ly", "lz", "lane_instructions"):
        slices[column] = slices[column].fillna(0).astype(int)
    cpu_vectors = _cpu(kinds, rng) if cpu else None
    gpu_vectors = _gpu(kinds, lengths, kernels, warps) if gpu else None
    slices["cpu_instructions"] = _cpu_total(cpu_vectors, launches + 1)
    slices["gpu_instructions"] = _gpu_total(gpu_vectors, launches + 1)
    empty = pd.DataFrame()
    return process_from(Tables(slices, empty, gpu_vectors, empty, empty, empty), cpu_vectors)


def _cpu(kinds: list[int], rng: np.random.Generator) -> CpuVectors:
    blocks = 40
    rows = []
    for s in range(len(kinds) + 1):
        code = range(20, 40) if s == 0 else range(5) if s < len(kinds) else range(10, 14)
        rows += [(s, thread, block, 100 + 10 * thread) for thread in (0, 1) for block in code]
    slice_, thread, block, count = (np.array(column) for column in zip(*rows, strict=True))
    starts = np.searchsorted(slice_, np.arange(len(kinds) + 2))
    return CpuVectors(
        thread.astype(np.uint32), block.astype(np.uint32),
        count.astype(np.uint64), starts.astype(np.uint64),
        Blocks(rng.integers(1, 2**63, blocks, dtype=np.uint64), np.full(blocks, 5, np.uint32)),
    )  # fmt: skip


def _gpu(kinds: list[int], lengths: list[int], kernels: int, warps: int) -> GpuVectors:
    """Kernel k owns blocks 3k..3k+2; the last warp leaves early; one grid per (kernel, length)."""
    distinct = sorted(set(zip(kinds, lengths, strict=True)))
    runs, run_lengths, grid_start = [], [], [0]
    vector_start: list[int] = [0]
    block: list[int] = []
    count: list[int] = []
    for kernel, length in distinct:
        for full in (True, False):
            owned = range(3 * kernel, 3 * kernel + (3 if full else 1))
            block += owned
            count += [10 + b for b in owned]
            vector_start.append(len(block))
        runs += [len(vector_start) - 3, len(vector_start) - 2]
        run_lengths += [warps * length - 1, 1]
        grid_start.append(len(runs))
    grid = [distinct.index(pair) for pair in zip(kinds, lengths, strict=True)]
    u64, u32 = np.uint64, np.uint32
    return GpuVectors(
        launch_grid=np.array(grid, np.int64),
        grid_start=np.array(grid_start, u64),
        run_vector=np.array(runs, u32),
        run_length=np.array(run_lengths, u64),
        vector_start=np.array(vector_start, u64),
        block=np.array(block, u32),
        count=np.array(count, u64),
        blocks=Blocks(
            np.arange(1, 3 * kernels + 1, dtype=u64) * 7919, np.full(3 * kernels, 4, u32)
        ),
        kernel_block_start=np.arange(0, 3 * kernels + 1, 3).astype(u64),
        mix=np.zeros((3 * kernels, 12), np.uint16),
    )


def _cpu_total(cpu: CpuVectors | None, slices: int) -> np.ndarray:
    if cpu is None:
        return np.zeros(slices, np.int64)
    weighted = cpu.count * cpu.blocks.instructions[cpu.block]
    return np.bincount(cpu.slice, weighted, slices).astype(np.int64)


def _gpu_total(gpu: GpuVectors | None, slices: int) -> np.ndarray:
    total = np.zeros(slices, np.int64)
    if gpu is None:
        return total
    for launch, grid in enumerate(gpu.launch_grid):
        for run in range(int(gpu.grid_start[grid]), int(gpu.grid_start[grid + 1])):
            vector = int(gpu.run_vector[run])
            part = slice(int(gpu.vector_start[vector]), int(gpu.vector_start[vector + 1]))
            one = (gpu.count[part] * gpu.blocks.instructions[gpu.block[part]]).sum()
            total[launch] += int(one) * int(gpu.run_length[run])
    return total
