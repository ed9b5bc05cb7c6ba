# SPDX-License-Identifier: Apache-2.0
"""Sieve: strata of equal kernels with similar instruction counts.

Naderan-Tahan, SeyyedAghaei, Eeckhout: "Sieve: Stratified GPU-Compute Workload Sampling",
ISPASS 2023.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from scipy.ndimage import gaussian_filter1d

from xpuprof.arrays import F64, I64
from xpuprof.clustering.one_dimension import Sorted, compress, two_means
from xpuprof.methods import one_per_cluster
from xpuprof.methods.declaration import ABOVE_0, Method, Need, Option
from xpuprof.methods.profile import BLOCK, SliceProfile
from xpuprof.selection.selection import Selection

THETA = 0.4
BINS = 2048
BASIS = (
    "Sieve has no theory of its error: kernels of a stratum are taken to run at the IPC of one of "
    "them (weighted harmonic mean)"
)


def select(profile: SliceProfile, *, seed: int = 0, theta: float = THETA) -> Selection:
    """Select one kernel per stratum.

    Kernels of one name form tier 1 (all instruction counts equal), tier 2 (coefficient of variation
    below `theta`, default 0.4) or tier 3, which kernel density estimation cuts into strata below
    `theta`. The representative is the first invocation with the stratum's most frequent CTA (work-
    group) size. Deterministic: `seed` is only recorded. Raises NeedsError without instruction
    counts.

    The whole run's IPC is the weighted harmonic mean 1 / sum(w_i / IPC_i), w_i the stratum's share
    of the instructions; in time that is sum t_i x (instructions of stratum i / of representative
    i), which is the multiplier here.
    """
    rows = one_per_cluster.kernel_rows(profile)
    instructions = profile.require_instructions("sieve")[rows]
    kernels = profile.kernel_codes()[0][rows].astype(np.int64)
    strata, tiers = stratify(kernels, instructions, theta)
    labels = one_per_cluster.dense(strata)
    return one_per_cluster.select(
        profile,
        rows,
        labels,
        dominant(labels, _cta_sizes(profile)[rows]),
        method="sieve",
        parameters={"theta": theta},
        seed=seed,
        basis=BASIS,
        work=instructions,
        scores={"tiers": {str(tier): count for tier, count in enumerate(tiers, start=1)}},
    )


def stratify(kernels: I64, instructions: F64, theta: float) -> tuple[I64, tuple[int, int, int]]:
    """Stratum of each kernel, and how many kernel names fell into tier 1, 2 and 3."""
    order = np.lexsort((instructions, kernels))
    bounds = np.flatnonzero(np.diff(kernels[order], prepend=-1, append=-1))
    strata = np.empty(len(kernels), dtype=np.int64)
    tiers = [0, 0, 0]
    following = 0
    for low, high in pairwise(bounds.tolist()):
        own = order[low:high]
        data = compress(instructions[own])
        cov = _cov(data, 0, len(data))
        tiers[0 if cov == 0.0 else 1 if cov < theta else 2] += 1
        cuts = [0, len(data)] if cov < theta else density_cuts(data, theta)
        at = 0
        for first, last in pairwise(cuts):
            count = int(data.counts[first:last].sum())
            strata[own[at : at + count]] = following
            at += count
            following += 1
    return strata, (tiers[0], tiers[1], tiers[2])


def density_cuts(data: Sorted, theta: float) -> list[int]:
    """Bounds of strata with a coefficient of variation below `theta`.

    Cut at the minima of a Gaussian kernel density (Silverman's bandwidth, on a fixed grid, so that
    the cost is linear); a part that is still too wide is cut again with its own, narrower bandwidth
    or, if its density has no minimum, by two-means.
    """
    bounds = [0]
    pending = [(0, len(data))]
    while pending:
        low, high = pending.pop()
        if high - low < 2 or _cov(data, low, high) < theta:
            bounds.append(high)
            continue
        inner = _minima(data, low, high) or [two_means(data, low, high)]
        edges = [low, *inner, high]
        pending.extend(reversed(list(pairwise(edges))))
    return bounds


def _minima(data: Sorted, low: int, high: int) -> list[int]:
    values, counts = data.values[low:high], data.counts[low:high]
    number, _, sigma = data.moments(low, high)
    width = (values[-1] - values[0]) / BINS
    bandwidth = 1.06 * sigma * number**-0.2
    histogram, edges = np.histogram(values, bins=BINS, weights=counts.astype(np.float64))
    density = gaussian_filter1d(histogram, bandwidth / width, mode="constant")
    inside = density[1:-1]
    valley = (inside < density[:-2]) & (inside <= density[2:])
    cuts = low + np.searchsorted(values, edges[1:-2][valley])
    return sorted({int(cut) for cut in cuts if low < cut < high})


def dominant(labels: I64, cta: I64) -> I64:
    """Position of each stratum's representative: its first member of the most frequent CTA size
    (the earliest of equally frequent sizes)."""
    sizes, size = np.unique(cta, return_inverse=True)
    pair = labels * len(sizes) + size
    pairs, first, count = np.unique(pair, return_index=True, return_counts=True)
    owner = pairs // len(sizes)
    best = np.lexsort((first, -count, owner))
    heads = np.flatnonzero(np.diff(owner[best], prepend=-1))
    result: I64 = first[best][heads]
    return result


def _cov(data: Sorted, low: int, high: int) -> float:
    _, mean, sigma = data.moments(low, high)
    return sigma / mean if mean > 0.0 else 0.0


def _cta_sizes(profile: SliceProfile) -> I64:
    size = np.ones(len(profile), dtype=np.int64)
    for column in BLOCK:
        if column in profile.slices:
            size *= np.maximum(profile.slices[column].to_numpy(np.int64), 1)
    return size


METHOD = Method(
    name="sieve",
    help="Strata of equal kernels with similar instruction counts (ISPASS 2023).",
    select=select,
    needs=(Need.INSTRUCTIONS,),
    options=(
        Option(
            "theta",
            float,
            0.4,
            "Coefficient of variation that a stratum stays below.",
            within=ABOVE_0,
        ),
    ),
    rank=3,
)
