# SPDX-License-Identifier: Apache-2.0
"""Ranked set sampling: of a few random slices, measure the one of a given rank.

Ekman, "CPU Simulation with Ranked Set Sampling and Repeated Subsampling", arXiv 2603.22598 (2026),
after McIntyre, "A method for unbiased selective sampling, using ranked sets" (1952). A cycle draws
`ranks` sets of as many slices, ranks each set by its profiled times and measures the shortest of
the first, the second of the second, and so on. The mean of the measured times is unbiased however
well the ranking fits the target machine. What we read is the paper's abstract, which gives the 30
regions; the set's size is ours, and repeated subsampling is left out.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from xpuprof.estimation.redrawing import ranked_draws
from xpuprof.methods import random_
from xpuprof.methods.declaration import AT_LEAST_1, CONFIDENCE, Method, Need, Option, Range
from xpuprof.methods.profile import SliceProfile
from xpuprof.selection.design import Design, Strata
from xpuprof.selection.selection import Selection

BASIS = "ranked set sampling: spread within the ranks (McIntyre 1952; Ekman, arXiv 2603.22598)"


def select(
    profile: SliceProfile,
    *,
    seed: int = 0,
    n: int = 30,
    ranks: int = 5,
    confidence: float = 0.95,
) -> Selection:
    """Select about `n` slices in whole cycles over the ranks, at least two. Slice i's cluster is
    the part of the sorted times that its own rank stands for. With `n` slices or fewer in the run,
    each is measured once, where sets would draw some twice and others never. Raises NeedsError
    without times."""
    times = profile.require_times("ranked-set")
    count = len(times)
    if max(n, 2) >= count:
        every = random_.select(profile, seed=seed, n=count, confidence=confidence)
        return replace(every, method="ranked-set", parameters={**every.parameters, "ranks": ranks})
    ranks = min(ranks, count)
    cycles = max(n // ranks, 2)
    rng = np.random.default_rng(seed)
    rows = ranked_draws(times, ranks, (cycles,), rng)  # cycles x ranks
    rank = np.broadcast_to(np.arange(ranks), rows.shape)
    # A slice that two ranks drew counts for the lower of them.
    chosen, first, often = np.unique(rows.T, return_index=True, return_counts=True)
    multiplier = np.asarray(often, dtype=np.float64) * (count / rows.size)
    labels = np.empty(count, dtype=np.int32)
    labels[np.argsort(times, kind="stable")] = np.arange(count) * ranks // count
    # The spread of each rank over many cycles; the draws themselves are too few to tell.
    typical = times[ranked_draws(times, ranks, (1000,), np.random.default_rng(0))]
    return Selection(
        method="ranked-set",
        parameters={"n": n, "ranks": ranks, "confidence": confidence},
        seed=seed,
        representatives=profile.representatives(
            chosen, rank.T.ravel()[first], multiplier, multiplier / count, often
        ),
        labels=labels,
        design=Design(
            how="ranked",
            basis=BASIS,
            strata=Strata(
                size=tuple(np.bincount(labels, minlength=ranks).tolist()),
                draws=(cycles,) * ranks,
                mean=tuple(typical.mean(axis=0).tolist()),
                sigma=tuple(typical.std(axis=0).tolist()),
            ),
            replacement=True,
            confidence=confidence,
        ),
        summary=profile.summary(),
    )


METHOD = Method(
    name="ranked-set",
    help="Slices of given rank in small random sets (Ekman, arXiv 2603.22598).",
    select=select,
    needs=(Need.TIMES,),
    options=(
        Option("n", int, 30, "Slices to measure.", within=AT_LEAST_1),
        Option("ranks", int, 5, "Ranks, which is also the size of a set.", within=Range(1, 100)),
        CONFIDENCE,
    ),
    by_times=True,
)
