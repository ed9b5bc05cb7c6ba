# SPDX-License-Identifier: Apache-2.0
"""STEM+ROOT: hierarchical clustering of kernel times with a statistical error bound.

Chung, Na, Kang, Kim: "Swift and Trustworthy Large-Scale GPU Simulation with Fine-Grained Error
Modeling and Hierarchical Clustering", MICRO 2025. Equation numbers are the paper's.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from xpuprof.arrays import F64, I64
from xpuprof.clustering.one_dimension import ROUNDING, Sorted, compress, k_means
from xpuprof.estimation.allocation import positive
from xpuprof.estimation.quantiles import z_score
from xpuprof.estimation.stratified import Partition, Rows
from xpuprof.methods import drawn
from xpuprof.methods.declaration import CONFIDENCE, EPSILON, Method, Need, Option, Range
from xpuprof.methods.profile import SliceProfile
from xpuprof.selection.selection import Selection

Part = tuple[int, int, int]
"""A cluster of one group's distinct times, [low, high), with its sample size."""
Split = Callable[[Sorted], list[Part]]

BASIS = "STEM+ROOT, Eq. 4: central limit theorem over strata of slice times"


def select(
    profile: SliceProfile,
    *,
    seed: int = 0,
    epsilon: float = 0.05,
    confidence: float = 0.95,
    k: int = 2,
    sizes: str = "joint",
) -> Selection:
    """Select slices so that the total time is within `epsilon` at `confidence`.

    `epsilon`: error bound, a fraction (the paper's default 0.05). `k`: clusters of one split
    (paper: 2). `sizes`: "joint" solves Eq. 6 once over all clusters, which keeps the bound and
    measures least; "split" keeps the size that each cluster got in its split, as the authors'
    program does. Theorem 3.1 does not cover that: a cluster keeps the size of a joint bound while
    its sibling, split further, gets a bound of its own, so the error may exceed `epsilon`. Slices
    are drawn with replacement (section 3.5). Raises NeedsError without times.
    """
    times = profile.require_times("stem-root")
    z = z_score(confidence)
    groups = profile.groups(grid=False)
    strata, wanted = split_groups(groups, times, lambda data: root(data, epsilon, z, k))
    if sizes == "joint":
        wanted = joint_sizes(strata.size, strata.mean, strata.sigma, epsilon, z)
    return drawn.select(
        profile,
        strata,
        wanted,
        method="stem-root",
        parameters={"epsilon": epsilon, "confidence": confidence, "k": k, "sizes": sizes},
        seed=seed,
        replacement=True,
        basis=BASIS,
        confidence=confidence,
    )


def joint_sizes(size: I64, mean: F64, sigma: F64, epsilon: float, z: float) -> I64:
    """Eq. 6, the KKT solution of Problem 1, as int64[strata], each at least 1.

    Least measured time sum m_i mu_i such that sum N_i^2 sigma_i^2 / m_i <= (epsilon T / z)^2, where
    T = sum N_i mu_i: m_i = ceil(sum_j sqrt(a_j b_j) / c * sqrt(b_i / a_i)) with a_i = mu_i,
    b_i = N_i^2 sigma_i^2, c = (epsilon T / z)^2. (The paper prints sqrt(sum a_j b_j); its own
    derivation, section 8.1, and the constraint give the sum of the square roots.)
    """
    allowed = max((epsilon * float(np.dot(size, mean)) / z) ** 2, 1e-300)
    root, weight = np.sqrt(positive(mean)), size * sigma
    wanted = np.ceil(float(np.dot(weight, root)) / allowed * weight / root - 1e-9)
    return np.maximum(wanted, 1.0).astype(np.int64)


def single_size(mean: float, sigma: float, epsilon: float, z: float) -> int:
    """Eq. 3 (Allegro, Theorem 2 without its floor), which is Eq. 6 for one stratum:
    m = ceil((z sigma / (epsilon mu))^2), at least 1."""
    (size,) = joint_sizes(np.ones(1, np.int64), np.array([mean]), np.array([sigma]), epsilon, z)
    return int(size)


def root(data: Sorted, epsilon: float, z: float, k: int = 2) -> list[Part]:
    """ROOT (section 3.4): the clusters of one kernel's times, with their sample sizes.

    A cluster is split as long as that lowers the measured time: tau_old = m mean > tau_new = sum
    m_i mean_i (Eq. 8, the m_i from Eq. 6 over the parts). m comes from Eq. 7 for the whole kernel
    and, for a part, from the split that made it.
    """
    _, mean, sigma = data.moments()
    parts: list[Part] = []
    pending = [(0, len(data), single_size(mean, sigma, epsilon, z), mean)]
    while pending:
        low, high, m, mean = pending.pop()
        cuts = k_means(data, low, high, k)
        moments = [data.moments(*part) for part in pairwise(cuts)]
        number, means, sigmas = (np.array(column) for column in zip(*moments, strict=True))
        sizes = joint_sizes(number, means, sigmas, epsilon, z)
        if len(cuts) > 2 and m * mean > (1.0 + ROUNDING) * float(np.dot(sizes, means)):
            # Last in, first out: the leftmost part is next, so parts come in order.
            split = zip(cuts[:-1], cuts[1:], sizes.tolist(), means.tolist(), strict=True)
            pending.extend(reversed(list(split)))
        else:
            parts.append((low, high, m))
    return parts


def split_groups(groups: npt.NDArray[np.int32], times: F64, split: Split) -> tuple[Partition, I64]:
    """Strata from splitting each group's times, with their sample sizes.

    Memory: the order (4 bytes per slice up to 2^31) and one group's sorted times at a time.
    """
    narrow = groups.astype(np.int16) if groups.max() < 2**15 else groups
    # A stable sort of 16-bit keys is numpy's radix sort: linear.
    order: Rows = np.argsort(narrow, kind="stable")
    if len(groups) < 2**31:
        order = order.astype(np.int32)
    counts = np.bincount(groups)
    sizes: list[int] = []
    means: list[float] = []
    sigmas: list[float] = []
    wanted: list[int] = []
    at = 0
    for count in counts[counts > 0].tolist():
        rows = order[at : at + count]
        own = times[rows]
        by_time = np.argsort(own)
        order[at : at + count] = rows[by_time]
        data = compress(own[by_time])
        for low, high, m in split(data):
            number, mean, sigma = data.moments(low, high)
            sizes.append(number)
            means.append(mean)
            sigmas.append(sigma)
            wanted.append(m)
        at += count
    start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return Partition(order, start, np.array(means), np.array(sigmas)), np.array(wanted)


METHOD = Method(
    name="stem-root",
    help="Hierarchical clusters of kernel times with a statistical error bound (MICRO 2025).",
    select=select,
    needs=(Need.TIMES,),
    options=(
        EPSILON,
        CONFIDENCE,
        Option("k", int, 2, "Clusters of one split.", within=Range(2)),
        Option(
            "sizes",
            str,
            "joint",
            "Sample sizes: joint, or split as the authors' program.",
            words=("joint", "split"),
        ),
    ),
    bound="epsilon",
    by_times=True,
)
