# SPDX-License-Identifier: Apache-2.0
"""How many slices before one have to be simulated so that a cache holds what it held in the whole
run, from LRU stack distances.

A line that is touched at distance d < C, with C lines in an LRU cache, was touched last among the
d + 1 most recent lines. So C lines before the slice suffice, and fewer where the slice reaches less
far back. A window's lines are at least the smallest W for which its touches can be explained: a
touch at distance d is either the window's first of a line, or comes after d + 1 other lines of it.

Distances are known by powers of two, so that W may be half of the truth and a buffer that every
slice reads would never be found. A window whose W reaches the lower end of the bucket in question
is therefore doubled, and taken if that is less than the window that is certain.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from xpuprof.arrays import U32, U64
from xpuprof.errors import InputError
from xpuprof.trace.layout import LDV_BUCKETS
from xpuprof.trace.tables import Process

LINE = 64
TOLERANCE = 0.01
"""Misses of a slice that may be wrong, as a share of all."""
_LEAST = np.array([0.0, *(2.0**b for b in range(LDV_BUCKETS - 2))])
"""The smallest distance of each bucket but the last, which holds first touches."""


def warmup(process: Process, device: bool, slices: Iterable[int], size: int) -> dict[int, int]:
    """Slices to warm before each of `slices` for an LRU cache of `size` bytes: the device's, or one
    of each CPU thread. Raises InputError when the run has no stack distances."""
    stacks = _stacks(process, device)
    if not stacks:
        raise InputError(
            f"the run has no stack distances of the {'device' if device else 'CPU'}, which tell "
            "how much to warm; record it with --memory"
        )
    if process.window is not None:
        raise InputError(
            f"the run covers only the window {process.window.spec}, so what came before a slice is "
            "unknown; record the whole program with --memory"
        )
    lines = max(size // LINE, 1)
    return {
        row: max(preceding(owner, count, row, lines) for owner, count in stacks) for row in slices
    }


def _stacks(process: Process, device: bool) -> list[tuple[U32, U64]]:
    """(slice, distances) of the device, or of each CPU thread."""
    if device:
        found = process.device_distances
        return [] if found is None else [(found.launch, found.count)]
    cpu = process.distances
    threads = [] if cpu is None else [cpu.thread == each for each in np.unique(cpu.thread)]
    return [(cpu.slice[own], cpu.count[own]) for own in threads if cpu is not None]


def preceding(owner: U32, count: U64, row: int, lines: int) -> int:
    """Slices to warm before slice `row` for a cache of `lines`, from one stack: `count[i]` are the
    distances of slice `owner[i]`, in ascending order of slices."""
    first, last = np.searchsorted(owner, [row, row + 1]).tolist()
    bucket = _reach(count[first:last].sum(axis=0), lines)
    certain, likely = min(2.0**bucket, lines) if bucket else 0.0, _LEAST[bucket] + 1
    window = np.zeros(count.shape[1], np.uint64)
    start, enough = row, 0
    for i in range(first - 1, -1, -1):
        lines_of_window = _distinct(window)
        enough = enough or (2 * start - row if lines_of_window >= likely else 0)
        if lines_of_window >= certain or (enough and start <= enough):
            break
        window += count[i]
        start = int(owner[i])
    return row - start


def _reach(own: U64, lines: int) -> int:
    """The last bucket of distances that must hit, so that at most TOLERANCE of the misses are
    wrong; 0: nothing from before the slice is needed."""
    inside = min((lines - 1).bit_length(), LDV_BUCKETS - 2)  # the last bucket of hits
    wrong, allowed = 0, TOLERANCE * float(own[inside + 1 :].sum())
    for bucket in range(inside, 0, -1):
        wrong += int(own[bucket])
        if wrong > allowed:
            return bucket
    return 0


def _distinct(window: U64) -> int:
    """At least so many lines were touched."""
    new = np.cumsum(window[::-1])[::-1]  # if all from a bucket on are first touches
    reused = np.where(window[:-1] > 0, _LEAST + 1, 0)
    reused = np.append(0, np.maximum.accumulate(reused))  # if none below it is
    return int(np.maximum(new, reused).min())
