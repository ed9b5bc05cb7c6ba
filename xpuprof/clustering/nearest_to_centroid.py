# SPDX-License-Identifier: Apache-2.0
"""The slices nearest to the centroid in each part of a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import numpy.typing as npt

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class RepresentativeSlices:
    """Columns with one row per representative: slice, cluster, number of slices it represents (the
    size of its part of the cluster)."""

    slice: I64
    cluster: I64
    stands_for: F64


@dataclass(frozen=True, eq=False)
class Portions:
    """How every cluster is cut into parts with one representative each: `bounds[c]` int64[parts +
    1], positions among the cluster's slices in the order of all runs; `start[c]`, the position of
    the first slice of the run at hand."""

    bounds: tuple[I64, ...]
    start: I64


@dataclass(frozen=True, eq=False)
class Candidates:
    """A run's best slice for each part that it shares, as columns. Smaller is better: by
    `distance2`, then `tie`, then `position`. `slice` is a row of the run."""

    cluster: I64
    part: I64
    distance2: F64
    tie: I64
    position: I64
    slice: I64


def portion_bounds(size: I64, representatives: I64) -> tuple[I64, ...]:
    """Bounds of as many parts of equal size for each cluster: int64[parts + 1] each."""
    parts = np.minimum(representatives, size)
    return tuple(
        np.arange(wanted + 1, dtype=np.int64) * number // max(wanted, 1)
        for wanted, number in zip(parts.tolist(), size.tolist(), strict=True)
    )


def candidates_of(
    labels: I32, distance2: F32, portions: Portions, reach: tuple[F64, ...] | None = None
) -> Candidates:
    """A run's best slice for each part of each cluster.

    The nearest to the centroid; among equally near slices the middle one, because at the first one
    caches are cold and code is compiled. With `reach` (float64[parts] per cluster), the earliest
    slice within that distance.
    """
    order = np.argsort(labels, kind="stable")
    edges = np.searchsorted(labels[order], np.arange(len(portions.bounds) + 1))
    found: list[Candidates] = []
    for cluster, bounds in enumerate(portions.bounds):
        members = order[edges[cluster] : edges[cluster + 1]]
        if len(bounds) < 2 or not len(members):
            continue
        position = portions.start[cluster] + np.arange(len(members))
        part = np.searchsorted(bounds, position, side="right") - 1
        first = np.flatnonzero(np.diff(part, prepend=-1))
        d2 = distance2[members].astype(np.float64)
        if reach is None:
            good = d2 == np.repeat(np.minimum.reduceat(d2, first), np.diff(first, append=len(d2)))
            tie = np.abs(2 * (position - bounds[part]) - (bounds[part + 1] - bounds[part] - 1))
        else:
            good, tie = np.sqrt(d2) <= reach[cluster][part], np.zeros(len(d2), np.int64)
        rows = np.flatnonzero(good)
        rows = rows[np.lexsort((position[rows], tie[rows], part[rows]))]
        rows = rows[np.flatnonzero(np.diff(part[rows], prepend=-1))]
        own = np.full(len(rows), cluster, np.int64)
        slices = members[rows].astype(np.int64)
        found.append(Candidates(own, part[rows], d2[rows], tie[rows], position[rows], slices))
    return _concatenated(found)


def _concatenated(parts: Sequence[Candidates]) -> Candidates:
    none = np.zeros(0, np.int64)
    every = [Candidates(none, none, np.zeros(0), none, none, none), *parts]
    return Candidates(
        np.concatenate([one.cluster for one in every]),
        np.concatenate([one.part for one in every]),
        np.concatenate([one.distance2 for one in every]),
        np.concatenate([one.tie for one in every]),
        np.concatenate([one.position for one in every]),
        np.concatenate([one.slice for one in every]),
    )


def nearest_of_all(
    runs: Sequence[Candidates], starts: I64, bounds: tuple[I64, ...]
) -> tuple[RepresentativeSlices, Candidates]:
    """The best slice of all runs for each part, in slice order. `starts[r]`: number of run r's
    first slice. The second value has the same rows by cluster."""
    shift = np.repeat(starts, [len(run.slice) for run in runs])
    every = _concatenated(runs)
    every = replace(every, slice=every.slice + shift)
    order = np.lexsort((every.position, every.tie, every.distance2, every.part, every.cluster))
    change = np.diff(every.cluster[order], prepend=-1) | np.diff(every.part[order], prepend=-1)
    rows = order[np.flatnonzero(change)]
    best = Candidates(**{f.name: getattr(every, f.name)[rows] for f in fields(Candidates)})
    size = [
        bounds[c][p + 1] - bounds[c][p]
        for c, p in zip(best.cluster.tolist(), best.part.tolist(), strict=True)
    ]
    by_slice = np.argsort(best.slice, kind="stable")
    stands_for = np.array(size, dtype=np.float64)
    return RepresentativeSlices(
        best.slice[by_slice], best.cluster[by_slice], stands_for[by_slice]
    ), best
