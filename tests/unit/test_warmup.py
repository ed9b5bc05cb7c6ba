# SPDX-License-Identifier: Apache-2.0
"""Slices to warm, judged by a cache: misses with and without, against those of the whole run."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
import pytest

from xpuprof.trace.layout import LDV_BUCKETS
from xpuprof.trace.warmup import TOLERANCE, preceding


def made_up_slices(seed: int) -> list[list[int]]:
    """Lines that each slice touches: streams over buffers that several kernels share, random
    reads, and a loop over little memory."""
    rng = np.random.default_rng(seed)
    slices = []
    for number in range(60):
        kind = number % 4
        buffer = 1000 * int(rng.integers(3))
        if kind == 0:
            touched = list(range(buffer, buffer + int(rng.integers(20, 120))))
        elif kind == 1:
            touched = (buffer + rng.integers(0, 90, 150)).tolist()
        elif kind == 2:
            touched = (5000 + rng.integers(0, 12, 80)).tolist()
        else:
            touched = [10_000 + 100 * number + i // 3 for i in range(100)]
        slices.append(touched)
    return slices


def histograms(slices: list[list[int]]) -> np.ndarray:
    """Stack distances of each slice, by a stack that is searched from its top."""
    stack: list[int] = []
    count = np.zeros((len(slices), LDV_BUCKETS), np.uint64)
    for number, touched in enumerate(slices):
        for line in touched:
            if line in stack:
                distance = len(stack) - 1 - stack.index(line)
                count[number, distance.bit_length()] += np.uint64(1)
                stack.remove(line)
            else:
                count[number, LDV_BUCKETS - 1] += np.uint64(1)
            stack.append(line)
    return count


def misses(slices: list[list[int]], lines: int) -> list[int]:
    """Misses of an LRU cache that is empty at the beginning, by slice."""
    cache: OrderedDict[int, None] = OrderedDict()
    found = []
    for touched in slices:
        missed = 0
        for line in touched:
            missed += line not in cache
            cache[line] = None
            cache.move_to_end(line)
            if len(cache) > lines:
                cache.popitem(last=False)
        found.append(missed)
    return found


@pytest.mark.parametrize("lines", [16, 64, 100, 256])
def test_the_misses_of_a_warmed_slice_are_those_of_the_whole_run(lines: int) -> None:
    """GIVEN slices that share memory WHEN each is simulated alone, after as many slices as advised
    THEN its misses are right but for a few; cold, they are not; and the advice is not all
    slices."""
    cold_error = error = in_all = advised = before = 0
    for seed in range(3):
        slices = made_up_slices(seed)
        owner, count = np.arange(len(slices), dtype=np.uint32), histograms(slices)
        truth = misses(slices, lines)
        for row in range(len(slices)):
            warm = preceding(owner, count, row, lines)
            alone = misses(slices[row - warm : row + 1], lines)[-1]
            error, in_all = error + abs(alone - truth[row]), in_all + truth[row]
            cold_error += misses(slices[row : row + 1], lines)[0] - truth[row]
            advised, before = advised + warm, before + row
    assert error <= TOLERANCE * in_all and 5 * error <= cold_error
    assert advised < before / 2


@pytest.mark.parametrize("buffer", [33, 60, 64])
def test_a_buffer_that_every_slice_reads_is_warmed_by_few_slices(buffer: int) -> None:
    """GIVEN a buffer that fits the cache with room to spare THEN two slices warm it, however long
    the run is."""
    slices = [list(range(buffer))] * 40
    owner, count = np.arange(40, dtype=np.uint32), histograms(slices)
    assert [preceding(owner, count, row, 4096) for row in (1, 2, 39)] == [1, 2, 2]


def test_nothing_is_warmed_without_need() -> None:
    """GIVEN slices that touch only new lines, or that touch nothing THEN none before is needed."""
    slices = [[10 * n + i for i in range(10)] for n in range(5)]
    count = histograms(slices)
    owner = np.arange(5, dtype=np.uint32)
    assert [preceding(owner, count, row, 64) for row in range(5)] == [0] * 5
    assert preceding(owner[:3], count[:3], 4, 64) == 0
