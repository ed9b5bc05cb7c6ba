# SPDX-License-Identifier: Apache-2.0
"""Estimated metrics of a whole run: as JSON and as a table."""

from __future__ import annotations

from collections.abc import Sequence

from xpuprof.estimation.metrics import Whole
from xpuprof.report.text import figure, table


def as_json(metrics: Sequence[Whole]) -> list[dict[str, object]]:
    """The metrics that `xpuprof estimate --json` prints."""
    return [
        {
            "metric": whole.name,
            "kind": whole.kind,
            "value": whole.estimate.value,
            "interval": [whole.estimate.low, whole.estimate.high],
            "confidence": whole.estimate.confidence,
            "basis": whole.estimate.basis,
        }
        for whole in metrics
    ]


def as_text(metrics: Sequence[Whole], zeros: bool = True) -> str:
    """One line per metric, and why some have no interval; without `zeros`, those of 0 are only
    counted."""
    rows = []
    shown = [whole for whole in metrics if zeros or whole.estimate.value]
    for whole in shown:
        e = whole.estimate
        interval = "none"
        if e.low is not None and e.high is not None:
            interval = f"{figure(e.low)} to {figure(e.high)}"
        rows.append([whole.name, figure(e.value), interval, whole.kind])
    lines = [table(["metric", "whole run", "interval", "how"], rows, "lrll")]
    if hidden := len(metrics) - len(shown):
        lines.append(f"{hidden} more are 0")
    confidence = next((w.estimate.confidence for w in metrics if w.estimate.confidence), None)
    if confidence:
        lines.append(f"intervals at {100 * confidence:g} %")
    without = next((w.estimate.basis for w in metrics if w.estimate.low is None), None)
    return "\n".join([*lines, without] if without else lines)
