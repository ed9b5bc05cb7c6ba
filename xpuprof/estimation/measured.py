# SPDX-License-Identifier: Apache-2.0
"""The typical values of a run whose every slice was measured, for one selection."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from xpuprof.arrays import F64, I32, I64
from xpuprof.estimation.typical_times import Repeats
from xpuprof.selection.selection import Selection, label_counts


@dataclass(frozen=True, eq=False)
class ByCluster:
    """Values of all slices, those of a cluster one after the other in run order: 8 bytes a slice.
    Slices that are not covered come first; `bounds[c + 1]` is where cluster c begins."""

    values: F64
    bounds: I64

    def of(self, cluster: int) -> F64:
        """The cluster's values."""
        return self.values[self.bounds[cluster + 1] : self.bounds[cluster + 2]]

    @property
    def left_out(self) -> F64:
        """The values of slices that are not covered."""
        return self.values[: self.bounds[1]]

    @property
    def covered(self) -> F64:
        """The values of all clusters."""
        return self.values[self.bounds[1] :]

    @classmethod
    def of_pieces(cls, labels: I32, pieces: Iterable[tuple[slice, F64]]) -> ByCluster:
        """From values in run order, piece by piece."""
        bounds = np.concatenate(([0], np.cumsum(label_counts(labels))))
        values, place = np.empty(len(labels)), bounds[:-1].copy()
        for piece, own in pieces:
            label = labels[piece] + 1
            order = np.argsort(label, kind="stable")
            count = np.bincount(label, minlength=len(place))
            first = place - (np.cumsum(count) - count)
            values[first[label[order]] + np.arange(len(order))] = own[order]
            place += count
        return cls(values, bounds)


def by_cluster(selection: Selection, values: F64) -> ByCluster:
    """From values in run order, float64[slices]."""
    return ByCluster.of_pieces(_groups(selection), [(slice(0, len(values)), values)])


def _groups(selection: Selection) -> I32:
    """Ranks are drawn from the whole run, or from each process."""
    labels, ranks = selection.labels, selection.design.ranks
    if selection.design.how != "ranked":
        return labels
    if ranks is None:
        return np.broadcast_to(np.int32(0), selection.slices)
    process = np.repeat(np.arange(len(ranks), dtype=np.int32), ranks)
    return np.where(labels < 0, np.int32(-1), process[labels])


@dataclass(frozen=True)
class Measured:
    """The `total` over all slices, over the `inner` ones without the first and the last, and the
    values `of` the representatives, the first and the last slice."""

    total: float
    inner: float
    of: Mapping[int, float]

    @classmethod
    def at(cls, selection: Selection, values: F64) -> Measured:
        """From values in run order, float64[slices]."""
        of = {row: float(values[row]) for row in _named(selection)}
        return cls(float(values.sum()), float(values[1:-1].sum()), of)


def _named(selection: Selection) -> list[int]:
    return sorted({0, selection.slices - 1, *(r.slice for r in selection.representatives)})


def gathered(selection: Selection, repeats: Repeats) -> tuple[Measured, ByCluster]:
    """The typical values, in memory for one value a slice."""
    named, inner = np.array(_named(selection)), 0.0
    of: dict[int, float] = {}

    def watched() -> Iterable[tuple[slice, F64]]:
        nonlocal inner
        for piece, own in repeats.typical():
            here = named[slice(*np.searchsorted(named, (piece.start, piece.stop)))]
            of.update(zip(here.tolist(), own[here - piece.start].tolist(), strict=True))
            inner += float(own[piece.start == 0 : len(own) - (piece.stop == repeats.length)].sum())
            yield piece, own

    known = ByCluster.of_pieces(_groups(selection), watched())
    scale = repeats.scale(float(known.values.sum()))
    np.multiply(known.values, scale, out=known.values)
    of = {row: value * scale for row, value in of.items()}
    return Measured(float(known.values.sum()), inner * scale, of), known
