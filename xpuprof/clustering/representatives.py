"""From labelled slices to representatives and multipliers, run by run.

A run's slices stay where they are; what travels are sums by cluster and each run's best slices. So
the cost in one place grows with the runs and the clusters, not with the slices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from xpuprof.clustering.executors import Farm
from xpuprof.clustering.nearest import Best, Cuts, Picks, best_of, cut, joined

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]

NOT_THERE = np.iinfo(np.int64).max


@dataclass(frozen=True, eq=False)
class Piece:
    """A run's slices: cluster, squared distance to its centroid, share of the whole extent."""

    labels: I32
    distance2: F32
    extent: F64

    def __sizeof__(self) -> int:
        return self.labels.nbytes + self.distance2.nbytes + self.extent.nbytes


@dataclass(frozen=True, eq=False)
class Tally:
    """A run by cluster: its first slice (NOT_THERE without one), slices, extent, sum of squared
    distances."""

    slices: int
    first: I64
    size: I64
    extent: F64
    square: F64


@dataclass(frozen=True, eq=False)
class Clusters:
    """All runs by cluster, clusters numbered by their first slice: `size` int64[k], `extent`
    float64[k], `square` float64[k]; `kept`: whether the cluster is covered; `covered`: their share
    of all slices. `starts`: number of each run's first slice, and of all slices."""

    size: I64
    extent: F64
    square: F64
    kept: npt.NDArray[np.bool_]
    covered: float
    starts: I64

    @property
    def slices(self) -> int:
        """Slices of all runs."""
        return int(self.starts[-1])


@dataclass(frozen=True, eq=False)
class Settled:
    """`labels` int32[slices] of all runs (-1: not covered), `picks`, what the clusters hold."""

    labels: I32
    picks: Picks
    clusters: Clusters


def settle(
    farm: Farm,
    pieces: Sequence[object],
    labels: int,
    how_many: Callable[[Clusters], I64],
    coverage: float = 1.0,
    early: float | None = None,
) -> Settled:
    """Picks over all pieces (handles of Piece with labels below `labels`), in their order.

    `how_many` says how many representatives each cluster gets. A cluster's slices, in the order of
    the runs, are cut into that many parts of equal size; each is represented by its slice nearest
    to the centroid. Several representatives are thus spread over the run, and see drift and
    disturbances in proportion. With `early` (a fraction of the cluster's root mean square radius)
    the earliest slice is taken that lies no more than that farther off than the nearest; 0 gives
    SimPoint's ties. `coverage`: the heaviest clusters that make up this share of the extent are
    kept.
    """
    tallies: list[Tally] = list(farm.get(farm.keep(tally, pieces, [labels] * len(pieces))))
    number, clusters = _joined(tallies, coverage)
    count = len(pieces)
    shared = farm.share(np.where(number >= 0, number, -1).astype(np.int32))
    pieces = farm.keep(_renumbered, pieces, [shared] * count)
    bounds = cut(clusters.size, np.where(clusters.kept, how_many(clusters), 0))
    before = _before(tallies, number, len(clusters.size))
    cuts = [Cuts(bounds, row) for row in before]
    picks, best = _best(farm, pieces, cuts, clusters.starts, bounds)
    if early is not None:
        reach = farm.share(_reach(best, bounds, clusters, early))
        picks, _ = _best(farm, pieces, cuts, clusters.starts, bounds, reach)
    gone = np.where(clusters.kept, np.arange(len(clusters.kept)), -1).astype(np.int32)
    every = np.empty(clusters.slices, np.int32)
    position = 0
    for part in farm.get(farm.keep(_labels, pieces, [gone] * count)):
        every[position : position + len(part)] = part
        position += len(part)
    return Settled(every, picks, clusters)


def tally(piece: Piece, labels: int) -> Tally:
    """A piece by cluster."""
    first = np.full(labels, NOT_THERE)
    backwards = piece.labels[::-1]
    first[backwards] = np.arange(len(backwards) - 1, -1, -1)
    return Tally(
        slices=len(piece.labels),
        first=first,
        size=np.bincount(piece.labels, minlength=labels),
        extent=np.bincount(piece.labels, piece.extent, labels).astype(np.float64),
        square=np.bincount(piece.labels, piece.distance2, labels).astype(np.float64),
    )


def _joined(tallies: list[Tally], coverage: float) -> tuple[I64, Clusters]:
    """The new number of each label (-1 for one without slices), and the clusters."""
    starts = np.cumsum([0, *(one.slices for one in tallies)])
    first = np.full(len(tallies[0].first), NOT_THERE)
    size = np.zeros(len(first), np.int64)
    extent, square = np.zeros(len(first)), np.zeros(len(first))
    for one, start in zip(tallies, starts.tolist(), strict=False):
        here = one.first < NOT_THERE
        first[here] = np.minimum(first[here], one.first[here] + start)
        size, extent, square = size + one.size, extent + one.extent, square + one.square
    order = np.argsort(first, kind="stable")[: np.count_nonzero(size)]
    number = np.full(len(first), -1)
    number[order] = np.arange(len(order))
    kept = _heaviest(extent[order], coverage)
    covered = float(size[order][kept].sum() / size.sum()) if coverage < 1.0 else 1.0
    return number, Clusters(size[order], extent[order], square[order], kept, covered, starts)


def _heaviest(weight: F64, coverage: float) -> npt.NDArray[np.bool_]:
    """The heaviest clusters that make up `coverage` of the extent."""
    if coverage >= 1.0:
        return np.ones(len(weight), dtype=bool)
    order = np.argsort(-weight, kind="stable")
    enough = int(np.searchsorted(np.cumsum(weight[order]), coverage - 1e-12)) + 1
    kept = np.zeros(len(weight), dtype=bool)
    kept[order[:enough]] = True
    return kept


def _before(tallies: list[Tally], number: I64, clusters: int) -> npt.NDArray[np.int64]:
    """int64[runs, clusters]: slices of the cluster in the runs before."""
    sizes = np.zeros((len(tallies), clusters), np.int64)
    there = number >= 0
    for row, one in zip(sizes, tallies, strict=True):
        row[number[there]] = one.size[there]
    return np.cumsum(sizes, axis=0) - sizes


def _best(
    farm: Farm,
    pieces: Sequence[object],
    cuts: list[Cuts],
    starts: I64,
    bounds: tuple[I64, ...],
    reach: object = None,
) -> tuple[Picks, Best]:
    found = list(farm.get(farm.keep(_best_of, pieces, cuts, [reach] * len(pieces))))
    return joined(found, starts[:-1], bounds)


def _best_of(piece: Piece, cuts: Cuts, reach: tuple[F64, ...] | None) -> Best:
    return best_of(piece.labels, piece.distance2, cuts, reach)


def _reach(
    best: Best, bounds: tuple[I64, ...], clusters: Clusters, early: float
) -> tuple[F64, ...]:
    """How far off a slice of each part may lie."""
    reach = tuple(np.zeros(len(own) - 1) for own in bounds)
    radius = np.sqrt(clusters.square / np.maximum(clusters.size, 1))
    for c, p, d2 in zip(best.cluster, best.part, best.distance2, strict=True):
        reach[c][p] = np.sqrt(d2) + early * radius[c]
    return reach


def _renumbered(piece: Piece, number: I32) -> Piece:
    return Piece(number[piece.labels], piece.distance2, piece.extent)


def _labels(piece: Piece, number: I32) -> npt.NDArray[np.integer[Any]]:
    """Labels as they travel: in as few bytes as they need."""
    labels = number[piece.labels]
    return labels.astype(np.int8 if len(number) < 128 else np.int32)
