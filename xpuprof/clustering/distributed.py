# SPDX-License-Identifier: Apache-2.0
"""Clusters of points that lie in several places: the ranks of a job, the workers of a scheduler.

If the distinct points of all places fit into one memory, they are gathered and clustered directly.
Otherwise k-means|| (Bahmani, Moseley, Vattani, Kumar, Vassilvitskii: "Scalable k-means++", VLDB
2012) chooses some hundreds of candidates in a few passes over the points, every point joins its
nearest candidate, and the sweep over k clusters the candidates' clustering features (their mass,
mean and scatter: Zhang, Ramakrishnan, Livny, "BIRCH", SIGMOD 1996), which give the exact
within-cluster sum of squares for any k as long as points stay with their candidate. Lloyd's steps
over all points then refine the chosen k.

The path, the candidates and every sum depend only on the places and their order: draws are hashed
from points, seed and the place's number, and sums follow one fixed tree. The result is therefore
bit-identical on one machine and on many.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from xpuprof.arrays import F32, F64
from xpuprof.clustering import kmeans
from xpuprof.clustering.executors import Executor, Handle, reduce_tree
from xpuprof.clustering.kmeans import Clustering, Points

MOST_POINTS = 1_000_000
"""Distinct points that are gathered in one place."""
COUNTED = 1 / 64
"""Share of the distinct points (those with a small hash) from which their number is estimated."""
ROUNDS = 5
"""Passes that draw candidates; Bahmani et al. find no gain from more."""
SEEDS = 1_000_003
"""Distance between the seeds of two draws."""
OVERSAMPLING = 2.0
"""Expected candidates per round, relative to the largest k."""
STEPS = 10
TOLERANCE = 1e-3
"""Lloyd's steps over all points: at most STEPS, stopping after one that gains less than this share
of the within-cluster sum."""


@dataclass(frozen=True, eq=False)
class SweepPoints:
    """Input of the sweep over k: all distinct points or, with `features`, the candidates' means
    with `scatter`, the sum of squares within them."""

    points: Points
    scatter: float = 0.0
    features: bool = False


def gather(
    executor: Executor,
    places: Sequence[Handle[Points]],
    most: int,
    seed: int,
    limit: int = MOST_POINTS,
) -> SweepPoints:
    """The distinct points of all places, or clustering features if there are more than `limit`.
    `most`: the largest k."""
    if _distinct(executor, places, limit) <= limit:
        return SweepPoints(reduce_tree(executor, _union, places))
    return _features(executor, places, most, seed)


def refined(
    executor: Executor, places: Sequence[Handle[Points]], clustering: Clustering
) -> Clustering:
    """Lloyd's steps over the points of all places. Labels are not kept."""
    centre, wcss, mass = clustering.centre, clustering.wcss, clustering.mass
    for _ in range(STEPS):
        shared = executor.share(centre)
        whole = _total(executor, executor.map(_step, places, [shared] * len(places)))
        before, centre = whole.sum_of_squares, whole.means(centre)
        wcss, mass = before - whole.gain, whole.mass
        if whole.gain < TOLERANCE * wcss:
            break
    return Clustering(wcss, mass, centre, np.zeros(0, np.int32))


# ---- gathering ----------------------------------------------------------------------------------


def _distinct(executor: Executor, places: Sequence[Handle[Points]], limit: int) -> float:
    """Number of distinct points of all places: the sum over the places (an upper bound) if within
    the limit, else an estimate from hashes, which are sent instead of points."""
    counts = list(executor.results(executor.map(_count, places)))
    if sum(counts) <= limit:
        return float(sum(counts))
    if len(places) == 1:
        return float(counts[0])
    sketch = reduce_tree(executor, _joined, executor.map(_sketch, places))
    return len(sketch) / COUNTED


def _count(points: Points) -> int:
    return len(points.x)


def _sketch(points: Points) -> F64:
    uniform = kmeans.draws(points.x, 0)
    return np.unique(uniform[uniform < COUNTED])


def _joined(*sketches: F64 | None) -> F64:
    return np.unique(np.concatenate([sketch for sketch in sketches if sketch is not None]))


def _union(*parts: Points | None) -> Points:
    """Merge equal points of different places, in order of appearance."""
    some = [part for part in parts if part is not None]
    x, weight = some[0].x, some[0].weight
    for part in some[1:]:  # one at a time, since the parts may be large
        both = kmeans.merged(np.concatenate([x, part.x]))
        weight = np.bincount(both.point, np.concatenate([weight, part.weight])).astype(np.float64)
        x = both.x
    return Points(x, weight, np.zeros(0, np.uint32))


# ---- k-means|| ---------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Near:
    """The candidate nearest to each point of a place so far, and its squared distance."""

    label: npt.NDArray[np.uint32]
    distance2: F32

    def __sizeof__(self) -> int:
        return self.label.nbytes + self.distance2.nbytes


@dataclass(frozen=True, eq=False)
class Sums:
    """Sums of points by cluster: `mass`, weighted offset from the centre, weighted squared
    distance: float64[k], float64[k, dim], float64[k]."""

    mass: F64
    offset: F64
    square: F64

    def __sizeof__(self) -> int:
        return self.mass.nbytes + self.offset.nbytes + self.square.nbytes

    @property
    def sum_of_squares(self) -> float:
        """The within-cluster sum of squares about the centres."""
        return float(self.square.sum())

    @property
    def gain(self) -> float:
        """Reduction of the sum of squares when every centre moves to its mean."""
        return float(((self.offset**2).sum(axis=1) / np.maximum(self.mass, 1e-300)).sum())

    def means(self, centre: F32) -> F32:
        """The clusters' means; a centre without points stays."""
        moved = self.offset / np.maximum(self.mass, 1e-300)[:, None]
        return (centre + moved).astype(np.float32)


def _features(
    executor: Executor, places: Sequence[Handle[Points]], most: int, seed: int
) -> SweepPoints:
    """Candidates by k-means||, and the clustering features of the points nearest to each."""
    count = len(places)
    dim = next(executor.results(executor.map(_width, places[:1])))
    origin = np.zeros((1, dim), np.float32)
    # Bahmani et al. begin with a random point; the mean is the same for every seed and order.
    whole = _total(executor, executor.map(_step, places, [executor.share(origin)] * count))
    new = whole.means(origin)
    candidates = new
    near: Sequence[Handle[Near] | None] = [None] * count
    for turn in range(ROUNDS + 1):
        shared = executor.share((new, len(candidates) - len(new)))
        near = executor.map(_approach, places, near, [shared] * count)
        if turn == ROUNDS:
            break
        cost = float(sum(executor.results(executor.map(_cost, places, near))))
        if not cost > 0.0:
            break
        draw = partial(_drawn, rate=OVERSAMPLING * most / cost)
        # Equal points of two places must draw independently, because together they count twice.
        seeds = [seed + SEEDS * (turn * count + place + 1) for place in range(count)]
        rows = list(executor.results(executor.map(draw, places, near, seeds)))
        new = kmeans.merged(np.concatenate(rows)).x
        if not len(new):
            break
        candidates = np.concatenate([candidates, new])
    shares = [executor.share(candidates)] * count
    whole = _total(executor, executor.map(_sums, places, near, shares))
    used = whole.mass > 0.0
    points = Points(whole.means(candidates)[used], whole.mass[used], np.zeros(0, np.uint32))
    return SweepPoints(points, max(whole.sum_of_squares - whole.gain, 0.0), features=True)


def _width(points: Points) -> int:
    return int(points.x.shape[1])


def _approach(points: Points, near: Near | None, new: tuple[F32, int]) -> Near:
    """Update the nearest candidates with `new` ones, numbered from the given number on."""
    centre, number = new
    label = kmeans.nearest(points.x, centre).astype(np.uint32)
    distance2 = kmeans.distances(points.x, centre, label)
    if near is None:
        return Near(label, distance2)
    closer = distance2 < near.distance2
    return Near(
        np.where(closer, label + np.uint32(number), near.label),
        np.where(closer, distance2, near.distance2),
    )


def _cost(points: Points, near: Near) -> float:
    return float(np.sum(points.weight * near.distance2))


def _drawn(points: Points, near: Near, seed: int, rate: float) -> F32:
    """Points drawn independently with probability rate x weight x squared distance (algorithm 2,
    step 4)."""
    chance = rate * points.weight * near.distance2
    return points.x[kmeans.draws(points.x, seed) < chance]


def _sums(points: Points, near: Near, centre: F32) -> Sums:
    return Sums(*kmeans.partial_sums(points, centre, near.label, near.distance2))


def _step(points: Points, centre: F32) -> Sums:
    label = kmeans.nearest(points.x, centre).astype(np.uint32)
    return Sums(
        *kmeans.partial_sums(points, centre, label, kmeans.distances(points.x, centre, label))
    )


def _total(executor: Executor, handles: Sequence[Handle[Sums]]) -> Sums:
    return reduce_tree(executor, _added, handles)


def _added(*parts: Sums | None) -> Sums:
    some = [part for part in parts if part is not None]
    return Sums(
        sum((part.mass for part in some[1:]), start=some[0].mass),
        sum((part.offset for part in some[1:]), start=some[0].offset),
        sum((part.square for part in some[1:]), start=some[0].square),
    )
