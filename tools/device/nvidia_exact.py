# SPDX-License-Identifier: Apache-2.0
"""Compares what `exact` counted for itself with the per-warp vectors in a run directory.

    python nvidia_exact.py RUN COUNTS [--lanes RUN_LANE] [--some]

COUNTS is the file that `exact` wrote in that very run. A launch is exact when one of its blocks was
executed by every warp exactly as often as the kernel counted, or the sum of as many blocks as the
kernel counts in. With RUN_LANE, recorded with XPUPROF_COUNT_UNIT=lane, the lane instructions that
RUN states of each launch must be those that RUN_LANE counted block by block. Ends with 1 when a
launch is wrong, or has no vectors; with --some, launches without vectors are listed with their
reasons.
"""

from __future__ import annotations

import argparse
import itertools
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


def is_exact(counts: np.ndarray, want: np.ndarray, blocks: int) -> bool:
    """Whether some `blocks` of the launch's blocks (`counts`: warps x all blocks) sum to `want`."""
    if len(counts) != len(want):
        return False
    some = itertools.combinations(counts.T, blocks)
    return any((np.sum(columns, axis=0) == want).all() for columns in some)


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
    parser = argparse.ArgumentParser()
    parser.add_argument("run")
    parser.add_argument("counts", type=Path)
    parser.add_argument("--lanes")
    parser.add_argument("--some", action="store_true")
    options = parser.parse_args()
    run = xpuprof.open(options.run)
    assert run.profile is not None
    process = run.profile.processes[0]
    lines = [json.loads(line) for line in options.counts.read_text().splitlines()]
    if len(process.launches) != len(lines):
        print(f"launches: {len(process.launches)} recorded, {len(lines)} made")
        return 1
    wrong = uncounted = 0
    for launch, expected in enumerate(lines):
        counts = None if process.gpu is None else per_warp(process.gpu, launch)
        want = np.array(expected["counts"], np.uint64)
        row = process.launches.iloc[launch]
        if counts is None:
            uncounted += 1
            found = f"uncounted: {row['reason']}"
        else:
            good = is_exact(counts, want, expected["blocks"])
            wrong += not good
            found = "exact" if good else "WRONG"
        print(
            f"{launch:3d} {expected['kernel']:12s} {row['kernel']:40.40s} {len(want):5d} warps "
            f"{found}"
        )
    stated = process.launches["lane_instructions"].tolist()
    lanes = wrong_lanes(stated, options.lanes) if options.lanes else 0
    exact = len(lines) - wrong - uncounted
    print(f"{exact} of {len(lines)} launches exact, {wrong} wrong, {uncounted} uncounted")
    return int(wrong > 0 or lanes > 0 or (uncounted > 0 and not options.some))


if __name__ == "__main__":
    sys.exit(main())
