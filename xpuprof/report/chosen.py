"""What `xpuprof select` tells about a selection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from xpuprof.report.text import count, number_of, percent, seconds, shorten, table
from xpuprof.sampling.estimate import Estimate
from xpuprof.sampling.selection import NO_KERNELS, Selection
from xpuprof.sampling.stability import Stability
from xpuprof.timing.extrapolate import sampling_error

SHOWN = 40
"""Rows of the table for people; --json has them all."""


@dataclass(frozen=True, eq=False)
class Chosen:
    """A selection, made from `source` in `seconds`; its estimate where the run was timed."""

    source: str
    selection: Selection
    seconds: float
    estimate: Estimate | None = None
    measured: float | None = None
    """Seconds, with the estimate: what it would be if every slice were measured."""
    stability: Sequence[Stability] = ()
    doubts: Sequence[str] = ()
    """What speaks against it, one sentence each."""
    program: Sequence[str] = ()
    """The command line of the program that was recorded."""


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
        result["measured_s"] = chosen.measured
        result["sampling_error"] = _error(chosen)
        result["projected_s"] = estimate.value
        result["interval_s"] = [estimate.low, estimate.high]
        result["confidence"] = estimate.confidence
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
        + f", method {selection.method}, {seconds(chosen.seconds)}",
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
        lines.append(f"measured        {seconds(chosen.measured)}")
    if estimate is not None:
        lines.append(f"projected       {seconds(estimate.value)}{_interval(estimate)}")
    if (error := _error(chosen)) is not None:
        lines.append(f"sampling error  {percent(error)}")
    lines += [_stability(s) for s in chosen.stability]
    return "\n".join(lines)


def window_line(selection: Selection) -> str:
    """What the user must not overlook."""
    return f"window          {selection.window}: all numbers are about it, not the whole program"


def _error(chosen: Chosen) -> float | None:
    if chosen.estimate is None or not chosen.measured:
        return None
    return sampling_error(chosen.estimate.value, chosen.measured)


def _interval(estimate: Estimate) -> str:
    if estimate.low is None or estimate.high is None or estimate.confidence is None:
        return f"   {estimate.basis}"
    return (
        f"   {100 * estimate.confidence:g} % interval {seconds(estimate.low)} to "
        f"{seconds(estimate.high)}"
    )


def _stability(s: Stability) -> str:
    text = (
        f"{'over ' + s.kind:<16}{min(s.k)} to {max(s.k)} clusters, agreement "
        f"{_mean(s.agreement):.3f} (worst {min(s.agreement):.3f})"
    )
    if s.projected:
        error = np.abs(np.array(s.projected) - 1.0)
        text += f", error of the projection {percent(_mean(error))} (worst {percent(error.max())})"
    return text


def _mean(values: list[float] | npt.NDArray[np.float64]) -> float:
    return float(np.mean(values))
