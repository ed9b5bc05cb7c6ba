# SPDX-License-Identifier: Apache-2.0
"""From weighted points to clusters and representatives, over one run or many."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from xpuprof.arrays import F32, F64, I32, I64
from xpuprof.clustering import allocation_by_times, bic, distributed, kmeans, representatives
from xpuprof.clustering.allocation_by_times import Goal, Plan, TimedSlices
from xpuprof.clustering.executors import Executor, Handle
from xpuprof.clustering.kmeans import Clustering, Noise, Points
from xpuprof.clustering.nearest_to_centroid import RepresentativeSlices
from xpuprof.clustering.options import Options
from xpuprof.clustering.points import Extents, SlicePoints
from xpuprof.clustering.representatives import Chosen, Clusters, LabelledSlices
from xpuprof.errors import UsageError
from xpuprof.estimation.allocation import AUTO_ERROR, assumed_spread, needed
from xpuprof.estimation.further_runs import SliceTimes
from xpuprof.estimation.quantiles import z_score
from xpuprof.estimation.typical_times import ENOUGH_FOR_MEDIAN
from xpuprof.selection.results import Allotment, Scores


@dataclass(frozen=True, eq=False)
class Choice:
    """Clusters and representatives: `labels` int32[slices] (-1: not covered), the representatives
    with their multipliers and weights (shares of all slices), the covered share of slices, the
    number of clusters found, BIC by k, the within-cluster sum of squares, the first slice number of
    each run followed by the number of slices, how many k-means|| candidates represented the slices
    in the search for k (None: the slices themselves), and what the measured times changed (None:
    not an expected error)."""

    labels: I32
    representatives: RepresentativeSlices
    multiplier: F64
    weight: F64
    covered: float
    clusters: int
    scores: dict[int, float]
    wcss: float
    starts: I64
    candidates: int | None
    allotment: Allotment | None = None

    def report(self) -> Scores:
        """The value of `Selection.scores`."""
        return Scores(self.clusters, self.scores, self.wcss, self.candidates, self.allotment)


def choose(
    data: SlicePoints,
    options: Options,
    seed: int,
    times: SliceTimes | None = None,
    limit: int = distributed.MOST_POINTS,
) -> Choice:
    """Cluster the slices of all runs together and choose representatives.

    `times`: for a target error or a budget. `limit`: see `distributed.gather`. Frees the points.
    Raises UsageError when required times are missing or a budget cannot be met.
    """
    return choose_with_labels(data, options, seed, times, limit)[0]


def choose_with_labels(
    data: SlicePoints,
    options: Options,
    seed: int,
    times: SliceTimes | None = None,
    limit: int = distributed.MOST_POINTS,
) -> tuple[Choice, list[Handle[LabelledSlices]]]:
    """`choose`; also returns the slices of each run with their distances to the centroids."""
    found = sweep(data.executor, data.points, options, seed, data.ends, limit)
    if options.by_times:
        return _by_times(data, found, options, times)
    if options.expected_error is not None and times is not None:
        return _for_further_runs(data, found, options, times, options.expected_error)
    labelled = _labelled(data, found.best, options.resolution)
    data.free_points()
    return _by_profile(data, labelled, found, options), labelled


@dataclass(frozen=True, eq=False)
class Sweep:
    """The clustering for the requested k, the BIC of every k, and the points that were
    clustered."""

    best: Clustering
    scores: dict[int, float]
    swept: distributed.SweepPoints
    by_k: dict[int, Clustering]


def sweep(
    executor: Executor,
    places: Sequence[Handle[Points]],
    options: Options,
    seed: int,
    ends: int,
    limit: int = distributed.MOST_POINTS,
) -> Sweep:
    """Run k-means for every k over the points of all places and choose k by the options, minus the
    fixed clusters of the `ends`. `limit`: see `distributed.gather`. Raises UsageError when no
    cluster is left."""
    if options.k is not None and options.k <= ends:
        raise UsageError(
            f"-k {options.k} leaves no cluster between the first and the last slice, which stand "
            f"for themselves; give -k {ends + 1} or more, or --no-ends"
        )
    most = max((options.k or options.maxk) - ends, 1)
    swept = distributed.gather(executor, places, most, seed, limit)
    points, scatter = swept.points, swept.scatter
    by_k = kmeans.sweep(points, most, seed, options.restarts, scatter, options.resolution)
    noise = Noise.of(points, options.resolution, scatter)
    scores = {k: by_k[k].score(noise) for k in sorted(by_k)}
    k = max(by_k) if options.k else bic.choose_k(scores, options.bic_threshold)
    if swept.features:
        best = distributed.refined(executor, places, by_k[k])
    else:
        best = kmeans.polished(points, by_k[k])
    return Sweep(best, scores, swept, by_k)


def _labelled(
    data: SlicePoints, best: Clustering, resolution: float
) -> list[Handle[LabelledSlices]]:
    """Label the slices of every run where their points are."""
    count = len(data.points)
    centres = data.executor.share(best.centre)
    return data.executor.map(
        label, data.points, data.extents, [centres] * count, [resolution] * count
    )


def label(points: Points, extents: Extents, centre: F32, resolution: float = 0.0) -> LabelledSlices:
    """A run's slices with their nearest centres, and how far they lie from these beyond the
    resolution. Slices set apart have labels from k on, the same in every run of a program."""
    own = kmeans.nearest(points.x, centre)
    distance2 = kmeans.distances(points.x, centre, own)
    norm2 = np.einsum("ij,ij->i", centre, centre)
    distance2 = np.maximum(distance2 - resolution**2 * norm2[own], 0.0).astype(np.float32)
    inner = extents.apart == 0
    labels = len(centre) - 1 + extents.apart.astype(np.int32)
    distance = np.zeros(len(labels), np.float32)
    labels[inner], distance[inner] = own[points.point], distance2[points.point]
    return LabelledSlices(labels, distance, extents.extent, extents.apart)


def _by_profile(
    data: SlicePoints,
    labelled: Sequence[Handle[LabelledSlices]],
    found: Sweep,
    options: Options,
) -> Choice:
    """Allocate representatives from the profile alone, so that the choice does not depend on the
    machine's noise or on timer runs."""

    def how_many(clusters: Clusters) -> I64:
        return _allocation(clusters, options)

    most = found.best.k + data.apart
    chosen = representatives.choose(
        data.executor, labelled, most, how_many, options.coverage, options.early
    )
    return _choice(chosen, found, found.best)


def _choice(chosen: Chosen, found: Sweep, best: Clustering) -> Choice:
    clusters, stands_for = chosen.clusters, chosen.representatives.stands_for
    raised = clusters.raised()[chosen.representatives.cluster]
    return Choice(
        labels=chosen.labels,
        representatives=chosen.representatives,
        multiplier=stands_for * raised if clusters.covered < 1.0 else stands_for,
        weight=stands_for / clusters.slices,
        covered=clusters.covered,
        clusters=best.k,
        scores=found.scores,
        wcss=best.wcss,
        starts=clusters.starts,
        candidates=len(found.swept.points.x) if found.swept.features else None,
    )


def _allocation(clusters: Clusters, options: Options) -> I64:
    """Representatives per cluster, from the number and the extent of its slices."""
    n = clusters.size
    if options.per_cluster is not None:
        return np.minimum(options.per_cluster, n)
    kept = clusters.kept
    # Time depends partly on the number of slices (launch overhead), partly on their work.
    cost = (0.5 * clusters.extent + 0.5 * n / n[kept].sum()) / n
    spread = assumed_spread(clusters.slices) * cost
    result = np.zeros(len(n), dtype=np.int64)
    total = float(np.dot(n[kept], cost[kept]))
    result[kept] = needed(n[kept], spread[kept], cost[kept], total, AUTO_ERROR)
    return result


def _by_times(
    data: SlicePoints, found: Sweep, options: Options, times: SliceTimes | None
) -> tuple[Choice, list[Handle[LabelledSlices]]]:
    """Choose k and the representatives for a target error or a budget (allocation_by_times.py);
    also returns the labelled slices."""
    if times is None:
        raise UsageError(
            "a target error or a budget needs slice times; record them with `xpuprof time -o "
            "TIMES` and add --times TIMES"
        )
    goal = Goal(options.target_error, options.budget)
    best = _labelled(data, found.best, options.resolution)
    labelled = {
        k: _labelled(data, found.by_k[k], options.resolution)
        for k in ([max(found.by_k)] if options.k else sorted(found.by_k))
    }
    timed = TimedSlices(times, _labels(data.executor, best))
    every = ((k, _labels(data.executor, own)) for k, own in labelled.items())
    made = allocation_by_times.plans(every, timed, _apart(times, options), goal)
    for first in made:
        relabelled = _relabelled(data.executor, labelled[first.k], first.labels)
        for plan in allocation_by_times.tightened(first):
            choice = _planned(data, found, options, relabelled, plan)
            if _holds(choice, times.typical, goal):
                return choice, relabelled
    raise UsageError(_why_not(made, goal))


def _for_further_runs(
    data: SlicePoints, found: Sweep, options: Options, times: SliceTimes, error: float
) -> tuple[Choice, list[Handle[LabelledSlices]]]:
    """Allot representatives for an `error` to expect of further runs, in the clusters of the
    profile; also returns the labelled slices."""
    best = _labelled(data, found.best, options.resolution)
    alone = _by_profile(data, best, found, options)
    labels = _labels(data.executor, best)
    timed, goal = TimedSlices(times, labels), Goal(at_95(error), None)
    apart = _apart(times, options)
    (plan,) = allocation_by_times.plans([(found.best.k, labels)], timed, apart, goal)
    limited = allocation_by_times.limited(plan, alone.representatives.slice)
    relabelled = _relabelled(data.executor, best, limited.labels)
    planned = _planned(data, found, options, relabelled, limited)
    choice = _beside(alone, times, planned, plan.timed.known)
    return (choice if limited is plan else _beside_goal(choice, plan, times)), relabelled


def _apart(times: SliceTimes, options: Options) -> bool:
    """Whether clusters may be divided by their slices' times."""
    return times.repeats >= ENOUGH_FOR_MEDIAN and options.coverage == 1.0


def _planned(
    data: SlicePoints,
    found: Sweep,
    options: Options,
    labelled: Sequence[Handle[LabelledSlices]],
    plan: Plan,
) -> Choice:
    """The representatives of a plan, whose labels the slices have."""
    most = len(plan.counts)
    chosen = representatives.choose(
        data.executor, labelled, most, plan.how_many, options.coverage, options.early
    )
    return _choice(chosen, found, found.by_k[plan.k])


def at_95(expected_error: float) -> float:
    """The bound at 95 % of a normal error whose mean absolute value is `expected_error`."""
    return z_score() * math.sqrt(math.pi / 2.0) * expected_error


def _beside(alone: Choice, times: SliceTimes, choice: Choice, planned: SliceTimes) -> Choice:
    """`choice` with what it takes beside the profile's choice `alone`, each by the times of its
    clusters; unknown if slices were left out."""
    if choice.covered < 1.0:
        return choice
    both = *_cost_and_error(choice, planned), *_cost_and_error(alone, times)
    return replace(choice, allotment=Allotment(*both))


def _beside_goal(choice: Choice, plan: Plan, times: SliceTimes) -> Choice:
    """`choice` with what the `plan` that it could not follow would have taken."""
    if choice.allotment is None:
        return choice
    number, time = int(plan.counts.sum()), plan.cost / float(times.typical.sum())
    allotment = replace(choice.allotment, number_for_goal=number, time_for_goal=time)
    return replace(choice, allotment=allotment)


def _cost_and_error(choice: Choice, times: SliceTimes) -> tuple[int, float, float]:
    """Number and time of the representatives, and the mean absolute error to expect of further
    runs."""
    total, own = float(times.typical.sum()), choice.representatives
    size, _, spread = times.moments(choice.labels)
    drawn = np.bincount(own.cluster, minlength=len(size))
    variance = float(np.sum((size * spread) ** 2 * (1.0 / drawn - 1.0 / size)))
    expected = math.sqrt(2.0 / math.pi * variance) / total
    return len(own.slice), float(times.typical[own.slice].sum()) / total, expected


def _labels(executor: Executor, labelled: Sequence[Handle[LabelledSlices]]) -> I32:
    """The labels of all runs."""
    return np.concatenate(list(executor.results(executor.map(_labels_of, labelled))))


def _labels_of(slices: LabelledSlices) -> I32:
    return slices.labels


def _relabelled(
    executor: Executor, labelled: Sequence[Handle[LabelledSlices]], labels: I32
) -> list[Handle[LabelledSlices]]:
    """The slices of every run with their part of the labels of all runs."""
    lengths = list(executor.results(executor.map(_length, labelled)))
    return executor.map(_with_labels, labelled, np.split(labels, np.cumsum(lengths)[:-1]))


def _length(slices: LabelledSlices) -> int:
    return len(slices.labels)


def _with_labels(slices: LabelledSlices, labels: I32) -> LabelledSlices:
    return replace(slices, labels=labels)


def _holds(choice: Choice, times: F64, goal: Goal) -> bool:
    """Whether the chosen slices themselves meet the budget or, without one, the target error."""
    chosen = times[choice.representatives.slice]
    if goal.budget is not None and float(chosen.sum()) > goal.budget:
        return False
    total = float(times.sum())
    if goal.target is None or goal.budget is not None or choice.covered < 1.0:
        return True
    return abs(float(np.dot(chosen, choice.multiplier)) - total) <= goal.target * total


def _why_not(made: list[Plan], goal: Goal) -> str:
    least = min(plan.cost for plan in made)
    if goal.budget is None:
        assert goal.target is not None  # one of them is given
        return f"no choice of slices came within {100 * goal.target:.2f} % of the measured time"
    return (
        f"a budget of {goal.budget:g} s is too little: one representative of each cluster takes "
        f"about {least:.3g} s; give more, or leave start and exit among the others with --no-ends"
    )


def parameters(settings: Mapping[str, Any], options: Options) -> Mapping[str, Any]:
    """Parameters to store in the selection, so that it can be repeated."""
    return {**settings, **asdict(options)}
