# SPDX-License-Identifier: Apache-2.0
"""k-means in one dimension on sorted values: exact for two clusters, by prefix sums.

STEM+ROOT (section 3.4) and Allegro (Algorithm 1) split the times of one kernel by k-means with k =
2. In one dimension an optimal cluster is an interval of the sorted values, so one pass finds the
best of the n - 1 cuts, without seeds, iterations or local optima.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xpuprof.arrays import F64, I64

ROUNDING = 1e-9
"""Relative differences below this are rounding: which of two equal choices is made must not depend
on the unit of the values."""


@dataclass(frozen=True, eq=False)
class Sorted:
    """Distinct values in ascending order with their counts; `ends`: cumulative counts.

    Clocks tick in nanoseconds or microseconds, so millions of times often have only a few thousand
    distinct values, which is what everything below works on.
    """

    values: F64
    counts: I64
    ends: I64

    def __len__(self) -> int:
        return len(self.values)

    @property
    def size(self) -> int:
        """Number of values, including repeats."""
        return int(self.ends[-1])

    def moments(self, low: int = 0, high: int | None = None) -> tuple[int, float, float]:
        """(number, mean, population standard deviation) of the distinct values [low, high)."""
        values = self.values[low:high]
        if len(values) == 1:
            return int(self.counts[low]), float(values[0]), 0.0
        counts = self.counts[low:high]
        number = int(counts.sum())
        mean = float(np.dot(values, counts) / number)
        spread = values - mean
        variance = float(np.dot(spread * spread, counts) / number)
        return number, mean, variance**0.5


def compress(ascending: F64) -> Sorted:
    """Distinct values of an ascending array."""
    new = np.empty(len(ascending), dtype=bool)
    new[0] = True
    np.not_equal(ascending[1:], ascending[:-1], out=new[1:])
    first = np.flatnonzero(new)
    ends = np.append(first[1:], len(ascending)).astype(np.int64)
    return Sorted(ascending[first], np.diff(ends, prepend=0), ends)


def two_means(data: Sorted, low: int, high: int) -> int:
    """The cut c that makes [low, c) and [c, high) the optimal two clusters (low < c < high), the
    first of equally good ones.

    Minimal within-cluster sum of squares is maximal S_l^2 / n_l + S_r^2 / n_r, with sums taken of
    values shifted by their mean (then S_r = -S_l), which keeps the differences exact.
    """
    values, counts = data.values[low:high], data.counts[low:high]
    number = int(counts.sum())
    mean = float(np.dot(values, counts) / number)
    left_sum = np.cumsum((values[:-1] - mean) * counts[:-1])
    left = np.cumsum(counts[:-1]).astype(np.float64)
    gain = left_sum * left_sum
    gain /= left * (number - left)
    return low + 1 + int(np.argmax(gain >= (1.0 - ROUNDING) * gain.max()))


def k_means(data: Sorted, low: int, high: int, k: int) -> list[int]:
    """Bounds [low, c1, ..., high] of at most k clusters of the distinct values [low, high).

    k = 2 is exact. For more, Lloyd's steps from quantiles; each step costs k binary searches.
    """
    k = min(k, high - low)
    if k < 2:
        return [low, high]
    if k == 2:
        return [low, two_means(data, low, high), high]
    values, counts = data.values[low:high], data.counts[low:high]
    sums = np.concatenate([[0.0], np.cumsum(values * counts)])
    numbers = np.concatenate([[0], np.cumsum(counts)])
    cuts = np.unique(np.linspace(0, high - low, k + 1).astype(np.int64))
    for _ in range(100):
        centres = np.diff(sums[cuts]) / np.diff(numbers[cuts])
        middle = np.searchsorted(values, (centres[1:] + centres[:-1]) / 2)
        moved = np.unique(np.concatenate([[0], middle, [high - low]]))
        if np.array_equal(moved, cuts):
            break
        cuts = moved
    return [low + int(cut) for cut in cuts]
