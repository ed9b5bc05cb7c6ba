# SPDX-License-Identifier: Apache-2.0
"""Strata of slices, the error that a sample of them leaves, and random draws.

Shared by the methods that draw at random; they differ in how they form the strata. Notation as in
STEM+ROOT (section 3.3): stratum i has N_i slices with mean mu_i and standard deviation sigma_i; m_i
of them are drawn; the estimate of the whole is sum N_i * mean_i (Eq. 4), whose variance is sum
N_i^2 sigma_i^2 / m_i.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xpuprof.arrays import F64, I32, I64
from xpuprof.estimation.allocation import moments
from xpuprof.selection import design

Rows = I64 | I32


@dataclass(frozen=True, eq=False)
class Partition:
    """The slices in strata. `order[start[i]:start[i + 1]]` are the slices of stratum i.

    `mean` and `sigma` (population standard deviation) describe the slice times, in seconds.
    """

    order: Rows
    start: I64
    mean: F64
    sigma: F64

    @property
    def size(self) -> I64:
        """N_i."""
        return np.diff(self.start)

    def labels(self) -> I32:
        """Stratum of each slice."""
        result = np.empty(len(self.order), dtype=np.int32)
        result[self.order] = np.repeat(np.arange(len(self.mean), dtype=np.int32), self.size)
        return result

    def with_draws(self, draws: I64) -> design.Strata:
        """The strata in the selection's form."""
        columns = (self.size, draws, self.mean, self.sigma)
        return design.Strata(*(tuple(column.tolist()) for column in columns))


def from_labels(labels: I32, times: F64) -> Partition:
    """Strata from labels (dense from 0)."""
    size, mean, sigma = moments(labels, times, int(labels.max()) + 1, lost_freedom=0)
    start = np.concatenate([[0], np.cumsum(size)])
    return Partition(np.argsort(labels, kind="stable"), start, mean, sigma)


def error_bound(strata: design.Strata, z: float, *, replacement: bool) -> float:
    """Predicted relative error at the confidence of z: z sqrt(sum N_i^2 sigma_i^2 / m_i) / T; 0 if
    nothing takes time.

    Without replacement each term carries the finite-population factor (N_i - m_i) / (N_i - 1)
    (Cochran, Sampling Techniques, section 5.3).
    """
    columns = (strata.size, strata.draws, strata.mean, strata.sigma)
    size, draws, mean, sigma = (np.array(column, dtype=np.float64) for column in columns)
    variance, total = size**2 * sigma**2 / draws, float(np.dot(size, mean))
    if not replacement:
        variance *= (size - np.minimum(draws, size)) / np.maximum(size - 1.0, 1.0)
    return z * float(np.sqrt(variance.sum())) / total if total else 0.0


def draw(
    strata: Partition, draws: I64, rng: np.random.Generator, *, replacement: bool
) -> tuple[I64, I64, I64]:
    """Random slices of each stratum: (slice rows, their strata, how often each was drawn)."""
    size = strata.size
    if replacement:
        of_draw = np.repeat(np.arange(len(draws)), draws)
        within = (rng.random(len(of_draw)) * size[of_draw]).astype(np.int64)
        position, often = np.unique(strata.start[of_draw] + within, return_counts=True)
    else:
        parts = [
            np.arange(n) if m >= n else np.sort(rng.choice(n, m, replace=False, shuffle=False))
            for n, m in zip(size.tolist(), draws.tolist(), strict=True)
        ]
        position = np.concatenate([s + p for s, p in zip(strata.start, parts, strict=False)])
        often = np.ones(len(position), dtype=np.int64)
    places = np.asarray(position, dtype=np.int64)
    owner = np.asarray(np.searchsorted(strata.start, places, side="right") - 1, dtype=np.int64)
    return strata.order[places].astype(np.int64), owner, often
