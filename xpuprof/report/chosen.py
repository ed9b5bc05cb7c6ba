"""What `xpuprof select` tells about a selection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from xpuprof.clustering.stability import Stability
from xpuprof.estimation import intervals
from xpuprof.estimation.estimate import Estimate
from xpuprof.estimation.projection import sampling_error
from xpuprof.estimation.typical_times import typical_times
from xpuprof.report.text import (
    amount,
    count,
    number_of,
    percent,
    seconds,
    shorten,
    table,
)
from xpuprof.selection.selection import Selection
from xpuprof.trace.coordinates import NO_KERNELS

F64 = npt.NDArray[np.float64]

SHOWN = 40
"""Rows of the table for people; --json has them all."""


@dataclass(frozen=True, eq=False)
class Chosen:
    """A selection, made from `source` in `seconds` (None: earlier); its estimate where the run was
    timed."""

    source: str
    selection: Selection
    seconds: float | None = None
    estimate: Estimate | None = None
    next_run: Estimate | None = None
    """With an interval for one more run; None where fewer than two were timed."""
    one_run_error: float | None = None
    """See `estimation.intervals.one_run_error`; where a target error was asked for."""
    measured: float | None = None
    """With the estimate: what it would be if every slice were measured."""
    metric: str = "time"
    """What is measured and projected: seconds, or cycles of an imported profile."""
    stability: Sequence[Stability] = ()
    doubts: Sequence[str] = ()
    """What speaks against it, one sentence each."""
    program: Sequence[str] = ()
    """The command line of the program that was recorded."""


def with_times(
    chosen: Chosen, times: F64 | None, metric: str = "time", target: float | None = None
) -> Chosen:
    """With the estimate, the measured value that it is to be compared with, what one more run may
    take, and what the `target` error that was asked for cannot promise. `times`:
    float64[repeats, slices], of `metric`; None leaves it as it is."""
    if times is None:
        return chosen
    measured = float(typical_times(times).sum())
    selection, several = chosen.selection, len(times) > 1
    error = intervals.one_run_error(selection, times) if several and target else None
    estimate = intervals.estimate(selection, times)
    with_next = several and estimate.confidence is not None
    return replace(
        chosen,
        estimate=estimate,
        next_run=intervals.estimate(selection, times, other_runs=True) if with_next else None,
        one_run_error=error,
        measured=measured,
        metric=metric,
        doubts=[*chosen.doubts, *_not_promised(target, error)],
    )


def as_json(chosen: Chosen) -> dict[str, Any]:
    """The object that `xpuprof select --json` prints."""
    selection, estimate = chosen.selection, chosen.estimate
    scores = selection.scores.get("bic", {})
    clusters = selection.scores.get("clusters", selection.k)
    result: dict[str, Any] = {
        "source": chosen.source,
        "method": selection.method,
        "seed": selection.seed,
        "window": selection.window or None,
        "slices": selection.slices,
        "processes": list(selection.identity.get("processes", [])),
        "k": selection.k,
        "bic": scores.get(str(clusters)),
        "bic_by_k": scores,
        "wcss": selection.scores.get("wcss"),
        "covered": selection.covered,
        "representatives": [
            {
                "slice": r.slice,
                "process": r.process,
                "kernel": r.end.kernel,
                "call": r.end.call,
                "cluster": r.cluster,
                "multiplier": r.multiplier,
                "weight": r.weight,
            }
            for r in selection.representatives
        ],
        "seconds": chosen.seconds,
    }
    if estimate is not None:
        unit = "_s" if chosen.metric != "cycles" else "_cycles"
        result["metric"] = chosen.metric
        result[f"measured{unit}"] = chosen.measured
        result["sampling_error"] = _error(chosen)
        result[f"projected{unit}"] = estimate.value
        result[f"interval{unit}"] = [estimate.low, estimate.high]
        result["confidence"] = estimate.confidence
    if chosen.next_run is not None:
        result["next_run_interval_s"] = [chosen.next_run.low, chosen.next_run.high]
    if chosen.one_run_error is not None:
        result["one_run_error"] = chosen.one_run_error
    if chosen.stability:
        result["stability"] = {s.kind: s.as_json() for s in chosen.stability}
    return result


def as_text(chosen: Chosen) -> str:
    """The same for people."""
    selection, estimate = chosen.selection, chosen.estimate
    labels = [process["label"] for process in selection.identity.get("processes", [])]
    labels = labels if len(labels) > 1 else []
    rows = [
        [
            count(r.slice),
            *([labels[r.process]] if labels else []),
            NO_KERNELS.get(r.end.kernel) or shorten(r.end.kernel),
            count(r.end.call),
            str(r.cluster),
            f"{r.multiplier:,.5g}",
            percent(r.weight),
        ]
        for r in selection.representatives[:SHOWN]
    ]
    headers = ["slice", "ends with kernel", "call", "cluster", "multiplier", "weight"]
    headers[1:1] = ["process"] if labels else []
    lines = [
        number_of(selection.slices, "slice")
        + (f" of {len(labels)} processes" if labels else "")
        + f", {number_of(selection.k, 'cluster')}, "
        + number_of(len(selection.representatives), "representative")
        + f", method {selection.method}"
        + ("" if chosen.seconds is None else f", {seconds(chosen.seconds)}"),
        "",
        table(headers, rows, "rllrrrr" if labels else "rlrrrr"),
    ]
    if len(selection.representatives) > SHOWN:
        lines.append(f"... and {count(len(selection.representatives) - SHOWN)} more")
    if selection.window:
        lines.append(window_line(selection))
    if selection.covered < 1.0:
        lines.append(f"covered         {percent(selection.covered)} of the slices")
    if chosen.measured is not None:
        of = "" if chosen.metric == "time" else f"   ({chosen.metric})"
        lines.append(f"measured        {amount(chosen.measured, chosen.metric)}{of}")
    if estimate is not None:
        lines.append(
            f"projected       {amount(estimate.value, chosen.metric)}{_interval(estimate, chosen)}"
        )
    if (error := _error(chosen)) is not None:
        lines.append(f"sampling error  {percent(error)}")
    if chosen.next_run is not None:
        lines.append(f"one more run    {_interval(chosen.next_run, chosen).strip()}")
    lines += [_stability(s) for s in chosen.stability]
    return "\n".join(lines)


def _not_promised(target: float | None, one_run_error: float | None) -> list[str]:
    """What a target error that was asked for cannot promise, a sentence."""
    if target is None:
        return []
    if one_run_error is None:
        return [
            f"the target error of {percent(target)} is kept in the one timer run that is known; "
            "whether it is in others shows from two on (xpuprof time --repeat)"
        ]
    if one_run_error <= target:
        return []
    return [
        f"the target error of {percent(target)} is for typical times over several runs; projected "
        "from one run alone it cannot be promised: slices vary so much from run to run that the "
        f"error may reach {percent(one_run_error)} (95 %)"
    ]


def window_line(selection: Selection) -> str:
    """What the user must not overlook."""
    return f"window          {selection.window}: all numbers are about it, not the whole program"


def _error(chosen: Chosen) -> float | None:
    if chosen.estimate is None or not chosen.measured:
        return None
    return sampling_error(chosen.estimate.value, chosen.measured)


def _interval(estimate: Estimate, chosen: Chosen) -> str:
    if estimate.low is None or estimate.high is None or estimate.confidence is None:
        return f"   no interval: {estimate.basis}"
    return (
        f"   {100 * estimate.confidence:g} % interval {amount(estimate.low, chosen.metric)} to "
        f"{amount(estimate.high, chosen.metric)}"
    )


def _stability(s: Stability) -> str:
    text = (
        f"{'over ' + s.kind:<15} {min(s.k)} to {max(s.k)} clusters, agreement "
        f"{_mean(s.agreement):.3f} (worst {min(s.agreement):.3f})"
    )
    if s.projected:
        error = np.abs(np.array(s.projected) - 1.0)
        text += f", error of the projection {percent(_mean(error))} (worst {percent(error.max())})"
    return text


def _mean(values: list[float] | npt.NDArray[np.float64]) -> float:
    return float(np.mean(values))
