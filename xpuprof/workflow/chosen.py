# SPDX-License-Identifier: Apache-2.0
"""A selection with its origin and projection, as `select` and `report` show it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xpuprof.arrays import F64
from xpuprof.clustering.stability import Stability
from xpuprof.estimation import intervals
from xpuprof.estimation.estimate import Estimate
from xpuprof.estimation.measured import Measured, by_cluster
from xpuprof.estimation.projection import Accuracy, accuracy, time_speedup
from xpuprof.estimation.typical_times import typical_times
from xpuprof.selection.selection import Selection
from xpuprof.validation.reliability import unreliable_projection


@dataclass(frozen=True)
class Projection:
    """What a selection projects, if every slice was timed."""

    metric: str
    """The metric that is measured and projected: time, or e.g. cycles of an imported profile."""
    measured: float
    """The total over all slices."""
    estimate: Estimate
    next_run: Estimate | None
    """With an interval for one more run; None if fewer than two runs were timed."""
    one_run_error: float | None
    """See `estimation.intervals.one_run_error`; None without a target error."""
    time_speedup: float
    accuracy: Accuracy | None
    """None if nothing was measured."""


@dataclass(frozen=True, eq=False)
class Chosen:
    """A selection made from `source` in `seconds` (None: not made now)."""

    source: str
    selection: Selection
    seconds: float | None = None
    projection: Projection | None = None
    """None if the run was not timed."""
    stability: Sequence[Stability] = ()
    doubts: Sequence[str] = ()
    """Reasons to doubt it, one sentence each."""
    program: Sequence[str] = ()
    """The recorded program's command line."""


def with_times(
    chosen: Chosen, times: F64 | None, metric: str = "time", target: float | None = None
) -> Chosen:
    """Adds the projection, and what the `target` error cannot promise. `times`: float64[repeats,
    slices] of `metric`; None leaves `chosen` unchanged."""
    if times is None:
        return chosen
    selection, several = chosen.selection, len(times) > 1
    typical = typical_times(times)
    measured = Measured.at(selection, typical)
    error = intervals.one_run_error(selection, times) if several and target else None
    estimate = intervals.estimate(selection, times)
    with_next = several and estimate.confidence is not None
    projection = Projection(
        metric=metric,
        measured=measured.total,
        estimate=estimate,
        next_run=intervals.estimate(selection, times, other_runs=True) if with_next else None,
        one_run_error=error,
        time_speedup=time_speedup(selection, measured),
        accuracy=accuracy(selection, measured, estimate.value) if measured.total else None,
    )
    doubts = [
        *chosen.doubts,
        *unreliable_projection(selection, by_cluster(selection, typical), len(times), estimate),
        *_not_promised(target, error, selection),
    ]
    return replace(chosen, projection=projection, doubts=doubts)


def _not_promised(
    target: float | None, one_run_error: float | None, selection: Selection
) -> list[str]:
    """A sentence about what a target error cannot promise."""
    if target is None or (one_run_error is not None and one_run_error <= target):
        return []
    if selection.identity.metric:
        return [
            f"the target error of {100 * target:.2f} % holds for the imported profile; import one "
            "of another run to see whether it holds there (xpuprof transfer)"
        ]
    if one_run_error is None:
        return [
            f"the target error of {100 * target:.2f} % holds in the only timer run; two or more "
            "show whether it holds in others (xpuprof time --repeat)"
        ]
    return [
        f"the target error of {100 * target:.2f} % is for typical times over several runs; a "
        f"projection from one run alone may be off by {100 * one_run_error:.2f} % (95 %), since "
        "slice times vary from run to run"
    ]
