# SPDX-License-Identifier: Apache-2.0
"""Allegro: recursive two-means until a group is homogeneous, then the CLT's sample size.

Chung, Na, Kim: "Allegro: GPU Simulation Acceleration for Machine Learning Workloads", MLArchSys
2024. Algorithm and theorem numbers are the paper's.
"""

from __future__ import annotations

from xpuprof.clustering.one_dimension import Sorted, two_means
from xpuprof.estimation.quantiles import z_score
from xpuprof.methods import drawn
from xpuprof.methods.declaration import AT_LEAST_1, CONFIDENCE, EPSILON, Method, Need, Option
from xpuprof.methods.profile import SliceProfile
from xpuprof.methods.stem_root import Part, single_size, split_groups
from xpuprof.selection.selection import Selection

CLT_MINIMUM = 30
"""Smallest sample for which the central limit theorem is assumed to hold (Theorem 2)."""

BASIS = "Allegro, Theorem 3: central limit theorem over groups of equal kernels and similar times"


def select(
    profile: SliceProfile,
    *,
    seed: int = 0,
    epsilon: float = 0.05,
    m_Th: int = 50,
    confidence: float = 0.95,
) -> Selection:
    """Select m_min slices of every group of Algorithm 1 (every slice of a smaller group).

    Groups: kernel name, grid and block size, then two-means while m_min > `m_Th` (default 50).
    `epsilon`: error bound, a fraction (default 0.05). Raises NeedsError without times.
    """
    times = profile.require_times("allegro")
    z = z_score(confidence)
    strata, sizes = split_groups(
        profile.groups(grid=True), times, lambda data: cluster(data, epsilon, z, m_Th)
    )
    return drawn.select(
        profile,
        strata,
        sizes,
        method="allegro",
        parameters={"epsilon": epsilon, "m_Th": m_Th, "confidence": confidence},
        seed=seed,
        replacement=False,
        basis=BASIS,
        confidence=confidence,
    )


def m_min(mean: float, sigma: float, epsilon: float, z: float) -> int:
    """Theorem 2: max(ceil((z sigma / (epsilon mu))^2), 30)."""
    return max(single_size(mean, sigma, epsilon, z), CLT_MINIMUM)


def cluster(data: Sorted, epsilon: float, z: float, threshold: int) -> list[Part]:
    """CLUSTER_KERNEL of Algorithm 1 with k = 2: the homogeneous groups and their m_min."""
    parts: list[Part] = []
    pending = [(0, len(data))]
    while pending:
        low, high = pending.pop()
        _, mean, sigma = data.moments(low, high)
        m = m_min(mean, sigma, epsilon, z)
        if high - low < 2 or m <= threshold:
            parts.append((low, high, m))
        else:
            cut = two_means(data, low, high)
            pending.extend([(cut, high), (low, cut)])
    return parts


METHOD = Method(
    name="allegro",
    help="Two-means on times of equal kernels until each group is homogeneous (MLArchSys 2024).",
    select=select,
    needs=(Need.TIMES,),
    options=(
        EPSILON,
        Option(
            "m_Th",
            int,
            50,
            "Largest sample of a group that is not divided further.",
            within=AT_LEAST_1,
        ),
        CONFIDENCE,
    ),
    bound="epsilon",
    by_times=True,
)
