"""STEM+ROOT: hierarchical clustering of kernel times with a statistical error bound.

Chung, Na, Kang, Kim: "Swift and Trustworthy Large-Scale GPU Simulation with Fine-Grained Error
Modeling and Hierarchical Clustering", MICRO 2025. Equation numbers are the paper's.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from xpuprof.errors import InputError
from xpuprof.sampling import stratified
from xpuprof.sampling.one_dimension import Sorted, compress, k_means
from xpuprof.sampling.profile import SliceProfile
from xpuprof.sampling.selection import Selection
from xpuprof.sampling.stratified import Strata, joint_sizes, single_size

F64 = npt.NDArray[np.float64]
Split = Callable[[Sorted], list[int]]
"""Bounds [0, c1, ..., len] of the clusters of one group's distinct times."""

BASIS = "STEM+ROOT, Eq. 4 and Theorem 3.1: central limit theorem over strata of slice times"


def select(
    profile: SliceProfile,
    *,
    seed: int = 0,
    epsilon: float = 0.05,
    confidence: float = 0.95,
    k: int = 2,
    joint: bool = True,
) -> Selection:
    """Select slices so that the total time is within `epsilon` at `confidence`.

    `epsilon`: error bound, a fraction (the paper's default 0.05). `k`: clusters of one split
    (paper: 2). `joint`: sizes from one Problem 1 over all clusters (Eq. 6); False solves it kernel
    by kernel and joins the results by Theorem 3.1, which is safe but measures more. Slices are
    drawn with replacement (section 3.5). Raises NeedsError without times.
    """
    times = profile.require_times("stem-root")
    stratified.check_bound(epsilon)
    if k < 2:
        raise InputError(f"k is the number of clusters of a split and at least 2, not {k}")
    z = stratified.z_score(confidence)
    groups = profile.groups(grid=False)
    strata, owner = split_groups(groups, times, lambda data: root(data, epsilon, z, k))
    if joint:
        sizes = joint_sizes(strata.size, strata.mean, strata.sigma, epsilon, z)
    else:
        sizes = np.empty(len(owner), dtype=np.int64)
        for group in np.unique(owner):
            own = owner == group
            sizes[own] = joint_sizes(
                strata.size[own], strata.mean[own], strata.sigma[own], epsilon, z
            )
    return stratified.select(
        profile,
        strata,
        sizes,
        method="stem-root",
        parameters={"epsilon": epsilon, "confidence": confidence, "k": k, "joint": joint},
        seed=seed,
        replacement=True,
        basis=BASIS,
        confidence=confidence,
    )


def root(data: Sorted, epsilon: float, z: float, k: int = 2) -> list[int]:
    """ROOT (section 3.4): bounds of the clusters of one kernel's times.

    A cluster is split while tau_old = m mean (Eq. 7) exceeds tau_new = sum m_i mean_i (Eq. 8), the
    measured time before and after.
    """
    bounds = [0]
    pending = [(0, len(data))]
    while pending:
        low, high = pending.pop()
        cuts = k_means(data, low, high, k)
        if len(cuts) > 2 and _pays(data, cuts, epsilon, z):
            # Last in, first out: the leftmost part next, so that bounds come in order.
            pending.extend(reversed(list(zip(cuts[:-1], cuts[1:], strict=True))))
        else:
            bounds.append(high)
    return bounds


def _pays(data: Sorted, cuts: list[int], epsilon: float, z: float) -> bool:
    _, mean, sigma = data.moments(cuts[0], cuts[-1])
    tau_old = single_size(mean, sigma, epsilon, z) * mean
    parts = [data.moments(low, high) for low, high in zip(cuts[:-1], cuts[1:], strict=True)]
    number, means, sigmas = (np.array(column) for column in zip(*parts, strict=True))
    sizes = joint_sizes(number, means, sigmas, epsilon, z)
    return tau_old > float(np.dot(sizes, means))


def split_groups(
    groups: npt.NDArray[np.int32], times: F64, split: Split
) -> tuple[Strata, npt.NDArray[np.int64]]:
    """Strata made by splitting each group's times; second, the group of each stratum.

    Memory: the order (4 bytes a slice up to 2^31) and one group's sorted times at a time.
    """
    narrow = groups.astype(np.int16) if groups.max() < 2**15 else groups
    # A stable sort of 16-bit keys is numpy's radix sort: linear.
    order = np.argsort(narrow, kind="stable").astype(
        np.int32 if len(groups) < 2**31 else np.int64, copy=False
    )
    counts = np.bincount(groups)
    sizes: list[int] = []
    means: list[float] = []
    sigmas: list[float] = []
    owner: list[int] = []
    at = 0
    for group, count in enumerate(counts.tolist()):
        if not count:
            continue
        rows = order[at : at + count]
        own = times[rows]
        by_time = np.argsort(own)
        order[at : at + count] = rows[by_time]
        data = compress(own[by_time])
        bounds = split(data)
        for low, high in zip(bounds[:-1], bounds[1:], strict=True):
            number, mean, sigma = data.moments(low, high)
            sizes.append(number)
            means.append(mean)
            sigmas.append(sigma)
            owner.append(group)
        at += count
    start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return Strata(order, start, np.array(means), np.array(sigmas)), np.array(owner)
