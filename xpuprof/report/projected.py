# SPDX-License-Identifier: Apache-2.0
"""How a projection is shown: its interval, what it saves, the share of each process."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xpuprof.estimation.estimate import Estimate
from xpuprof.estimation.projection import Accuracy, chosen_slices, slice_reduction
from xpuprof.estimation.shares import Share, slowest
from xpuprof.report.text import amount, count, of_runs, percent, table, times_less
from xpuprof.selection.selection import Selection
from xpuprof.units import seconds

SHOWN = 24
"""Rows of a table for people; --json has them all."""


def bounds(estimate: Estimate, metric: str = "time") -> str:
    """`1.2 s to 1.4 s`; empty without an interval."""
    if estimate.low is None or estimate.high is None:
        return ""
    return f"{amount(estimate.low, metric)} to {amount(estimate.high, metric)}"


def interval(estimate: Estimate, metric: str = "time") -> str:
    """The interval with its confidence, or why there is none."""
    if estimate.confidence is None:
        return f"no interval: {estimate.basis.removeprefix('no interval: ')}"
    wide = ", too wide to be of use" if estimate.wide else ""
    return f"{100 * estimate.confidence:g} % interval {bounds(estimate, metric)}{wide}"


def projected_line(estimate: Estimate, metric: str = "time") -> str:
    """The projected total with its interval."""
    return f"projected       {amount(estimate.value, metric)}   {interval(estimate, metric)}"


def measured_by(runs: int, shares: Sequence[Share], spread: str = "") -> str:
    """How the time was measured: `median of 5 native runs (1.3 s to 1.4 s)`."""
    told = f"{of_runs(runs)}{f' ({spread})' if spread else ''}"
    return f"{told}, all {len(shares)} processes together" if shares else told


def error_text(accuracy: Accuracy) -> str:
    """`1.20 % (2.00 % without start-up and exit; 1.50 % of the 80 % that was not measured)`."""
    more = error_details(accuracy)
    return percent(accuracy.error) + (f"   ({more})" if more else "")


def error_details(accuracy: Accuracy) -> str:
    """The error of parts of the run; may be empty."""
    parts = []
    if accuracy.inner is not None:
        parts.append(f"{percent(accuracy.inner)} without start-up and exit")
    if accuracy.unmeasured is not None:
        rest = percent(1.0 - accuracy.measured)
        parts.append(f"{percent(accuracy.unmeasured)} of the {rest} that was not measured")
    return "; ".join(parts)


def accuracy_json(accuracy: Accuracy | None) -> dict[str, float | None]:
    """The sampling error, also without the ends and over the time that was not measured."""
    keys = {
        "sampling_error": "error",
        "inner_error": "inner",
        "measured_share": "measured",
        "unmeasured_error": "unmeasured",
    }
    return {key: getattr(accuracy, name, None) for key, name in keys.items()}


def saving_lines(
    selection: Selection, speedup: float, measured: float, metric: str = "time"
) -> list[str]:
    """Slice reduction and time speedup."""
    chosen = len(chosen_slices(selection))
    lines = [f"slice reduction {count(selection.slices)} to {count(chosen)}"]
    if math.isfinite(speedup):
        whole, part = amount(measured, metric), amount(measured / speedup, metric)
        lines.append(f"time speedup    {times_less(speedup)}   ({whole} to {part})")
    return lines


def saving_json(selection: Selection, speedup: float) -> dict[str, float | None]:
    """Slice reduction and time speedup. `speedup` is the former name of the slice reduction."""
    reduction = slice_reduction(selection)
    return {
        "speedup": reduction,
        "slice_reduction": reduction,
        "time_speedup": speedup if math.isfinite(speedup) else None,
    }


def estimate_json(estimate: Estimate) -> dict[str, object]:
    """A projected time in seconds."""
    return {
        "projected_s": estimate.value,
        "interval_s": [estimate.low, estimate.high],
        "confidence": estimate.confidence,
        "basis": estimate.basis,
    }


def shares_json(shares: Sequence[Share]) -> dict[str, object]:
    """Each process, and the slowest; empty for a single process."""
    return {
        "processes": [
            {
                "label": share.key.label,
                "rank": share.key.rank,
                "slices": share.key.slices,
                "measured_s": share.measured,
                "projected_s": share.estimate.value,
                "interval_s": [share.estimate.low, share.estimate.high],
                "sampling_error": share.error,
            }
            for share in shares
        ],
        "slowest": slowest(shares),
    }


def shares_text(shares: Sequence[Share]) -> list[str]:
    """One line per process, and the slowest; empty for a single process."""
    if not shares:
        return []
    rows = [
        [
            share.key.label,
            count(share.key.slices),
            seconds(share.measured),
            seconds(share.estimate.value),
            bounds(share.estimate),
            percent(share.error),
        ]
        for share in shares[:SHOWN]
    ]
    headers = ["process", "slices", "measured", "projected", "interval", "error"]
    longest = slowest(shares)
    assert longest
    return [
        table(headers, rows, "lrrrlr"),
        *([f"... and {count(len(shares) - SHOWN)} more; --json has all"] * (len(shares) > SHOWN)),
        "",
        f"slowest         {seconds(longest['measured_s'])} measured, "
        f"{seconds(longest['projected_s'])} projected",
    ]
