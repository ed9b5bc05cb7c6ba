# SPDX-License-Identifier: Apache-2.0
"""Quantiles of the normal distribution and of Student's t, and the degrees of freedom of a sum."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from xpuprof.arrays import F64
from xpuprof.errors import InputError
from xpuprof.trace.pieces import pieces

CONFIDENCE = 0.95
FEW = 1 << 20
"""Values whose copy does not matter."""


def z_score(confidence: float = CONFIDENCE) -> float:
    """z_{1 - alpha/2}: 1.96 at a confidence of 0.95."""
    if not 0.0 < confidence < 1.0:
        raise InputError(f"the confidence must lie between 0 and 1, not {confidence:g}")
    return NormalDist().inv_cdf(0.5 + confidence / 2.0)


def simulated_confidence(confidence: float) -> float:
    """At which confidence the error of a selection for `confidence` is simulated: at least that of
    the intervals stated by default, so that they have its quantile."""
    return max(confidence, CONFIDENCE)


def student(confidence: float, freedom: float) -> float:
    """Two-sided quantile of Student's t; the normal one at infinitely many degrees of freedom."""
    if math.isinf(freedom):
        return z_score(confidence)
    from scipy import special  # lazy: its import takes longer than most commands

    return float(special.stdtrit(freedom, 0.5 + confidence / 2.0))


def median(values: F64) -> float:
    """The median of values that are not negative; long arrays are not copied, as np.median does."""
    size = len(values)
    if size <= FEW:
        return float(np.median(values))
    return (_smallest(values, (size - 1) // 2) + _smallest(values, size // 2)) / 2.0


def _smallest(values: F64, number: int) -> float:
    """The value with `number` smaller ones: its bits, 16 at a time, since those of floating-point
    numbers that are not negative are in the numbers' order."""
    bits, found = values.view(np.uint64), 0
    for shift in (48, 32, 16, 0):
        counts = np.zeros(1 << 16, np.int64)
        for piece in pieces(len(bits)):
            alike = (bits[piece] >> np.uint64(shift)) - np.uint64(found << 16)
            counts += np.bincount(alike[alike < len(counts)].astype(np.int64), minlength=1 << 16)
        up_to = np.cumsum(counts)
        digit = int(np.searchsorted(up_to, number, side="right"))
        number -= int(up_to[digit] - counts[digit])
        found = found << 16 | digit
    return float(np.uint64(found).view(np.float64))


def freedom_of_sum(variances: F64, freedom: F64) -> float:
    """Satterthwaite's degrees of freedom of a sum of independent variances, at least 1. `freedom`
    is infinite for a known variance."""
    uncertain = float(np.sum(variances**2 / freedom))
    return max(float(variances.sum()) ** 2 / uncertain, 1.0) if uncertain else math.inf
