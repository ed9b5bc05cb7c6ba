# SPDX-License-Identifier: Apache-2.0
"""How many clusters and how many representatives of each, when slice times are known.

For every k, stratified sampling gives the representatives (allocation.py). The best k meets the
target error in the least time, or has the least variance within the budget. More clusters are
tighter, but each costs at least one representative.

Kernels that happen to take equal times here may differ elsewhere, so equal times alone must not put
them in one cluster. The variance is therefore the one anticipated when the times of the groups that
the profile distinguishes (the clusters of the BIC rule) move independently by a coefficient of
variation RHO, as in xpu-stem.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from xpuprof.arrays import F64, I32, I64
from xpuprof.estimation.allocation import (
    AUTO_ERROR,
    affordable,
    needed,
)
from xpuprof.estimation.further_runs import SliceTimes
from xpuprof.estimation.take_all import divide_unlike, split_off_extremes

RHO = 0.03
MOST_TIME = 0.25
"""Share of the time that an expected error may cost, of what neither one representative a cluster
nor the profile's choice takes."""
MOST_TIMES = 10
"""How many times as many representatives as the profile's choice an expected error may take: each
is a region to be simulated."""
TRIES = 24
STEP = 0.9
"""Factor, applied up to TRIES times, to tighten a goal that the representatives miss."""


@dataclass(frozen=True)
class Goal:
    """`target`: error to stay below, a fraction at 95 %; `budget`: seconds that all representatives
    may take, `most` of them. The budget has priority over the target."""

    target: float | None
    budget: float | None
    most: float = math.inf


@dataclass(frozen=True, eq=False)
class TimedSlices:
    """Slices with their times and `groups`, int32[slices]: the groups that the profile
    distinguishes."""

    known: SliceTimes
    groups: I32

    @property
    def times(self) -> F64:
        """Typical times, float64[slices], seconds."""
        return self.known.typical

    def moments(self, labels: I32) -> tuple[I64, F64, F64]:
        """Slices, mean time and anticipated standard deviation in each cluster."""
        clusters, groups = int(labels.max()) + 1, int(self.groups.max()) + 1
        size, mean, deviation = self.known.moments(labels)
        square = np.bincount(labels, self.times**2, clusters) / size
        cell = labels.astype(np.int64) * groups + self.groups
        share = np.bincount(cell, self.times, clusters * groups).reshape(clusters, groups)
        # Variance added per unit of RHO^2: E[t^2] - sum over groups of (share x mean)^2.
        mixture = square - ((share / size[:, None]) ** 2).sum(axis=1)
        together = (share > 0.0).sum(axis=1) > 1
        return size, mean, np.sqrt(deviation**2 + np.where(together, RHO**2 * mixture, 0.0))


@dataclass(frozen=True, eq=False)
class Plan:
    """`labels`: int32[slices], clusters numbered by their first slice; `timed`: their slices, with
    the noise that follows from how they were divided; `counts`: representatives of each; `cost`:
    their expected seconds; `variance`: that of the projected total; `goal`: the goal they meet."""

    k: int
    labels: I32
    timed: TimedSlices
    counts: I64
    cost: float
    variance: float
    goal: Goal

    def how_many(self, _: object) -> I64:
        """Representatives of each cluster."""
        return self.counts

    @property
    def affordable(self) -> bool:
        """Whether the cost is within the budget."""
        return self.goal.budget is None or self.cost <= self.goal.budget


def plans(
    labelled: Iterable[tuple[int, I32]], timed: TimedSlices, apart: bool, goal: Goal
) -> list[Plan]:
    """A plan for each (k, labels), the best first. `apart`: times are reliable enough to divide
    clusters of unlike slices, and that slices with extreme times represent only themselves."""
    made = []
    for k, labels in labelled:
        own = timed
        if apart:
            labels, known = divide_unlike(_in_order_of_appearance(labels), timed.known)
            labels, known = split_off_extremes(labels, known, goal.target or AUTO_ERROR)
            own = replace(timed, known=known)
        made.append(_plan(k, _in_order_of_appearance(labels), own, goal))
    if goal.target is None:
        return sorted(made, key=lambda plan: (not plan.affordable, plan.variance))
    return sorted(made, key=lambda plan: (not plan.affordable, plan.cost))


def limited(plan: Plan, alone: I64) -> Plan:
    """The plan, or the best one within MOST_TIME and MOST_TIMES if it takes more: where the times
    of a loaded machine are mostly noise, more representatives buy little. `alone`: the slices that
    the profile's choice takes, since a choice that takes as much may not err by more."""
    timed = plan.timed
    least = max(float(timed.moments(plan.labels)[1].sum()), float(timed.times[alone].sum()))
    budget = least + MOST_TIME * (float(timed.times.sum()) - least)
    most = MOST_TIMES * len(alone)
    if plan.cost <= budget and plan.counts.sum() <= most:
        return plan
    return _plan(plan.k, plan.labels, timed, Goal(None, budget, most))


def tightened(plan: Plan) -> Iterator[Plan]:
    """The plan, then plans with a smaller target error and budget, since the chosen representatives
    may be worse or more expensive than their clusters' means."""
    yield plan
    target, budget = plan.goal.target, plan.goal.budget
    for _ in range(TRIES):
        target = None if target is None else target * STEP
        budget = None if budget is None else budget * STEP
        yield _plan(plan.k, plan.labels, plan.timed, Goal(target, budget))


def _plan(k: int, labels: I32, timed: TimedSlices, goal: Goal) -> Plan:
    size, cost, spread = timed.moments(labels)
    counts = np.ones(len(size), np.int64)
    if goal.target is not None:
        counts = needed(size, spread, cost, float(timed.times.sum()), goal.target)
    if goal.budget is not None and (
        goal.target is None or float(np.dot(counts, cost)) > goal.budget
    ):
        counts = affordable(size, spread, cost, goal.budget, goal.most)
    variance = float(np.sum((size * spread) ** 2 * (1.0 / counts - 1.0 / size)))
    return Plan(k, labels, timed, counts, float(np.dot(counts, cost)), variance, goal)


def _in_order_of_appearance(label: I32) -> I32:
    """Clusters renumbered by their first slice, without gaps."""
    values, first = np.unique(label, return_index=True)
    number = np.empty(int(values.max()) + 1, np.int32)
    number[values[np.argsort(first)]] = np.arange(len(values), dtype=np.int32)
    return number[label]
