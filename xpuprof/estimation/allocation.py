"""How many representatives a cluster gets: stratified sampling without replacement.

Cochran, Sampling Techniques (1977), chapter 5: with N slices, standard deviation s and m of them
measured in each cluster, the projected total has variance sum N^2 s^2 / m - sum N s^2; for costs a
it is least at m proportional to N s / sqrt(a).
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]

ASSUMED_SPREAD = 0.10
"""Coefficient of variation of slice times within a cluster, when it is not measured, of programs
with few slices: what slices of like vectors show on a quiet machine."""
AUTO_ERROR = 0.05
"""Error that `auto` asks for at Z standard errors when no target was given."""
Z = 1.959963984540054
"""97.5 % quantile of the normal distribution: two-sided 95 %."""


def assumed_spread(slices: int) -> float:
    """Coefficient of variation of slice times within a cluster, when it is not measured.

    The more slices, the shorter they are and the more of their time is jitter: beyond some 200 it
    grows with the fourth root of their number, which makes the representatives needed for
    AUTO_ERROR the square root of the slices.
    """
    return max(ASSUMED_SPREAD, AUTO_ERROR / Z * math.sqrt(math.sqrt(slices)))


def moments(labels: I32, times: F64, clusters: int) -> tuple[I64, F64, F64]:
    """(size, mean, standard deviation with n - 1) of the times in each cluster."""
    size = np.bincount(labels, minlength=clusters)
    mean = np.bincount(labels, times, clusters) / np.maximum(size, 1)
    square = np.bincount(labels, (times - mean[labels]) ** 2, clusters)
    return size, mean, np.sqrt(square / np.maximum(size - 1, 1))


def needed(size: I64, spread: F64, cost: F64, total: float, target: float, z: float = Z) -> I64:
    """Fewest representatives (by cost) a cluster, int64[k], so that z standard errors of the
    projected total stay below `target` x `total`.

    `spread` is s, `cost` the mean cost of a slice of the cluster. Every cluster gets at least 1 and
    at most all of its slices.
    """
    size_f = size.astype(np.float64)
    root_cost = np.sqrt(np.maximum(cost, cost[cost > 0.0].min() if np.any(cost > 0.0) else 1.0))
    full = np.zeros(len(size), dtype=bool)
    allowed = (target * total / z) ** 2 + float(np.sum(size_f * spread**2))
    # A cluster that is taken whole leaves the others more room: repeat until none is added.
    while True:
        rest = ~full
        room = allowed - float(np.sum(size_f[full] * spread[full] ** 2))
        scale = float(np.sum(size_f[rest] * spread[rest] * root_cost[rest])) / max(room, 1e-300)
        wanted = np.ceil(scale * size_f * spread / root_cost - 1e-9)
        over = rest & (wanted >= size_f) & (spread > 0.0)
        full |= over
        if not over.any():
            return np.where(full, size, np.clip(wanted, 1, size_f).astype(np.int64))


def affordable(size: I64, spread: F64, cost: F64, budget: float) -> I64:
    """Representatives a cluster, int64[k], of least variance whose cost stays within `budget`
    (at least one each, whatever that costs): m proportional to N s / sqrt(cost)."""
    base = np.ones(len(size), dtype=np.int64)
    share = size * spread / np.sqrt(np.maximum(cost, 1e-300))
    if not np.any(share > 0.0):
        return base
    low, high = 0.0, float(size.max()) / float(share[share > 0.0].min())
    best = base
    for _ in range(60):
        middle = (low + high) / 2.0
        trial = np.clip(np.floor(middle * share), 1, size).astype(np.int64)
        if float(np.dot(trial, cost)) <= budget:
            low, best = middle, trial
        else:
            high = middle
    return best


def split_off_extremes(labels: I32, times: F64, target: float, z: float = Z) -> I32:
    """Give slices whose time is far from their cluster's a cluster of their own, where that lowers
    the number of representatives needed in all.

    In survey sampling such units are known as the take-all stratum: a first call that compiles or
    warms up costs a hundred others, so it is measured for itself instead of widening the spread of
    all. `labels`: dense from 0, every slice covered; `times`: typical times, from enough repeats
    that one disturbed run does not make an extreme.
    """
    labels = labels.copy()
    size, mean, spread = moments(labels, times, int(labels.max()) + 1)
    total, alone, number = float(times.sum()), 0, len(size)
    for cluster in np.argsort(-size * spread, kind="stable").tolist():
        members = np.flatnonzero(labels == cluster)
        far = np.abs(times[members] - np.median(times[members]))
        order = members[np.argsort(-far, kind="stable")]
        best, fewest = 0, int(needed(size, spread, mean, total, target, z).sum()) + alone
        whole = (size[cluster], mean[cluster], spread[cluster])
        kept = whole
        for take in _steps(len(members)):
            rest = times[order[take:]]
            deviation = float(rest.std(ddof=1)) if len(rest) > 1 else 0.0
            size[cluster], mean[cluster], spread[cluster] = len(rest), rest.mean(), deviation
            # A slice that stands for itself is one representative and has no spread.
            count = int(needed(size, spread, mean, total, target, z).sum()) + alone + take
            if count < fewest:
                best, fewest = take, count
                kept = (size[cluster], mean[cluster], spread[cluster])
        size[cluster], mean[cluster], spread[cluster] = kept
        labels[order[:best]] = number + np.arange(best, dtype=np.int32)
        alone, number = alone + best, number + best
    return labels


def _steps(members: int) -> list[int]:
    """1, 2, 3, 4, 6, 8, 12, ... up to a tenth of the members."""
    steps = sorted({round(2 ** (i / 2)) for i in range(1, 40)} | {1})
    return [step for step in steps if step <= max(members // 10, 1) and step < members]
