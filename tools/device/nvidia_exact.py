# SPDX-License-Identifier: Apache-2.0
"""Compares what `exact` counted for itself with the per-warp vectors in a run directory.

    python nvidia_exact.py RUN EXPECTED [RUN_LANE]    (EXPECTED: the lines that `exact` printed)

A launch is exact when one of its blocks was executed by every warp exactly as often as the kernel
counted. With RUN_LANE, recorded with XPUPROF_COUNT_UNIT=lane, the lane instructions that RUN states
of each launch must be those that RUN_LANE counted block by block. Ends with 1 when a launch is not
exact, or has no vectors.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

import xpuprof
from xpuprof.trace.tables import GpuVectors


def per_warp(gpu: GpuVectors, launch: int) -> np.ndarray | None:
    """Counts of a launch, warps x blocks (all kernels' blocks); None without vectors."""
    grid = int(gpu.launch_grid[launch])
    if grid < 0:
        return None
    runs = slice(int(gpu.grid_start[grid]), int(gpu.grid_start[grid + 1]))
    rows = []
    for vector, length in zip(gpu.run_vector[runs], gpu.run_length[runs], strict=True):
        row = np.zeros(len(gpu.blocks.identity), np.uint64)
        pairs = slice(int(gpu.vector_start[vector]), int(gpu.vector_start[vector + 1]))
        row[gpu.block[pairs]] = gpu.count[pairs]
        rows += [row] * int(length)
    return np.array(rows)


def wrong_lanes(stated: list[int], lane_run: str) -> int:
    """Number of launches whose lane instructions differ from the sum of the thread-level counts."""
    run = xpuprof.open(lane_run)
    assert run.profile is not None
    counted = run.profile.processes[0].slices["gpu_instructions"].tolist()[:-1]
    if len(counted) != len(stated):
        print(f"launches: {len(stated)} in one run, {len(counted)} in the other")
        return len(stated)
    for launch, (one, other) in enumerate(zip(stated, counted, strict=True)):
        if one != other:
            print(f"{launch:3d} lane instructions: {one} stated, {other} counted")
    return sum(one != other for one, other in zip(stated, counted, strict=True))


def main() -> int:
    """Prints one line per launch."""
    run = xpuprof.open(sys.argv[1])
    assert run.profile is not None
    process = run.profile.processes[0]
    lines = [json.loads(line) for line in Path(sys.argv[2]).read_text().splitlines()]
    wrong = 0
    if len(process.launches) != len(lines):
        print(f"launches: {len(process.launches)} recorded, {len(lines)} made")
        return 1
    for launch, expected in enumerate(lines):
        counts = None if process.gpu is None else per_warp(process.gpu, launch)
        want = np.array(expected["counts"], np.uint64)
        name = process.launches["kernel"].iloc[launch]
        if counts is None or len(counts) != len(want):
            good = False
        else:
            good = bool((counts == want[:, None]).all(axis=0).any())
        wrong += not good
        print(
            f"{launch:3d} {expected['kernel']:12s} {name:40.40s} {len(want):5d} warps "
            f"{'exact' if good else 'WRONG'}"
        )
    if len(sys.argv) > 3:
        wrong += wrong_lanes(process.launches["lane_instructions"].tolist(), sys.argv[3])
    print(f"{len(lines) - wrong} of {len(lines)} launches exact")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
