# SPDX-License-Identifier: Apache-2.0
"""From labelled slices to representatives and multipliers, run by run.

A run's slices stay in place; only sums by cluster and each run's best slices are exchanged. The
cost in one place therefore grows with runs and clusters, not with slices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from xpuprof.arrays import F32, F64, I32, I64
from xpuprof.clustering.executors import Executor, Handle
from xpuprof.clustering.nearest_to_centroid import (
    Candidates,
    Portions,
    RepresentativeSlices,
    candidates_of,
    nearest_of_all,
    portion_bounds,
)
from xpuprof.clustering.points import Numbers

Flags = npt.NDArray[np.bool_]

NOT_THERE = np.iinfo(np.int64).max


@dataclass(frozen=True, eq=False)
class LabelledSlices:
    """A run's slices: cluster, squared distance to its centroid, share of the whole extent, and
    `apart`, not 0 for slices that the vectors did not cluster."""

    labels: I32
    distance2: F32
    extent: F64
    apart: Numbers

    def __sizeof__(self) -> int:
        arrays = (self.labels, self.distance2, self.extent, self.apart)
        return sum(array.nbytes for array in arrays)


@dataclass(frozen=True, eq=False)
class ClusterSums:
    """Sums of a run by cluster: first slice (NOT_THERE if none), slices, extent, sum of squared
    distances, whether its slices are set apart."""

    slices: int
    first: I64
    size: I64
    extent: F64
    square: F64
    apart: Flags


@dataclass(frozen=True, eq=False)
class Clusters:
    """All runs by cluster, clusters numbered by their first slice: `size` int64[k], `extent`
    float64[k], `square` float64[k]; `apart`: whether its slices are set apart; `kept`: whether the
    cluster is covered; `covered`: their share of all slices. `starts`: number of each run's first
    slice, then the number of slices."""

    size: I64
    extent: F64
    square: F64
    apart: Flags
    kept: Flags
    covered: float
    starts: I64

    @property
    def slices(self) -> int:
        """Number of slices of all runs."""
        return int(self.starts[-1])

    def raised(self) -> F64:
        """By how much each cluster's multipliers are raised for the extent that is not covered,
        float64[k]. Slices set apart are like no other slice, so they stand for no other."""
        others = ~self.apart
        whole, kept = self.extent[others].sum(), self.extent[others & self.kept].sum()
        return np.where(self.apart, 1.0, whole / kept if kept > 0.0 else 1.0)


@dataclass(frozen=True, eq=False)
class Chosen:
    """`labels` int32[slices] of all runs (-1: not covered), the representatives, the clusters."""

    labels: I32
    representatives: RepresentativeSlices
    clusters: Clusters


def choose(
    executor: Executor,
    labelled: Sequence[Handle[LabelledSlices]],
    labels: int,
    how_many: Callable[[Clusters], I64],
    coverage: float = 1.0,
    early: float | None = None,
) -> Chosen:
    """Choose representatives for the slices of all runs; labels are below `labels`.

    `how_many` says how many representatives each cluster gets. A cluster's slices, in the order of
    the runs, are cut into that many parts of equal size; each is represented by its slice nearest
    to the centroid. Several representatives are thus spread over the run and sample drift and
    disturbances in proportion. With `early` (a fraction of the cluster's root mean square radius)
    the earliest slice within that distance of the nearest is taken; 0 gives SimPoint's ties.
    `coverage`: keep the clusters of slices set apart, and the heaviest others up to this share of
    the extent.
    """
    count = len(labelled)
    sums = list(executor.results(executor.map(sums_of, labelled, [labels] * count)))
    number, clusters = _added(sums, coverage)
    shared = executor.share(np.where(number >= 0, number, -1).astype(np.int32))
    labelled = executor.map(_renumbered, labelled, [shared] * count)
    bounds = portion_bounds(clusters.size, np.where(clusters.kept, how_many(clusters), 0))
    before = _before(sums, number, len(clusters.size))
    portions = [Portions(bounds, row) for row in before]
    chosen, best = _nearest(executor, labelled, portions, clusters.starts)
    if early is not None:
        reach = executor.share(_reach(best, bounds, clusters, early))
        chosen, _ = _nearest(executor, labelled, portions, clusters.starts, reach)
    gone = np.where(clusters.kept, np.arange(len(clusters.kept)), -1).astype(np.int32)
    every = np.empty(clusters.slices, np.int32)
    position = 0
    for part in executor.results(executor.map(_labels, labelled, [gone] * count)):
        every[position : position + len(part)] = part
        position += len(part)
    return Chosen(every, chosen, clusters)


def sums_of(slices: LabelledSlices, labels: int) -> ClusterSums:
    """Sum up a run by cluster."""
    first = np.full(labels, NOT_THERE)
    backwards = slices.labels[::-1]
    first[backwards] = np.arange(len(backwards) - 1, -1, -1)
    apart = np.zeros(labels, dtype=bool)
    apart[slices.labels[slices.apart != 0]] = True
    return ClusterSums(
        slices=len(slices.labels),
        first=first,
        size=np.bincount(slices.labels, minlength=labels),
        extent=np.bincount(slices.labels, slices.extent, labels).astype(np.float64),
        square=np.bincount(slices.labels, slices.distance2, labels).astype(np.float64),
        apart=apart,
    )


def _added(sums: list[ClusterSums], coverage: float) -> tuple[I64, Clusters]:
    """The new number of each label (-1 without slices) and the clusters."""
    starts = np.cumsum([0, *(one.slices for one in sums)])
    first = np.full(len(sums[0].first), NOT_THERE)
    size = np.zeros(len(first), np.int64)
    extent, square = np.zeros(len(first)), np.zeros(len(first))
    apart = np.zeros(len(first), dtype=bool)
    for one, start in zip(sums, starts.tolist(), strict=False):
        here = one.first < NOT_THERE
        first[here] = np.minimum(first[here], one.first[here] + start)
        size, extent, square = size + one.size, extent + one.extent, square + one.square
        apart |= one.apart
    order = np.argsort(first, kind="stable")[: np.count_nonzero(size)]
    number = np.full(len(first), -1)
    number[order] = np.arange(len(order))
    kept = _kept(extent[order], apart[order], coverage)
    covered = float(size[order][kept].sum() / size.sum()) if coverage < 1.0 else 1.0
    return number, Clusters(
        size[order], extent[order], square[order], apart[order], kept, covered, starts
    )


def _kept(extent: F64, apart: Flags, coverage: float) -> Flags:
    """The clusters set apart, whose extent does not show what they take, and the heaviest others
    until all make up `coverage` of the extent: at least one, which stands for those left out."""
    if coverage >= 1.0:
        return np.ones(len(extent), dtype=bool)
    kept = apart.copy()
    others = np.flatnonzero(~apart)
    order = others[np.argsort(-extent[others], kind="stable")]
    so_far = float(extent[apart].sum()) + np.cumsum(extent[order])
    enough = int(np.searchsorted(so_far, coverage - 1e-12)) + 1
    kept[order[:enough]] = True
    return kept


def _before(sums: list[ClusterSums], number: I64, clusters: int) -> I64:
    """int64[runs, clusters]: slices of the cluster in the runs before."""
    sizes = np.zeros((len(sums), clusters), np.int64)
    there = number >= 0
    for row, one in zip(sizes, sums, strict=True):
        row[number[there]] = one.size[there]
    return np.cumsum(sizes, axis=0) - sizes


def _nearest(
    executor: Executor,
    labelled: Sequence[Handle[LabelledSlices]],
    portions: list[Portions],
    starts: I64,
    reach: Handle[tuple[F64, ...]] | None = None,
) -> tuple[RepresentativeSlices, Candidates]:
    handles = executor.map(_candidates, labelled, portions, [reach] * len(labelled))
    return nearest_of_all(list(executor.results(handles)), starts[:-1], portions[0].bounds)


def _candidates(
    slices: LabelledSlices, portions: Portions, reach: tuple[F64, ...] | None
) -> Candidates:
    return candidates_of(slices.labels, slices.distance2, portions, reach)


def _reach(
    best: Candidates, bounds: tuple[I64, ...], clusters: Clusters, early: float
) -> tuple[F64, ...]:
    """The largest allowed distance for each part."""
    reach = tuple(np.zeros(len(own) - 1) for own in bounds)
    radius = np.sqrt(clusters.square / np.maximum(clusters.size, 1))
    for c, p, d2 in zip(best["cluster"], best["part"], best["distance2"], strict=True):
        reach[c][p] = np.sqrt(d2) + early * radius[c]
    return reach


def _renumbered(slices: LabelledSlices, number: I32) -> LabelledSlices:
    return replace(slices, labels=number[slices.labels])


def _labels(slices: LabelledSlices, number: I32) -> npt.NDArray[np.integer[Any]]:
    """Labels in the smallest sufficient integer type, for transfer."""
    labels = number[slices.labels]
    return labels.astype(np.int8 if len(number) < 128 else np.int32)
