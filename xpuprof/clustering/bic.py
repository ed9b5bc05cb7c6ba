# SPDX-License-Identifier: Apache-2.0
"""SimPoint's Bayesian information criterion for clusterings, and its rule for k.

Hamerly, Perelman, Lau, Calder: "SimPoint 3.0: Faster and more flexible program phase analysis"
(JILP 7, 2005), after Pelleg and Moore: "X-means" (ICML 2000).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from xpuprof.arrays import F64
from xpuprof.clustering.options import BIC_THRESHOLD

NOISE_FLOOR = 1e-6
"""Within-cluster variance below this share of the mean squared norm is not structure: differences
of 0.1 % between block vectors say nothing about time. The floor also keeps the score finite when
slices coincide."""


def bic_score(wcss: float, mass: F64, dim: int, floor: float = 0.0) -> float:
    """Score of a clustering: log-likelihood of spherical Gaussians with a common variance, minus
    the penalty p / 2 x log n for p = (k - 1) + k dim + 1 parameters.

    `wcss`: sum of squared distances over all n slices; `mass`: float64[k], slices in each cluster;
    `floor`: smallest credible variance per dimension.
    """
    n = float(mass.sum())
    sigma2 = max(wcss / (dim * n), floor, 1e-300)
    filled = mass[mass > 0.0] / n
    likelihood = n * (
        -dim * (math.log(2.0 * math.pi * sigma2) + 1.0) / 2.0
        + float(np.dot(filled, np.log(filled)))
    )
    parameters = (len(mass) - 1) + len(mass) * dim + 1
    return float(likelihood - parameters / 2.0 * math.log(n))


def choose_k(scores: Mapping[int, float], threshold: float = BIC_THRESHOLD) -> int:
    """SimPoint's rule: the smallest k whose score is at least worst + threshold (best - worst)."""
    worst, best = min(scores.values()), max(scores.values())
    bound = min(worst + threshold * (best - worst), best)  # rounding must not exclude the best
    return min(k for k, score in scores.items() if score >= bound)
