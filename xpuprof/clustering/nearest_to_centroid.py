# SPDX-License-Identifier: Apache-2.0
"""The slices nearest to the centroid in each part of a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from xpuprof.arrays import F32, F64, I32, I64


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


CANDIDATE = np.dtype(
    [
        ("cluster", np.int64),
        ("part", np.int64),
        ("distance2", np.float64),
        ("tie", np.int64),
        ("position", np.int64),
        ("slice", np.int64),
    ]
)
"""A run's best slice for a part that it shares. Smaller is better: by `distance2`, then `tie`, then
`position`. `slice` is a row of the run."""
Candidates = npt.NDArray[np.void]


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
    found = [np.empty(0, CANDIDATE)]
    for cluster, bounds in enumerate(portions.bounds):
        members = order[edges[cluster] : edges[cluster + 1]]
        if len(bounds) < 2 or not len(members):
            continue
        position = portions.start[cluster] + np.arange(len(members))
        part = np.searchsorted(bounds, position, side="right") - 1
        # Two slices are equally far from their mean, so rounding must not decide.
        equal = bounds[-1] == 2
        d2 = np.zeros(len(members)) if equal else distance2[members].astype(np.float64)
        if reach is None:
            tie = np.abs(2 * (position - bounds[part]) - np.diff(bounds)[part] + 1)
            chosen = _least(part, d2, tie)
        else:  # all slices within reach are as good as the nearest
            within = np.flatnonzero(np.sqrt(d2) <= reach[cluster][part])
            chosen = within[_firsts(part[within])]
            d2 = tie = np.zeros(len(members), np.int64)
        best = np.empty(len(chosen), CANDIDATE)
        best["cluster"], best["part"] = cluster, part[chosen]
        best["distance2"], best["tie"] = d2[chosen], tie[chosen]
        best["position"], best["slice"] = position[chosen], members[chosen]
        found.append(best)
    return np.concatenate(found)


def _firsts(part: I64) -> I64:
    """int64[parts]: where each part begins; `part` is ascending."""
    return np.flatnonzero(np.diff(part, prepend=-1))


def _least(part: I64, *keys: npt.NDArray[Any]) -> I64:
    """int64[parts]: for each part the place of the least by the keys, the first key first, and then
    the first one. `part` is ascending and not empty."""
    place = np.arange(len(part))
    for key in keys:
        own, first = key[place], _firsts(part[place])
        length = np.diff(np.append(first, len(place)))
        place = place[own == np.repeat(np.minimum.reduceat(own, first), length)]
    return place[_firsts(part[place])]


def _best(every: Candidates) -> Candidates:
    """The best candidate for each part, by cluster and part."""
    keys = ("position", "tie", "distance2", "part", "cluster")
    every = every[np.lexsort([every[key] for key in keys])]
    change = np.diff(every["cluster"], prepend=-1) | np.diff(every["part"], prepend=-1)
    return every[np.flatnonzero(change)]


def nearest_of_all(
    runs: Sequence[Candidates], starts: I64, bounds: tuple[I64, ...]
) -> tuple[RepresentativeSlices, Candidates]:
    """The best slice of all runs for each part, in slice order. `starts[r]`: number of run r's
    first slice. The second value has the same rows by cluster."""
    every = np.concatenate(runs)
    every["slice"] += np.repeat(starts, [len(run) for run in runs])
    best = _best(every)
    size = [
        bounds[c][p + 1] - bounds[c][p]
        for c, p in zip(best["cluster"].tolist(), best["part"].tolist(), strict=True)
    ]
    by_slice = np.argsort(best["slice"], kind="stable")
    stands_for = np.array(size, dtype=np.float64)[by_slice]
    own = best[by_slice]
    return RepresentativeSlices(own["slice"].copy(), own["cluster"].copy(), stands_for), best
