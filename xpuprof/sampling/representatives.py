"""From clusters to representatives: which slices, how many a cluster, with which multipliers."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]

ASSUMED_SPREAD = 0.10
"""Coefficient of variation of slice times within a cluster when none was measured: what slices of
like vectors show on a quiet machine. With it `auto` takes some 15 slices beside one a cluster."""
AUTO_ERROR = 0.05
"""Error that `auto` asks for at AUTO_Z standard errors when no target was given."""
AUTO_Z = 1.959963984540054
"""97.5 % quantile of the normal distribution: two-sided 95 %."""


@dataclass(frozen=True, eq=False)
class Picks:
    """Rows of equal length, one a representative: its slice, its cluster, how many slices it stands
    for (the size of its part of the cluster)."""

    slice: I64
    cluster: I64
    stands_for: F64


def pick(labels: I32, distance2: F64, representatives: I64, early: float | None = None) -> Picks:
    """`representatives[c]` slices of each cluster c (0: none).

    A cluster's slices, in the order of the run, are cut into that many runs of equal size; each run
    is represented by its slice nearest to the centroid. Several representatives are thus spread
    over the run, and see drift and disturbances in proportion. Among equally near slices the one
    in the middle of its run is taken: the first is where caches are cold and code is compiled.

    With `early` (a fraction of the cluster's root mean square radius) the earliest slice is taken
    that lies no more than that farther from the centroid than the nearest; 0 gives SimPoint's ties.
    """
    order = np.argsort(labels, kind="stable")
    starts = np.searchsorted(labels[order], np.arange(len(representatives) + 1))
    chosen: list[tuple[int, int, int]] = []
    for cluster, wanted in enumerate(representatives):
        members = order[starts[cluster] : starts[cluster + 1]]
        wanted = min(int(wanted), len(members))
        if not wanted:
            continue
        radius = float(np.sqrt(distance2[members].mean()))
        cuts = np.arange(wanted + 1) * len(members) // wanted
        for begin, end in pairwise(cuts.tolist()):
            run = members[begin:end]
            chosen.append((_of_run(run, distance2[run], radius, early), cluster, end - begin))
    chosen.sort()
    rows = np.array(chosen, dtype=np.int64).reshape(-1, 3)
    return Picks(rows[:, 0], rows[:, 1], rows[:, 2].astype(np.float64))


def _of_run(run: npt.NDArray[np.intp], distance2: F64, radius: float, early: float | None) -> int:
    if early is None:
        near = np.flatnonzero(distance2 == distance2.min())
        return int(run[near[np.argmin(np.abs(2 * near - (len(run) - 1)))]])
    bound = np.sqrt(distance2.min()) + early * radius
    return int(run[np.argmax(np.sqrt(distance2) <= bound)])


def needed(size: I64, spread: F64, cost: F64, total: float, target: float, z: float) -> I64:
    """Fewest representatives (by cost) a cluster, int64[k], so that z standard errors of the
    projected total stay below `target` x `total`.

    Stratified sampling without replacement (Cochran, Sampling Techniques, 5.5): the variance is
    sum N^2 s^2 / m - sum N s^2; for costs a it is least at m proportional to N s / sqrt(a).
    `spread` is s, `cost` the mean cost of a slice of the cluster. Every cluster gets at least 1 and
    at most all of its slices.
    """
    size_f = size.astype(np.float64)
    root_cost = np.sqrt(np.maximum(cost, cost[cost > 0.0].min() if np.any(cost > 0.0) else 1.0))
    full = np.zeros(len(size), dtype=bool)
    result = np.ones(len(size), dtype=np.int64)
    allowed = (target * total / z) ** 2 + float(np.sum(size_f * spread**2))
    # A cluster that is taken whole leaves the others more room: repeat until none is added.
    while True:
        rest = ~full
        room = allowed - float(np.sum(size_f[full] * spread[full] ** 2))
        scale = float(np.sum(size_f[rest] * spread[rest] * root_cost[rest])) / max(room, 1e-300)
        wanted = np.ceil(scale * size_f * spread / root_cost - 1e-9)
        result = np.where(full, size, np.clip(wanted, 1, size_f).astype(np.int64))
        over = rest & (wanted >= size_f) & (spread > 0.0)
        if not over.any():
            return result
        full |= over


def affordable(size: I64, spread: F64, cost: F64, budget: float) -> I64:
    """Representatives a cluster, int64[k], of least variance whose cost stays within `budget`
    (at least one each, whatever that costs): m proportional to N s / sqrt(cost)."""
    base = np.ones(len(size), dtype=np.int64)
    share = size * spread / np.sqrt(np.maximum(cost, 1e-300))
    low, high = 0.0, float(size.max()) / max(float(share[share > 0.0].min(initial=np.inf)), 1e-300)
    if not np.any(share > 0.0):
        return base
    best = base
    for _ in range(60):
        middle = (low + high) / 2.0
        trial = np.clip(np.floor(middle * share), 1, size).astype(np.int64)
        if float(np.dot(trial, cost)) <= budget:
            low, best = middle, trial
        else:
            high = middle
    return best
