"""Select by clustering signatures: shared by xpu-point, gpu-point and plain frequency vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from xpuprof.errors import UsageError
from xpuprof.sampling import bic, kmeans
from xpuprof.sampling.allocation import (
    AUTO_ERROR,
    affordable,
    assumed_spread,
    moments,
    needed,
    split_off_extremes,
)
from xpuprof.sampling.representatives import Picks, pick
from xpuprof.sampling.times import ENOUGH_FOR_MEDIAN, typical_times
from xpuprof.signature.matrix import Signature

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]

MAXK = 20


@dataclass(frozen=True)
class Options:
    """How to cluster and pick.

    `k`: fixed number of clusters, else by BIC up to `maxk`. `per_cluster`: representatives a
    cluster, None: as many as an assumed spread of times asks for, or with `target_error` (fraction,
    at 95 %) or `budget` (seconds that the representatives may take together) the measured
    one. `coverage`: share of the run to stand for. `early`: see `representatives.pick`. `ends`: the
    first and the last slice stand for themselves: they hold start-up and exit, and whatever their
    vectors say, no other slice maps the libraries or tears the process down. They count in `k`.
    """

    maxk: int = MAXK
    k: int | None = None
    per_cluster: int | None = None
    coverage: float = 1.0
    early: float | None = None
    target_error: float | None = None
    budget: float | None = None
    restarts: int | None = None
    bic_threshold: float = bic.THRESHOLD
    ends: bool = True

    @property
    def wishes(self) -> bool:
        """Whether the number of representatives is to follow measured times."""
        return self.target_error is not None or self.budget is not None

    def __post_init__(self) -> None:
        for name, least in (("maxk", 1), ("k", 1), ("per_cluster", 1), ("restarts", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise UsageError(f"{name} must be at least {least}, not {value}")
        if not 0.0 <= self.bic_threshold <= 1.0:
            raise UsageError(f"bic_threshold must lie between 0 and 1, not {self.bic_threshold:g}")
        if not 0.0 < self.coverage <= 1.0:
            raise UsageError(f"coverage must lie above 0 and at most at 1, not {self.coverage:g}")
        if self.early is not None and not self.early >= 0.0:
            raise UsageError(f"early must be 0 or more, not {self.early:g}")
        if self.target_error is not None and not 0.0 < self.target_error < 1.0:
            raise UsageError(
                f"the target error lies between 0 and 1 (0.05 is 5 %), not at {self.target_error:g}"
            )
        if self.budget is not None and not self.budget > 0.0:
            raise UsageError(f"the budget must be more than 0 seconds, not {self.budget:g}")
        if self.per_cluster is not None and (self.target_error or self.budget):
            raise UsageError("a fixed number a cluster leaves nothing to a target error or budget")


@dataclass(frozen=True, eq=False)
class Choice:
    """What came out: `labels` int32[slices] (-1: not covered), picks with their multipliers and
    weights (shares of all slices), the covered share of slices, the number of clusters found,
    BIC by k, the within-cluster sum of squares, squared distances to the centroids."""

    labels: I32
    picks: Picks
    multiplier: F64
    weight: F64
    covered: float
    clusters: int
    scores: dict[int, float]
    wcss: float
    distance2: F64

    def report(self) -> dict[str, Any]:
        """`Selection.scores`."""
        bic_by_k = {str(k): score for k, score in self.scores.items()}
        return {"clusters": self.clusters, "bic": bic_by_k, "wcss": self.wcss}


def choose(signature: Signature, options: Options, seed: int, runs: F64 | None = None) -> Choice:
    """Cluster the slices and pick representatives. `runs`: times if known, seconds, float64[slices]
    or float64[repeats, slices]."""
    inner = inner_slices(len(signature), options.ends)
    apart = len(signature) - len(range(*inner.indices(len(signature))))
    points = kmeans.merged(signature.matrix[inner])
    found = cluster(points, options, seed, apart)
    labels = found.best.label[points.point]
    distance2 = kmeans.distances(points.x, found.best)[points.point]
    return settle(found, labels, distance2, [len(signature)], signature.extent, options, runs)


def inner_slices(slices: int, ends: bool) -> slice:
    """The slices of a run that are clustered: all but the first and the last with `ends`."""
    return slice(1, -1) if ends and slices > 2 else slice(0, slices)


@dataclass(frozen=True, eq=False)
class Found:
    """The clustering with the k that the options ask for, and the BIC of every k."""

    best: kmeans.Clustering
    scores: dict[int, float]


def cluster(points: kmeans.Points, options: Options, seed: int, apart: int) -> Found:
    """k-means for every k, and the k that the options ask for, less the `apart` that are given."""
    most = max((options.k or options.maxk) - apart, 1)
    found = kmeans.sweep(points, most, seed, options.restarts)
    floor = kmeans.noise_floor(points)
    scores = {k: found[k].score(floor) for k in sorted(found)}
    k = max(found) if options.k else bic.choose_k(scores, options.bic_threshold)
    best = kmeans.polished(points, found[k])
    return Found(replace(best, label=kmeans.nearest(points.x, best.centre)), scores)


def settle(
    found: Found,
    inner_labels: I32,
    inner_distance2: npt.NDArray[np.float32],
    lengths: Sequence[int],
    extent: F64,
    options: Options,
    runs: F64 | None,
) -> Choice:
    """From labels and squared distances of the inner slices to picks and multipliers. `lengths`:
    slices of each run that was clustered together, in order."""
    times = None if runs is None else typical_times(runs)
    repeats = 0 if runs is None else len(np.atleast_2d(runs))
    if times is None and options.wishes:
        raise UsageError(
            "a target error or a budget needs slice times, which `xpuprof run` records"
        )
    inner, end = _ends(lengths, options.ends)
    labels = np.empty(len(inner), np.int32)
    labels[inner] = inner_labels
    labels[~inner] = found.best.k + end[~inner]
    labels = _in_order_of_appearance(labels)
    distance2 = np.zeros(len(labels))
    distance2[inner] = inner_distance2
    labels, covered = _heaviest(labels, extent, options.coverage)
    if times is not None and options.wishes and covered == 1.0:
        labels = _extremes_apart(labels, times, repeats, options)
    counts = _how_many(labels, extent, times, options)
    picks = pick(labels, distance2, counts, options.early)
    share = float(extent[labels >= 0].sum())
    slices = len(labels)
    return Choice(
        labels=labels,
        picks=picks,
        multiplier=picks.stands_for / share if covered < 1.0 else picks.stands_for,
        weight=picks.stands_for / slices,
        covered=covered,
        clusters=found.best.k,
        scores=found.scores,
        wcss=found.best.wcss,
        distance2=distance2,
    )


def _ends(lengths: Sequence[int], ends: bool) -> tuple[npt.NDArray[np.bool_], I32]:
    """Whether each slice is clustered; for the others 0 (a run's first) or 1 (its last)."""
    inner = np.zeros(sum(lengths), dtype=bool)
    end = np.zeros(len(inner), np.int32)
    start = 0
    for slices in lengths:
        inner[start : start + slices][inner_slices(slices, ends)] = True
        end[start + slices - 1] = 1
        start += slices
    return inner, end


def _in_order_of_appearance(label: I32) -> I32:
    """Clusters renumbered by their first slice, without gaps."""
    values, first = np.unique(label, return_index=True)
    number = np.empty(int(values.max()) + 1, np.int32)
    number[values[np.argsort(first)]] = np.arange(len(values), dtype=np.int32)
    return number[label]


def _heaviest(labels: I32, extent: F64, coverage: float) -> tuple[I32, float]:
    """Keep the heaviest clusters that make up `coverage` of the run's extent; -1 for the others.
    Also the share of all slices that is kept."""
    if coverage >= 1.0:
        return labels, 1.0
    weight = np.bincount(labels, extent)
    order = np.argsort(-weight, kind="stable")
    enough = int(np.searchsorted(np.cumsum(weight[order]), coverage - 1e-12)) + 1
    kept = np.zeros(len(weight), dtype=bool)
    kept[order[:enough]] = True
    labels = np.where(kept[labels], labels, -1).astype(np.int32)
    return labels, float(np.mean(labels >= 0))


def _extremes_apart(labels: I32, times: F64, repeats: int, options: Options) -> I32:
    """Extreme slices become clusters, when the repeats are enough to call them the program's."""
    if repeats < ENOUGH_FOR_MEDIAN:
        return labels
    apart = split_off_extremes(labels, times, options.target_error or AUTO_ERROR)
    return _in_order_of_appearance(apart)


def _how_many(labels: I32, extent: F64, times: F64 | None, options: Options) -> I64:
    """Representatives of each cluster, 0 for one that is not covered."""
    clusters = int(labels.max()) + 1
    kept = labels >= 0
    size = np.bincount(labels[kept], minlength=clusters)
    present = np.flatnonzero(size)
    result = np.zeros(clusters, dtype=np.int64)
    if options.per_cluster is not None:
        result[present] = np.minimum(options.per_cluster, size[present])
        return result
    n = size[present]
    # Without a wish that needs times the choice rests on the profile alone: it is the same on a
    # noisy machine, on a quiet one, and where nothing was timed.
    if times is not None and options.wishes:
        _, mean, deviation = moments(labels[kept], times[kept], clusters)
        cost, spread = mean[present], deviation[present]
    else:
        # Time goes partly with the number of slices (launch overhead), partly with their work.
        share = 0.5 * np.bincount(labels[kept], extent[kept], clusters)[present]
        cost = (share + 0.5 * n / n.sum()) / n
        spread = assumed_spread(len(labels)) * cost
    total = float(np.dot(n, cost))
    if options.budget is not None and options.target_error is None:
        result[present] = affordable(n, spread, cost, options.budget)
        return result
    target = options.target_error or AUTO_ERROR
    result[present] = needed(n, spread, cost, total, target)
    if options.budget is not None and float(np.dot(result[present], cost)) > options.budget:
        result[present] = affordable(n, spread, cost, options.budget)
    return result


def parameters(signature: Signature, options: Options) -> dict[str, Any]:
    """What to write into the selection, so that it can be repeated."""
    return {**signature.parameters, **asdict(options)}


def with_options(**values: Any) -> Options:
    """Options from keywords; UsageError for one that is not known."""
    try:
        return replace(Options(), **values)
    except TypeError:
        known = ", ".join(asdict(Options()))
        raise UsageError(f"unknown option among {', '.join(values)}; known: {known}") from None
