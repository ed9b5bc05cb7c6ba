# SPDX-License-Identifier: Apache-2.0
"""Reasons why a sampling error does not say how good a selection is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from xpuprof.estimation.estimate import Estimate
from xpuprof.estimation.typical_times import ENOUGH_FOR_MEDIAN, typical_times
from xpuprof.methods.registry import by_measured_times
from xpuprof.selection.selection import Selection
from xpuprof.trace.tables import Execution, Process
from xpuprof.validation.phases import unseen_phases

F64 = npt.NDArray[np.float64]

FAR = 3.0
"""A slice is unlike its cluster if it takes this many times the cluster's median."""
LARGE = 0.05
"""Smallest share of the time at which slices unlike their clusters are reported."""


def unreliable(
    selection: Selection,
    profiled: Sequence[Process],
    times: F64,
    timer_runs: Sequence[Execution],
    found: Estimate,
) -> tuple[str, ...]:
    """A sentence for each reason, with the remedy. `profiled`: the profile; `times`:
    float64[runs, slices]."""
    if len(selection.representatives) == selection.slices:
        return ()
    return (
        *unseen_phases(profiled, timer_runs, selection),
        *unreliable_projection(selection, times, found),
    )


def unreliable_projection(selection: Selection, times: F64, found: Estimate) -> list[str]:
    """The reasons that the times alone give."""
    if len(selection.representatives) == selection.slices:
        return []
    return [*unlike_their_cluster(selection, times), *usable(found)]


def unlike_their_cluster(selection: Selection, times: F64) -> list[str]:
    """Says which cluster's slices differ in time by more than equal vectors can explain, if that
    concerns much of the time; needs enough runs to tell it from noise."""
    if len(times) < ENOUGH_FOR_MEDIAN or selection.design.how == "random":
        return []
    typical = typical_times(times)
    excess, heaviest = 0.0, (0.0, "")
    for cluster in np.unique(selection.labels[selection.labels >= 0]).tolist():
        chosen = [r for r in selection.representatives if r.cluster == cluster]
        own = typical[selection.labels == cluster]
        far = own[own > FAR * np.median(own)]
        if not len(far) or len(chosen) == len(own):
            continue
        beyond = float((far - np.median(own)).sum())
        excess += beyond
        heaviest = max(
            heaviest,
            (
                beyond,
                f"{len(far):,} of the {len(own):,} slices of cluster {cluster} (a slice of it ends "
                f"with {chosen[0].end.kernel}) take {far.max() / np.median(own):.0f} times its "
                "median or less",
            ),
        )
    share = excess / float(typical.sum())
    if share < LARGE:
        return []
    return [
        f"{share:.0%} of the time is in slices that take much longer than others with equal "
        f"vectors: {heaviest[1]}; choose by measured times (select --method with one of "
        f"{', '.join(by_measured_times())})"
    ]


def usable(found: Estimate) -> list[str]:
    """Says that an interval is too wide to be of use; else nothing."""
    if not found.wide or found.low is None or found.high is None:
        return []
    factor = f"a factor of {found.high / found.low:.0f}" if found.low > 0.0 else "down to 0"
    return [
        f"the interval is not usable, since it spans {factor}; more representatives narrow it: "
        "xpuprof select with --target-error, or more timer runs (--repeat)"
    ]
