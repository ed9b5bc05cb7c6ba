# SPDX-License-Identifier: Apache-2.0
"""Uniform random sampling: the baseline of STEM+ROOT (section 4.1, 10 % or 0.1 % of the kernels)
and of Allegro (section V-C)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from xpuprof.estimation.stratified import Partition
from xpuprof.methods import drawn
from xpuprof.methods.declaration import AT_LEAST_1, CONFIDENCE, SHARE, Method, Option
from xpuprof.methods.profile import SliceProfile
from xpuprof.selection.selection import Selection

BASIS = "simple random sampling without replacement: central limit theorem, Student's t"
LEAST = 30


def select(
    profile: SliceProfile,
    *,
    seed: int = 0,
    fraction: float = 0.01,
    n: int | None = None,
    confidence: float = 0.95,
) -> Selection:
    """Select `n` slices, by default `fraction` of them and at least 30, each equally likely.
    Without times nothing is known of the error, and none is stated."""
    if n is None:
        n = max(round(fraction * len(profile)), LEAST)
    count = len(profile)
    times = profile.times if profile.times is not None else np.zeros(count)
    strata = Partition(
        np.arange(count), np.array([0, count]), np.array([times.mean()]), np.array([times.std()])
    )
    chosen = drawn.select(
        profile,
        strata,
        np.array([n]),
        method="random",
        parameters={"n": n},
        seed=seed,
        replacement=False,
        basis=BASIS,
        confidence=confidence,
    )
    if chosen.design.planned:
        return chosen
    return replace(chosen, design=replace(chosen.design, error_bound=None, confidence=None))


METHOD = Method(
    name="random",
    help="Slices drawn uniformly, the baseline for the other methods.",
    select=select,
    options=(
        Option("fraction", float, 0.01, "Share of the slices, at least 30 of them.", within=SHARE),
        Option("n", int, None, "Number of slices, instead of a share.", within=AT_LEAST_1),
        CONFIDENCE,
    ),
    by_times=True,
    rank=4,
)
