# SPDX-License-Identifier: Apache-2.0
"""Reasons why a sampling error does not say how good a selection is."""

from __future__ import annotations

import numpy as np

from xpuprof.estimation.allocation import FAR
from xpuprof.estimation.estimate import Estimate
from xpuprof.estimation.measured import ByCluster
from xpuprof.estimation.quantiles import median
from xpuprof.estimation.typical_times import ENOUGH_FOR_MEDIAN
from xpuprof.methods.registry import by_measured_times
from xpuprof.selection.selection import Selection
from xpuprof.trace.pieces import pieces

LARGE = 0.05
"""Smallest share of the time at which slices unlike their clusters are reported."""


def unreliable_projection(
    selection: Selection, times: ByCluster, runs: int, found: Estimate
) -> list[str]:
    """A sentence for each reason, with the remedy. `times`: typical ones of so many `runs`."""
    if len(selection.representatives) == selection.slices:
        return []
    return [*unlike_their_cluster(selection, times, runs), *usable(found)]


def unlike_their_cluster(selection: Selection, times: ByCluster, runs: int) -> list[str]:
    """Says which cluster's slices differ in time by more than like slices do, if that concerns much
    of the time; needs enough runs to tell it from noise."""
    if runs < ENOUGH_FOR_MEDIAN or selection.design.strata is not None:
        return []
    excess, heaviest = 0.0, (0.0, "")
    for cluster in np.flatnonzero(selection.sizes).tolist():
        chosen = [r for r in selection.representatives if r.cluster == cluster]
        own = times.of(cluster)
        middle, longest = median(own), float(own.max())
        if longest <= FAR * middle or len(chosen) == len(own):
            continue
        number, beyond = 0, 0.0
        how = f"up to {longest / middle:.0f} times its median" if middle else "time, most none"
        for piece in pieces(len(own)):
            far = own[piece][own[piece] > FAR * middle]
            number, beyond = number + len(far), beyond + float((far - middle).sum())
        excess += beyond
        heaviest = max(
            heaviest,
            (
                beyond,
                f"{number:,} of the {len(own):,} slices of cluster {cluster} (a slice of it ends "
                f"with {chosen[0].end.kernel}) {'takes' if number == 1 else 'take'} {how}",
            ),
        )
    share = excess / float(times.values.sum())
    if share < LARGE:
        return []
    return [
        f"{100 * share:.0f} % of the time is in slices that take much longer than others of their "
        f"cluster: {heaviest[1]}; choose by measured times (select --method with one of "
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
