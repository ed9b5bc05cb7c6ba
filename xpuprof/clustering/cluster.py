"""Select by clustering signatures: shared by xpu-point, gpu-point and plain frequency vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from xpuprof.clustering import bic, by_times, distributed, kmeans
from xpuprof.clustering.executors import Farm, Here
from xpuprof.clustering.nearest import Picks
from xpuprof.clustering.representatives import Clusters, Piece, Settled, settle
from xpuprof.errors import UsageError
from xpuprof.estimation.allocation import AUTO_ERROR, assumed_spread, needed
from xpuprof.estimation.typical_times import ENOUGH_FOR_MEDIAN, typical_times
from xpuprof.signature.matrix import Signature, inner_slices

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
    BIC by k, the within-cluster sum of squares, the number of the first slice of each run and of
    all slices, and how many candidates of k-means|| stood for the slices in the search for k (None:
    the slices themselves)."""

    labels: I32
    picks: Picks
    multiplier: F64
    weight: F64
    covered: float
    clusters: int
    scores: dict[int, float]
    wcss: float
    starts: I64
    candidates: int | None

    def report(self) -> dict[str, Any]:
        """`Selection.scores`."""
        bic_by_k = {str(k): score for k, score in self.scores.items()}
        report = {"clusters": self.clusters, "bic": bic_by_k, "wcss": self.wcss}
        return report if self.candidates is None else {**report, "candidates": self.candidates}


@dataclass(frozen=True, eq=False)
class Known:
    """Times of all slices, in the order of the runs: `typical` float64[slices], seconds, of as many
    timer runs as `repeats` (of several runs: of the one that has the fewest)."""

    typical: F64
    repeats: int

    @staticmethod
    def of(times: F64) -> Known:
        """From float64[repeats, slices] or float64[slices]."""
        return Known(typical_times(times), len(np.atleast_2d(times)))


def choose(
    signatures: Sequence[Signature], options: Options, seed: int, known: Known | None = None
) -> Choice:
    """Cluster the slices of all `signatures` (one a process) together and pick representatives."""
    return _chosen(signatures, options, seed, known)[0]


def choose_with_distances(
    signature: Signature, options: Options, seed: int, mass: F64 | None = None
) -> tuple[Choice, F64]:
    """`choose`, and each slice's distance to its centroid, float64[slices]. `mass`: what each slice
    weighs in the clustering, float64[slices] [1]."""
    choice, (piece,) = _chosen([signature], options, seed, None, mass)
    return choice, np.sqrt(piece.distance2.astype(np.float64))


def _chosen(
    signatures: Sequence[Signature],
    options: Options,
    seed: int,
    known: Known | None,
    mass: F64 | None = None,
) -> tuple[Choice, list[Piece]]:
    places = []
    for signature in signatures:
        rows = inner_slices(len(signature), options.ends)
        own = None if mass is None else mass[rows]
        places.append(kmeans.merged(signature.matrix[rows], own))
    apart = max(len(s) - len(p.point) for s, p in zip(signatures, places, strict=True))
    extents = [signature.extent for signature in signatures]
    with Here() as here:
        found = cluster(here, places, options, seed, apart)
        pieces: Sequence[object]
        if options.wishes:
            choice, pieces = settled_by_times(here, places, extents, found, options, known)
        else:
            pieces = labelled_everywhere(here, places, extents, found.best)
            choice = settled(here, pieces, found, options)
        return choice, list(here.get(pieces))


@dataclass(frozen=True, eq=False)
class Found:
    """The clustering with the k that the options ask for, the BIC of every k, and what was
    clustered for every k."""

    best: kmeans.Clustering
    scores: dict[int, float]
    brought: distributed.Brought
    sweep: dict[int, kmeans.Clustering]


def cluster(
    farm: Farm,
    places: Sequence[object],
    options: Options,
    seed: int,
    apart: int,
    limit: int = distributed.MOST_POINTS,
) -> Found:
    """k-means for every k over all places (handles of kmeans.Points), and the k that the options
    ask for, less the `apart` that are given. `limit`: see `distributed.bring`. Raises UsageError
    when that leaves none."""
    if options.k is not None and options.k <= apart:
        raise UsageError(
            f"-k {options.k} leaves no cluster between the first and the last slice, which stand "
            f"for themselves: take -k {apart + 1} or more, or --no-ends"
        )
    most = max((options.k or options.maxk) - apart, 1)
    brought = distributed.bring(farm, places, most, seed, limit)
    points, scatter = brought.points, brought.scatter
    sweep = kmeans.sweep(points, most, seed, options.restarts, scatter)
    floor = kmeans.noise_floor(points, scatter)
    scores = {k: sweep[k].score(floor) for k in sorted(sweep)}
    k = max(sweep) if options.k else bic.choose_k(scores, options.bic_threshold)
    if brought.features:
        best = distributed.refined(farm, places, sweep[k])
    else:
        best = kmeans.polished(points, sweep[k])
    return Found(best, scores, brought, sweep)


def labelled(points: kmeans.Points, extent: F64, best: kmeans.Clustering) -> Piece:
    """A run's slices with their nearest centres; its ends, where they are set apart, have labels k
    (the first) and k + 1 (the last), as those of every other run."""
    own = kmeans.nearest(points.x, best.centre)
    distance2 = kmeans.distances(points.x, best.centre, own)
    return _with_ends(own[points.point], distance2[points.point], extent, best.k)


def _with_ends(inner: I32, inner_distance2: npt.NDArray[np.float32], extent: F64, k: int) -> Piece:
    slices = len(extent)
    labels, distance2 = np.empty(slices, np.int32), np.zeros(slices, np.float32)
    rows = slice(0, slices) if len(inner) == slices else slice(1, -1)
    labels[0], labels[-1] = k, k + 1
    labels[rows], distance2[rows] = inner, inner_distance2
    return Piece(labels, distance2, extent)


def labelled_everywhere(
    farm: Farm, places: Sequence[object], extents: Sequence[object], best: kmeans.Clustering
) -> list[object]:
    """Handles of the labelled slices (Piece) of every place. `places`, `extents`: handles of the
    runs' kmeans.Points and shares."""
    centres = farm.share(replace(best, label=np.zeros(0, np.int32)))  # labels need not travel
    return farm.keep(labelled, places, extents, [centres] * len(places))


def settled(farm: Farm, pieces: Sequence[object], found: Found, options: Options) -> Choice:
    """Picks and multipliers from labelled slices. The profile alone decides how many a cluster
    gets, so the choice is the same on a noisy machine, on a quiet one, and where nothing was
    timed."""

    def how_many(clusters: Clusters) -> I64:
        return _by_profile(clusters, options)

    done = settle(farm, pieces, found.best.k + 2, how_many, options.coverage, options.early)
    return _choice(done, found, found.best)


def _choice(done: Settled, found: Found, best: kmeans.Clustering) -> Choice:
    clusters, picks = done.clusters, done.picks
    share = float(clusters.extent[clusters.kept].sum())
    return Choice(
        labels=done.labels,
        picks=picks,
        multiplier=picks.stands_for / share if clusters.covered < 1.0 else picks.stands_for,
        weight=picks.stands_for / clusters.slices,
        covered=clusters.covered,
        clusters=best.k,
        scores=found.scores,
        wcss=best.wcss,
        starts=clusters.starts,
        candidates=len(found.brought.points.x) if found.brought.features else None,
    )


def _by_profile(clusters: Clusters, options: Options) -> I64:
    """Representatives of each cluster, from the number and the extent of its slices."""
    n = clusters.size
    if options.per_cluster is not None:
        return np.minimum(options.per_cluster, n)
    kept = clusters.kept
    # Time goes partly with the number of slices (launch overhead), partly with their work.
    cost = (0.5 * clusters.extent + 0.5 * n / n[kept].sum()) / n
    spread = assumed_spread(clusters.slices) * cost
    result = np.zeros(len(n), dtype=np.int64)
    total = float(np.dot(n[kept], cost[kept]))
    result[kept] = needed(n[kept], spread[kept], cost[kept], total, AUTO_ERROR)
    return result


# ---- by measured times -------------------------------------------------------------------------


def settled_by_times(
    farm: Farm,
    places: Sequence[object],
    extents: Sequence[object],
    found: Found,
    options: Options,
    known: Known | None,
) -> tuple[Choice, Sequence[object]]:
    """The k and the representatives that a target error or a budget asks for (by_times.py), and
    handles of the labelled slices. Raises UsageError when times are not known, or the budget cannot
    be kept."""
    if known is None:
        raise UsageError(
            "a target error or a budget needs slice times, which `xpuprof run` records"
        )
    apart = known.repeats >= ENOUGH_FOR_MEDIAN and options.coverage == 1.0
    goal = by_times.Goal(options.target_error, options.budget)
    pieces = {
        k: labelled_everywhere(farm, places, extents, found.sweep[k])
        for k in ([max(found.sweep)] if options.k else sorted(found.sweep))
    }
    groups = _labels(farm, labelled_everywhere(farm, places, extents, found.best))
    timed = by_times.Timed(known.typical, np.concatenate(groups))
    every = ((k, np.concatenate(_labels(farm, own))) for k, own in pieces.items())
    made = by_times.plans(every, timed, apart, goal)
    ends = np.cumsum([len(own) for own in groups])
    for first in made:
        anew = farm.keep(_relabelled, pieces[first.k], np.split(first.labels, ends[:-1]))
        for plan in by_times.tightened(first, timed):
            done = settle(
                farm, anew, len(plan.counts), plan.how_many, options.coverage, options.early
            )
            choice = _choice(done, found, found.sweep[plan.k])
            if _holds(choice, known.typical, goal):
                return choice, anew
    raise UsageError(_why_not(made, goal))


def _labels(farm: Farm, pieces: Sequence[object]) -> list[I32]:
    """The labels of every place."""
    return list(farm.get(farm.keep(_labels_of, pieces)))


def _labels_of(piece: Piece) -> I32:
    return piece.labels


def _relabelled(piece: Piece, labels: I32) -> Piece:
    return replace(piece, labels=labels)


def _holds(choice: Choice, times: F64, goal: by_times.Goal) -> bool:
    """Whether the very slices that were picked stay within the budget, else within the error."""
    picked = times[choice.picks.slice]
    if goal.budget is not None and float(picked.sum()) > goal.budget:
        return False
    total = float(times.sum())
    if goal.target is None or goal.budget is not None or choice.covered < 1.0:
        return True
    return abs(float(np.dot(picked, choice.multiplier)) - total) <= goal.target * total


def _why_not(made: list[by_times.Plan], goal: by_times.Goal) -> str:
    least = min(plan.cost for plan in made)
    if goal.budget is None:
        return f"no choice of slices came within {goal.target:.2%} of the measured time"
    return (
        f"a budget of {goal.budget:g} s is too little: one representative of each cluster takes "
        f"about {least:.3g} s; give more, or leave start and exit among the others with --no-ends"
    )


def parameters(of_signature: dict[str, Any], options: Options) -> dict[str, Any]:
    """What to write into the selection, so that it can be repeated."""
    return {**of_signature, **asdict(options)}


def with_options(**values: Any) -> Options:
    """Options from keywords; UsageError for one that is not known, and for two that contradict."""
    if values.get("k") is not None and values.get("maxk") is not None:
        raise UsageError(
            "-k fixes the number of clusters, --maxk bounds the search for it: give one of them"
        )
    try:
        return replace(Options(), **values)
    except TypeError:
        known = ", ".join(asdict(Options()))
        raise UsageError(f"unknown option among {', '.join(values)}; known: {known}") from None
