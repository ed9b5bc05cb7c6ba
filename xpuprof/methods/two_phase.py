# SPDX-License-Identifier: Apache-2.0
"""Two-phase stratified sampling: strata of first-phase times, second-phase slices at random.

Ekman, "CPU Simulation Using Two-Phase Stratified Sampling", arXiv 2603.22605 (2026); the theory is
Cochran's (Sampling Techniques, chapters 5 and 12). There the first phase times a large random
sample of regions; here it is the timer run, which times every slice, so the strata's sizes are
known and the first phase adds no error. What we read is the paper's abstract: the number of strata
and the smallest sample of one are ours.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from xpuprof.clustering.one_dimension import compress, k_means
from xpuprof.estimation.allocation import fewest
from xpuprof.estimation.quantiles import z_score
from xpuprof.estimation.stratified import from_labels
from xpuprof.methods import drawn
from xpuprof.methods.declaration import AT_LEAST_1, CONFIDENCE, EPSILON, Method, Need, Option
from xpuprof.methods.profile import SliceProfile
from xpuprof.selection.selection import Selection

BASIS = "stratified sampling without replacement, strata of first-phase times (Cochran, chapter 5)"
FEWEST_DRAWS = 2
"""Draws per stratum, so that the second phase shows its own spread."""


def select(
    profile: SliceProfile,
    *,
    seed: int = 0,
    epsilon: float = 0.05,
    confidence: float = 0.95,
    strata: int = 20,
) -> Selection:
    """Select slices so that the total time is within `epsilon` at `confidence`.

    `strata`: at most so many intervals of time, cut by k-means. Their sizes are Neyman's: every
    measured slice counts the same, whatever it costs. Raises NeedsError without times.
    """
    times = profile.require_times("two-phase")
    order = np.argsort(times, kind="stable")
    data = compress(times[order])
    ends = [0, *(int(data.ends[cut - 1]) for cut in k_means(data, 0, len(data), strata)[1:])]
    labels = np.empty(len(times), dtype=np.int32)
    for number, (begin, end) in enumerate(pairwise(ends)):
        labels[order[begin:end]] = number
    parts = from_labels(labels, times)
    variance = (epsilon * float(times.sum()) / z_score(confidence)) ** 2
    equal = np.ones(len(parts.size))
    sample_sigma = parts.sigma * np.sqrt(parts.size / np.maximum(parts.size - 1.0, 1.0))
    sizes = np.maximum(fewest(parts.size, sample_sigma, equal, variance), FEWEST_DRAWS)
    return drawn.select(
        profile,
        parts,
        sizes,
        method="two-phase",
        parameters={"epsilon": epsilon, "confidence": confidence, "strata": strata},
        seed=seed,
        replacement=False,
        basis=BASIS,
        confidence=confidence,
    )


METHOD = Method(
    name="two-phase",
    help="Random slices from strata of first-phase times (Ekman, arXiv 2603.22605).",
    select=select,
    needs=(Need.TIMES,),
    options=(
        EPSILON,
        CONFIDENCE,
        Option("strata", int, 20, "Strata of times, at most.", within=AT_LEAST_1),
    ),
    bound="epsilon",
    by_times=True,
)
