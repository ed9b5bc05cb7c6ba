# SPDX-License-Identifier: Apache-2.0
"""How many representatives each cluster gets: stratified sampling without replacement.

Cochran, Sampling Techniques (1977), chapter 5: with N slices, standard deviation s and m of them
measured in each cluster, the projected total has variance sum N^2 s^2 / m - sum N s^2; for costs a
it is least at m proportional to N s / sqrt(a).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

import numpy as np

from xpuprof.arrays import F64, I32, I64
from xpuprof.estimation.quantiles import z_score

ASSUMED_SPREAD = 0.10
"""Assumed coefficient of variation of slice times within a cluster, for programs with few slices:
what slices with similar vectors show on a quiet machine."""
AUTO_ERROR = 0.05
"""Error at 95 % that `auto` aims for without a target."""
FAR = 3.0
"""A slice is unlike its cluster if it takes this many times the cluster's median."""


def assumed_spread(slices: int) -> float:
    """Assumed coefficient of variation of slice times within a cluster.

    More slices are shorter, and more of their time is jitter: beyond some 200 slices the value
    grows with the fourth root of their number, so AUTO_ERROR needs as many representatives as the
    square root of the slices.
    """
    return max(ASSUMED_SPREAD, AUTO_ERROR / z_score() * math.sqrt(math.sqrt(slices)))


def moments(labels: I32, times: F64, clusters: int, lost_freedom: int = 1) -> tuple[I64, F64, F64]:
    """(size, mean, standard deviation) of the times in each cluster; the deviation is the sample's
    (n - 1), with `lost_freedom` 0 the population's."""
    size = np.bincount(labels, minlength=clusters)
    mean = np.bincount(labels, times, clusters) / np.maximum(size, 1)
    square = np.bincount(labels, (times - mean[labels]) ** 2, clusters)
    return size, mean, np.sqrt(square / np.maximum(size - lost_freedom, 1))


def fewest(size: I64, spread: F64, cost: F64, variance: float) -> I64:
    """Representatives per cluster, int64[k], for a given variance of the projected total at least
    cost; the least number there is if all slices cost the same.

    `spread` is s, `cost` the mean cost a of a slice of the cluster. Every cluster gets at least 1
    and at most all of its slices.
    """
    strata = _Strata.of(size, spread, cost)
    allowed = (variance + strata.all_measured) * (1.0 + 1e-12)  # rounding

    def misses(counts: I64) -> bool:
        return strata.variance(counts) > allowed

    counts = strata.worthwhile(misses)
    for cluster in strata.steps(counts):
        if not misses(counts):
            break
        counts[cluster] += 1
    # With unequal costs the last step may have made others needless.
    for cluster in np.argsort(-cost, kind="stable"):
        while counts[cluster] > 1:
            counts[cluster] -= 1
            if misses(counts):
                counts[cluster] += 1
                break
    return counts


def needed(size: I64, spread: F64, cost: F64, total: float, target: float) -> I64:
    """`fewest` so that the projected total is within `target`, a fraction, of `total` at 95 %."""
    return fewest(size, spread, cost, (target * total / z_score()) ** 2)


def affordable(size: I64, spread: F64, cost: F64, budget: float, most: float = math.inf) -> I64:
    """Representatives per cluster, int64[k], with the least variance within `budget`, and `most` in
    all (at least one each, at any cost): those that lower it most for their cost, up to the first
    that is too expensive. What is left of the budget buys little."""
    strata = _Strata.of(size, spread, cost)

    def within(counts: I64) -> bool:
        return float(np.dot(counts, cost)) <= budget and int(counts.sum()) <= most

    counts = strata.worthwhile(within)
    for cluster in strata.steps(counts):  # of those worth the same, as many as are affordable
        counts[cluster] += 1
        if not within(counts):
            counts[cluster] -= 1
            break
    return counts


def positive(cost: F64) -> F64:
    """The costs, those of 0 raised to the least of the others."""
    return np.maximum(cost, cost[cost > 0.0].min() if np.any(cost > 0.0) else 1.0)


@dataclass(frozen=True, eq=False)
class _Strata:
    """Clusters of `size` slices each, with `square` N^2 s^2 and `worth` N^2 s^2 / cost."""

    size: I64
    square: F64
    worth: F64
    all_measured: float
    """`variance` when every slice is measured."""

    @classmethod
    def of(cls, size: I64, spread: F64, cost: F64) -> _Strata:
        """The spread of equal times, which is rounding, counts as 0."""
        weight = size * spread
        weight[weight <= 1e-9 * weight.max()] = 0.0
        square = weight**2
        return cls(size, square, square / positive(cost), float(np.sum(square / size)))

    def variance(self, counts: I64) -> float:
        """Variance of the projected total plus `all_measured`."""
        return float((self.square / counts).sum())

    def worthwhile(self, accepted: Callable[[I64], bool]) -> I64:
        """All steps (see there) worth some bound or more, whose result is `accepted`, and hardly
        more would be; one slice of each cluster if none is. Fewer steps must be accepted, too."""
        best = np.ones(len(self.size), np.int64)
        varies = self.worth > 0.0
        if not varies.any():
            return best
        # The step from m slices is worth `worth` / (m (m + 1)); the bound is 1 / middle.
        beyond = np.where(varies, self.size, 1)
        low, high = 0.0, 4.0 * float(self.size.max()) ** 2 / float(self.worth[varies].min())
        while int((beyond - best).sum()) > len(best):
            middle = (low + high) / 2.0
            taken = np.floor(0.5 + np.sqrt(0.25 + middle * self.worth))
            trial = np.minimum(taken, self.size).astype(np.int64)
            if accepted(trial):
                low, best = middle, trial
            else:
                high, beyond = middle, trial
        return best

    def steps(self, counts: I64) -> Iterator[int]:
        """Clusters of which one slice more lowers the variance most for its cost, best first. The
        caller adds each to `counts`, or stops."""

        def step(cluster: int) -> tuple[float, int]:
            count = float(counts[cluster])
            return -self.worth[cluster] / (count * (count + 1.0)), cluster

        heap = [step(int(cluster)) for cluster in np.flatnonzero(self.worth > 0.0)]
        heapify(heap)
        while heap:
            _, cluster = heappop(heap)
            if counts[cluster] < self.size[cluster]:
                yield cluster
                heappush(heap, step(cluster))
