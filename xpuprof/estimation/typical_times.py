# SPDX-License-Identifier: Apache-2.0
"""One time per slice from several runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from xpuprof.arrays import F64
from xpuprof.trace.pieces import pieces

ENOUGH_FOR_MEDIAN = 3


@dataclass(frozen=True, eq=False)
class Repeats:
    """Times of the same slices in several runs: `length` slices, the `totals` of the runs, and how
    to `read` float64[runs, piece]."""

    length: int
    totals: F64
    read: Callable[[slice], F64]

    @classmethod
    def of(cls, times: F64) -> Repeats:
        """From float64[repeats, slices] (or one repeat)."""
        rows = np.atleast_2d(np.asarray(times, dtype=np.float64))
        return cls(rows.shape[1], rows.sum(axis=1), lambda piece: rows[:, piece])

    def typical(self) -> Iterator[tuple[slice, F64]]:
        """The typical times piece by piece, to be multiplied by `scale`."""
        for piece in pieces(self.length):
            own = self.read(piece)
            few = len(own) < ENOUGH_FOR_MEDIAN
            yield piece, own.mean(axis=0) if few else np.median(own, axis=0)

    def scale(self, total: float) -> float:
        """What makes typical times with this total add up to the median run's."""
        wanted = float(np.median(self.totals))
        usable = len(self.totals) >= ENOUGH_FOR_MEDIAN and np.isfinite(wanted) and total > 0.0
        return wanted / total if usable else 1.0


def typical_times(times: F64 | Repeats) -> F64:
    """Typical time of each slice: float64[slices] from float64[repeats, slices] (or one repeat).

    With three or more repeats, the median per slice. Occasional disturbances of milliseconds
    (another process, an interrupt) hit a slice of microseconds in one run; they are not the
    program's, yet would be multiplied a thousandfold if that slice represents its cluster. The
    medians are scaled so that they add up to the median run's measured total. Fewer repeats cannot
    separate disturbances from the program, so they give the mean. Medians are not scaled if a slice
    was not measured (NaN).
    """
    repeats = times if isinstance(times, Repeats) else Repeats.of(times)
    typical = np.empty(repeats.length)
    for piece, own in repeats.typical():
        typical[piece] = own
    typical *= repeats.scale(float(typical.sum()))
    return typical


def first_stands_out(repeats: Repeats) -> bool:
    """Whether the first of several runs exceeds the others by more than any of those does.

    A run's excess is the time that its slices take beyond the slowest other run, summed: building
    kernels for empty caches lengthens a few slices by much, a slow terminal all by little. Of runs
    that are alike, each is equally likely to have the greatest excess, whatever the times are, so
    medians over all of them are unbiased if the first does not.
    """
    excess = np.zeros(len(repeats.totals))
    for piece in pieces(repeats.length):
        own = repeats.read(piece)
        ranked = np.sort(own, axis=0)
        excess += np.bincount(own.argmax(axis=0), ranked[-1] - ranked[-2], len(own))
    return bool(excess[0] > excess[1:].max())
