# SPDX-License-Identifier: Apache-2.0
"""Quantiles of the normal distribution and of Student's t, and the degrees of freedom of a sum."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from xpuprof.errors import InputError

F64 = npt.NDArray[np.float64]

CONFIDENCE = 0.95


def z_score(confidence: float = CONFIDENCE) -> float:
    """z_{1 - alpha/2}: 1.96 at a confidence of 0.95."""
    if not 0.0 < confidence < 1.0:
        raise InputError(f"the confidence must lie between 0 and 1, not {confidence:g}")
    return NormalDist().inv_cdf(0.5 + confidence / 2.0)


def student(confidence: float, freedom: float) -> float:
    """Two-sided quantile of Student's t; the normal one at infinitely many degrees of freedom."""
    if math.isinf(freedom):
        return z_score(confidence)
    from scipy import special  # lazy: its import takes longer than most commands

    return float(special.stdtrit(freedom, 0.5 + confidence / 2.0))


def freedom_of_sum(variances: F64, freedom: F64) -> float:
    """Satterthwaite's degrees of freedom of a sum of independent variances, at least 1. `freedom`
    is infinite for a known variance."""
    uncertain = float(np.sum(variances**2 / freedom))
    return max(float(variances.sum()) ** 2 / uncertain, 1.0) if uncertain else math.inf
