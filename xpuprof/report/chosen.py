# SPDX-License-Identifier: Apache-2.0
"""Output of `xpuprof select`."""

from __future__ import annotations

import numpy as np

from xpuprof.arrays import F64
from xpuprof.clustering.stability import Stability
from xpuprof.estimation.projection import slice_reduction
from xpuprof.report.projected import (
    accuracy_json,
    error_text,
    interval,
    projected_line,
    saving_lines,
)
from xpuprof.report.representatives import Column, representative_json, representatives_table
from xpuprof.report.text import (
    LEGEND,
    amount,
    count,
    factor,
    number_of,
    percent,
)
from xpuprof.selection.selection import Selection
from xpuprof.units import seconds
from xpuprof.workflow.chosen import Chosen, Projection

SHOWN = 40
"""Rows of the table for people; --json has them all."""


def as_json(chosen: Chosen) -> dict[str, object]:
    """The object that `xpuprof select --json` prints."""
    selection = chosen.selection
    scores = selection.scores
    clusters = selection.k if scores.clusters is None else scores.clusters
    moved = {s.kind: s.as_json() for s in chosen.stability}
    return {
        "source": chosen.source,
        "method": selection.method,
        "seed": selection.seed,
        "window": selection.window or None,
        "slices": selection.slices,
        "processes": [key.as_json() for key in selection.identity.processes],
        "k": selection.k,
        "bic": scores.bic.get(clusters),
        "bic_by_k": {str(k): score for k, score in scores.bic.items()},
        "wcss": scores.wcss,
        "covered": selection.covered,
        "slice_reduction": slice_reduction(selection),
        "representatives": [
            {**representative_json(r), "cluster": r.cluster, "weight": r.weight}
            for r in selection.representatives
        ],
        "seconds": chosen.seconds,
        "notes": list(chosen.doubts),
        **({} if chosen.projection is None else _projection_json(chosen.projection)),
        **({"stability": moved} if moved else {}),
    }


def _projection_json(projection: Projection) -> dict[str, object]:
    unit = "_s" if projection.metric != "cycles" else "_cycles"
    estimate, next_run = projection.estimate, projection.next_run
    result: dict[str, object] = {
        "metric": projection.metric,
        f"measured{unit}": projection.measured,
        **accuracy_json(projection.accuracy),
        f"projected{unit}": estimate.value,
        f"interval{unit}": [estimate.low, estimate.high],
        "confidence": estimate.confidence,
        "time_speedup": projection.time_speedup,
    }
    if next_run is not None:
        result["next_run_interval_s"] = [next_run.low, next_run.high]
    if projection.one_run_error is not None:
        result["one_run_error"] = projection.one_run_error
    return result


def as_text(chosen: Chosen) -> str:
    """The table for people."""
    selection = chosen.selection
    labels = [key.label for key in selection.identity.processes]
    labels = labels if len(labels) > 1 else []
    columns: dict[str, Column] = {
        "cluster": lambda r: str(r.cluster),
        "multiplier": lambda r: factor(r.multiplier),
        "weight": lambda r: percent(r.weight),
    }
    lines = [
        number_of(selection.slices, "slice")
        + (f" of {len(labels)} processes" if labels else "")
        + f", {number_of(selection.k, 'cluster')}, "
        + number_of(len(selection.representatives), "representative")
        + f", method {selection.method}"
        + ("" if chosen.seconds is None else f", chosen in {seconds(chosen.seconds)}"),
        "",
        *LEGEND,
        "Weight is the share of the run that it stands for.",
        "",
        representatives_table(selection.representatives[:SHOWN], labels, columns),
    ]
    if len(selection.representatives) > SHOWN:
        lines.append(f"... and {count(len(selection.representatives) - SHOWN)} more")
    if selection.window:
        lines.append(window_line(selection))
    if selection.covered < 1.0:
        lines.append(f"covered         {percent(selection.covered)} of the slices")
    if chosen.projection is not None:
        lines += ["", *_projection_lines(selection, chosen.projection)]
    lines += [_stability(s) for s in chosen.stability]
    return "\n".join(lines)


def window_line(selection: Selection) -> str:
    """Says that the numbers cover the window only."""
    return f"window          {selection.window}: all numbers refer to it, not to the whole program"


def _projection_lines(selection: Selection, projection: Projection) -> list[str]:
    metric, measured = projection.metric, projection.measured
    of = "" if metric == "time" else f"   ({metric})"
    lines = [
        f"measured        {amount(measured, metric)}{of}",
        projected_line(projection.estimate, metric),
    ]
    if projection.accuracy is not None:
        lines.append(f"sampling error  {error_text(projection.accuracy)}")
    if projection.next_run is not None:
        lines.append(f"one more run    {interval(projection.next_run, metric)}")
    return [*lines, *saving_lines(selection, projection.time_speedup, measured, metric)]


def _stability(s: Stability) -> str:
    text = (
        f"{'over ' + s.kind:<15} {min(s.k)} to {max(s.k)} clusters, agreement "
        f"{_mean(s.agreement):.3f} (worst {min(s.agreement):.3f})"
    )
    if s.projected:
        error = np.abs(np.array(s.projected) - 1.0)
        text += f", projection error {percent(_mean(error))} (worst {percent(error.max())})"
    return text


def _mean(values: list[float] | F64) -> float:
    return float(np.mean(values))
