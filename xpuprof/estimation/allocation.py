# SPDX-License-Identifier: Apache-2.0
"""How many representatives each cluster gets: stratified sampling without replacement.

Cochran, Sampling Techniques (1977), chapter 5: with N slices, standard deviation s and m of them
measured in each cluster, the projected total has variance sum N^2 s^2 / m - sum N s^2; for costs a
it is least at m proportional to N s / sqrt(a).
"""

from __future__ import annotations

import math

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


def fewest(size: I64, spread: F64, cost: F64, variance: float, *, replacement: bool = False) -> I64:
    """Least cost for a given variance of the projected total: representatives per cluster,
    int64[k].

    Neyman's allocation with costs, m proportional to N s / sqrt(a). `spread` is s, `cost` the mean
    cost a of a slice of the cluster. Every cluster gets at least 1 and, without replacement, at
    most all of its slices; with replacement the variance is sum N^2 s^2 / m.
    """
    size_f = size.astype(np.float64)
    root_cost = np.sqrt(np.maximum(cost, cost[cost > 0.0].min() if np.any(cost > 0.0) else 1.0))
    weight = size_f * spread
    # A cluster that is measured completely leaves the others more room, so repeat until none is
    # added. A single slice is, however little it varies: the others have its room from the start.
    whole = size == 1 if not replacement else np.zeros(len(size), dtype=bool)
    while True:
        rest = ~whole
        spared = 0.0 if replacement else float(np.dot(size_f[rest], spread[rest] ** 2))
        room = max(variance + spared, 1e-300)
        scale = float(np.sum(weight[rest] * root_cost[rest])) / room
        wanted = np.maximum(np.ceil(scale * weight / root_cost - 1e-9), 1.0)
        over = rest & (wanted >= size_f) & (spread > 0.0)
        if replacement or not over.any():
            return np.where(whole, size, wanted).astype(np.int64)
        whole |= over


def needed(size: I64, spread: F64, cost: F64, total: float, target: float) -> I64:
    """`fewest` so that the projected total is within `target`, a fraction, of `total` at 95 %."""
    return fewest(size, spread, cost, (target * total / z_score()) ** 2)


def affordable(size: I64, spread: F64, cost: F64, budget: float, most: float = math.inf) -> I64:
    """Representatives per cluster, int64[k], with the least variance within `budget`, and `most` in
    all (at least one each, at any cost): m proportional to N s / sqrt(cost)."""
    base = np.ones(len(size), dtype=np.int64)
    share = size * spread / np.sqrt(np.maximum(cost, 1e-300))
    # The spread of equal times is rounding; a scale that gave them representatives has no bound.
    share[share < 1e-9 * share.max()] = 0.0
    if not np.any(share > 0.0):
        return base
    low, high = 0.0, float(size.max()) / float(share[share > 0.0].min())
    best = base
    for _ in range(60):
        middle = (low + high) / 2.0
        trial = np.clip(np.floor(middle * share), 1, size).astype(np.int64)
        if float(np.dot(trial, cost)) <= budget and trial.sum() <= most:
            low, best = middle, trial
        else:
            high = middle
    return best
