# SPDX-License-Identifier: Apache-2.0
"""What several timer runs tell of the slice times of further ones."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from xpuprof.arrays import F64, I32, I64
from xpuprof.estimation.allocation import moments
from xpuprof.estimation.typical_times import ENOUGH_FOR_MEDIAN, typical_times
from xpuprof.trace.pieces import pieces


@dataclass(frozen=True, eq=False)
class SliceTimes:
    """Times of all slices, in the order of the runs: `typical` float64[slices], seconds, over
    `repeats` timer runs (the fewest of any run); `extremes` float64[2, slices], the least and the
    greatest time of each slice in these, and `inner` those next to them; `noise` float64[slices],
    seconds squared: by how much the typical time of a slice over ENOUGH_FOR_MEDIAN of the runs
    differs from that over all."""

    typical: F64
    repeats: int
    extremes: F64
    inner: F64
    noise: F64

    @classmethod
    def of(cls, times: F64) -> SliceTimes:
        """From float64[repeats, slices] or float64[slices]."""
        rows = np.atleast_2d(times)
        extremes, inner = np.empty((2, rows.shape[1])), np.empty((2, rows.shape[1]))
        noise, second = np.zeros(rows.shape[1]), min(1, len(rows) - 1)
        weights = _shares_of_medians(len(rows))
        for piece in pieces(rows.shape[1]):
            ranked = np.sort(rows[:, piece], axis=0)
            extremes[:, piece] = ranked[[0, -1]]
            inner[:, piece] = ranked[[second, -1 - second]]
            if len(rows) > ENOUGH_FOR_MEDIAN:
                middle = (ranked[(len(rows) - 1) // 2] + ranked[len(rows) // 2]) / 2.0
                noise[piece] = weights @ (ranked - middle) ** 2
        return cls(typical_times(rows), len(rows), extremes, inner, noise)

    def only(self, rows: I64) -> SliceTimes:
        """Those of some slices."""
        return SliceTimes(
            self.typical[rows],
            self.repeats,
            self.extremes[:, rows],
            self.inner[:, rows],
            self.noise[rows],
        )

    def moments(self, labels: I32) -> tuple[I64, F64, F64]:
        """Slices, mean and standard deviation of the typical times in each cluster, as of
        ENOUGH_FOR_MEDIAN further runs."""
        clusters = int(labels.max()) + 1
        size, mean, deviation = moments(labels, self.typical, clusters)
        noise = np.bincount(labels, self.noise, clusters) / np.maximum(size, 1)
        return size, mean, np.hypot(deviation, np.sqrt(noise))

    def away_from(self, value: float, *, but_one: bool = False) -> F64:
        """How far each slice stays away from `value` in every run, or in every run but one,
        float64[slices]; 0 for a slice that was on either side."""
        least, greatest = self.inner if but_one else self.extremes
        away: F64 = np.maximum(np.maximum(least - value, value - greatest), 0.0)
        return away

    def stay(self, every: int, but_one: int) -> float:
        """Which share of the `every` slices that were away in every run will be so in the typical
        time of ENOUGH_FOR_MEDIAN further ones; `but_one` were away in every run but one.

        Leave one run out: of the slices that are away in all others, those that are away in the
        one left out, too, are as many as will be in a further run.
        """
        kept = self.repeats * every
        again = kept / max(kept + but_one, 1)
        return again * again * (3.0 - 2.0 * again)


def _shares_of_medians(repeats: int) -> F64:
    """Share of the subsets of three repeats whose median is the repeat of each rank,
    float64[repeats]: one of the three ranks lower, one higher."""
    below = np.arange(repeats)
    return below * below[::-1] / max(math.comb(repeats, ENOUGH_FOR_MEDIAN), 1)
