# SPDX-License-Identifier: Apache-2.0
"""Comparison of methods: as JSON, as a table, and as a plot of error against speedup."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from xpuprof.errors import EngineError
from xpuprof.report.self_contained import Head, write
from xpuprof.report.text import count, percent, printable, table, times_less
from xpuprof.units import seconds
from xpuprof.workflow.compare import Compared, Comparison, Row

if TYPE_CHECKING:
    from matplotlib.axis import Axis

LEGEND = (
    "error, worst: of the projected total, mean and largest over the seeds; without ends: leaving",
    "out first and last slice, where these represent themselves; measured: share of the total in",
    "the samples; of unmeasured: error over the rest; speedup: of the time, where it is known;",
    "samples: slices to measure; interval: stated around the estimate; held: how often it had",
    "the total; selection: time to choose.",
)
"""The columns of the table."""

_MARKERS = "osD^vPX"
_FINE = (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0)
"""Ticks within a decade."""

KEYS = (
    "error_mean",
    "error_max",
    "error_inner",
    "error_unmeasured",
    "measured_share",
    "time_speedup",
    "samples",
    "interval_rel",
    "low_rel",
    "high_rel",
    "coverage",
    "selection_s",
    "bound",
)


def as_json(comparison: Comparison) -> dict[str, object]:
    """The object that `xpuprof compare --json` prints; errors and widths are fractions, null: not
    stated."""
    together = _run_json(comparison.together)
    if len(comparison.each) == 1:
        return together
    return {"runs": [_run_json(run) for run in comparison.each], "together": together}


def _run_json(compared: Compared) -> dict[str, object]:
    return {
        "run": compared.run,
        "metric": compared.metric,
        "slices": compared.slices,
        "timed": compared.timed,
        "methods": [_row_json(row) for row in compared.rows],
        "notes": list(compared.doubts),
    }


def _row_json(row: Row) -> dict[str, object]:
    if row.reason:
        return {"method": row.method, "reason": row.reason}
    numbers = {key: getattr(row, key) for key in KEYS}
    known = {key: _finite(x) for key, x in numbers.items()}
    return {"method": row.method, **known, "basis": row.basis}


def as_text(compared: Compared) -> str:
    """The table, best time speedup first; then the methods that could not run."""
    rows = compared.rows
    ran = sorted((r for r in rows if not r.reason), key=lambda r: -(r.time_speedup or 0.0))
    headers = (
        "method",
        "error",
        "worst",
        "without ends",
        "of unmeasured",
        "measured",
        "time speedup" if compared.timed else "speedup",
        "samples",
        "interval",
        "held",
        "selection",
    )
    body = [
        (
            row.method,
            _percent(row.error_mean),
            _percent(row.error_max),
            _percent(row.error_inner),
            _percent(row.error_unmeasured),
            _percent(row.measured_share),
            "" if row.time_speedup is None else times_less(row.time_speedup),
            "" if row.samples is None else f"{row.samples:,.0f}",
            _interval(row),
            "" if row.coverage is None else f"{100 * row.coverage:.0f} %",
            "" if row.selection_s is None else seconds(row.selection_s),
        )
        for row in ran
    ]
    lines = [
        f"{compared.run}: {compared.slices:,} slices, projected metric: {compared.metric}",
        *([] if compared.timed else [_untimed(compared.metric)]),
        *LEGEND,
        "",
    ]
    lines.append(
        table(headers, body, "lrrrrrrrrrr") if body else "no method can run on this profile"
    )
    left_out = [row for row in rows if row.reason]
    if left_out:
        lines += ["", "left out:", *(f"  {text}" for text in _reasons(left_out))]
    return "\n".join(lines)


def _reasons(left_out: Sequence[Row]) -> list[str]:
    """Why methods could not run: one line a reason, with all methods that it concerns."""
    of_reason: dict[str, list[str]] = {}
    for row in left_out:
        of_reason.setdefault(row.reason.removeprefix(f"{row.method} needs "), []).append(row.method)
    return [
        reason
        if reason.startswith(methods[0])
        else f"{', '.join(methods)} need{'s' * (len(methods) == 1)} {reason}"
        for reason, methods in of_reason.items()
    ]


def write_page(comparison: Comparison, target: Path) -> None:
    """Writes the page: error against speedup, and the table; of each run, and of all together."""
    whole = comparison.together
    runs = [whole, *(comparison.each if len(comparison.each) > 1 else [])]
    subtitle = f"{whole.run}: {count(whole.slices)} slices, projected metric: {whole.metric}"
    notes = [] if whole.timed else [_untimed(whole.metric)]
    head = Head("Methods compared", subtitle, (), notes)
    write(target, "methods", head, {"runs": [_page_data(run) for run in runs]})


def _page_data(compared: Compared) -> dict[str, object]:
    rows = [_row_json(row) | {"interval": _interval(row)} for row in compared.rows]
    return _run_json(compared) | {"methods": rows}


def _finite(value: float | None) -> float | None:
    """JSON has no infinity."""
    return value if value is not None and math.isfinite(value) else None


def _point(row: Row) -> tuple[float, float, float] | None:
    """A row's time speedup, mean error and how much larger its worst one is, both in percent."""
    if row.reason or row.error_mean is None or row.error_max is None:
        return None
    if row.time_speedup is None or not math.isfinite(row.time_speedup):
        return None
    mean = max(100 * row.error_mean, 1e-4)
    return row.time_speedup, mean, max(100 * row.error_max - mean, 0.0)


def draw(run: str, metric: str, rows: Sequence[Row], target: Path) -> None:
    """Write the plot of error against speedup; the suffix (`picture.SUFFIXES`) sets the format.

    Raises EngineError when matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise EngineError(
            "pictures need matplotlib; install it with: pip install 'xpuprof[plot]'"
        ) from None
    figure = Figure(figsize=(8.5, 5), layout="constrained")
    axes = figure.subplots()
    fastest = sorted(rows, key=lambda row: -(row.time_speedup or 0.0))
    plotted = [(row.method, point) for row in fastest if (point := _point(row))]
    for n, (method, (speedup, mean, above)) in enumerate(plotted):
        # Seven markers and ten colours: 70 methods look different.
        axes.errorbar(
            speedup,
            mean,
            yerr=[[0.0], [above]],
            linestyle="none",
            capsize=3,
            label=method,
            color=f"C{n % 10}",
            marker=_MARKERS[n % len(_MARKERS)],
        )
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="time speedup (whole over measured)",
        ylabel="sampling error, % (mean; bar: worst seed)",
        title=f"{printable(run)}: {metric}",
    )
    axes.grid(alpha=0.3)
    for axis in (axes.xaxis, axes.yaxis):
        _plain_ticks(axis)
    if plotted:
        figure.legend(loc="outside right upper", frameon=False)
    figure.savefig(target, dpi=150)


def _plain_ticks(axis: Axis) -> None:
    """Ticks of a logarithmic axis as plain numbers: 1.5, 0.02, 1,000."""
    from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

    low, high = axis.get_view_interval()
    decades = math.log10(high / low)
    steps = (1.0,) if decades > 4 else (1.0, 2.0, 5.0) if decades > 1 else _FINE
    axis.set_major_locator(LogLocator(subs=steps))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(StrMethodFormatter("{x:,.10g}"))


def _untimed(metric: str) -> str:
    return (
        f"no time was measured: errors and speedups refer to {metric}, which some methods select "
        "by, and say nothing about the error in time; measure times with xpuprof time -o TIMES, "
        "and compare with --times TIMES"
    )


def _interval(row: Row) -> str:
    """How far the interval reaches below and above the estimate."""
    if row.low_rel is None or row.high_rel is None:
        return "none"
    low, high = percent(-row.low_rel), percent(row.high_rel)
    return f"±{high}" if low == high else f"-{low} +{high}"


def _percent(value: float | None) -> str:
    return "" if value is None else percent(value)
