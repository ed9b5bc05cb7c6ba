# SPDX-License-Identifier: Apache-2.0
"""Output of `validate`, `transfer` and `time --regions`."""

from __future__ import annotations

from collections.abc import Sequence

from xpuprof.estimation.projection import slice_reduction
from xpuprof.report.projected import (
    accuracy_json,
    error_text,
    estimate_json,
    measured_by,
    projected_line,
    saving_json,
    saving_lines,
    shares_json,
    shares_text,
)
from xpuprof.report.representatives import (
    representative_json,
    representatives_table,
    time_columns,
)
from xpuprof.report.text import (
    LEGEND,
    amount,
    count,
    factor,
    marker,
    number_of,
    percent,
    table,
    times_less,
)
from xpuprof.units import seconds
from xpuprof.validation.regions import RegionTime
from xpuprof.validation.transfer import Row
from xpuprof.validation.validate import Validation

MAX_DIFFERENCES = 10


def validation_text(validation: Validation) -> str:
    """The representatives' times, then projected against measured."""
    lines = [
        *LEGEND,
        "",
        representatives_table(
            validation.selection.representatives, validation.labels, time_columns(validation.times)
        ),
        "",
        *shares_text(validation.shares),
    ]
    if validation.selection.window:
        lines.append(
            f"window          {validation.selection.window}: times refer to it, not to the program"
        )
    lines += [
        f"measured        {seconds(validation.measured)}   "
        + measured_by(validation.runs, validation.shares),
        projected_line(validation.projected),
        f"sampling error  {error_text(validation.accuracy)}",
        *saving_lines(validation.selection, validation.time_speedup, validation.measured),
        *difference_lines(validation),
    ]
    return "\n".join(lines)


def validation_json(validation: Validation) -> dict[str, object]:
    """The object that `xpuprof validate --json` prints."""
    selection = validation.selection
    return {
        "same": validation.same,
        "differences": list(validation.differences),
        "window": selection.window or None,
        "method": selection.method,
        "slices": selection.slices,
        "k": selection.k,
        "representatives": [
            {**representative_json(r), "time_s": validation.times[r.slice]}
            for r in selection.representatives
        ],
        "covered": selection.covered,
        "measured_s": validation.measured,
        **estimate_json(validation.projected),
        **accuracy_json(validation.accuracy),
        **saving_json(selection, validation.time_speedup),
        **shares_json(validation.shares),
        **_moved_json(validation),
        "missing": [
            {"slice": r.slice, "kernel": r.end.kernel, "call": r.end.call}
            for r in validation.transplant.missing
        ],
    }


def transfer_json(rows: Sequence[Row]) -> list[dict[str, object]]:
    """The runs that `xpuprof transfer --json` prints; the first is on the machine of origin."""
    return [
        {
            "run": row.name,
            "slices": row.validation.selection.slices,
            "measured_s": row.validation.measured,
            **estimate_json(row.validation.projected),
            **accuracy_json(row.validation.accuracy),
            **saving_json(row.validation.selection, row.validation.time_speedup),
            "covered": row.validation.selection.covered,
            **_moved_json(row.validation),
            "missing": len(row.validation.transplant.missing),
            "measured_ratio": row.measured_ratio,
            "projected_ratio": row.projected_ratio,
            "relative_error": row.relative_error,
            "differences": list(row.validation.differences),
            "doubts": list(row.validation.doubts),
        }
        for row in rows
    ]


def _moved_json(validation: Validation) -> dict[str, object]:
    """How the selection maps to this run; shares and effects are fractions."""
    moved = validation.transplant
    return {
        "stand_ins": len(moved.stand_ins),
        "attributed_slices": len(moved.attributed),
        "unknown_slices": len(moved.unknown),
        "gone_share": moved.gone,
        "unknown_time_share": validation.unknown_time,
        "unknown_effect": validation.unknown_effect,
    }


def difference_lines(validation: Validation) -> list[str]:
    """Differences from the run of the selection, one line each; one line if there are none."""
    moved = validation.transplant
    lines = [f"differs: {text}" for text in validation.differences[:MAX_DIFFERENCES]]
    if len(validation.differences) > MAX_DIFFERENCES:
        lines.append(f"differs: {len(validation.differences) - MAX_DIFFERENCES} more, see --json")
    replaced, left_out = len(moved.stand_ins), len(moved.missing) - len(moved.stand_ins)
    if replaced:
        lines.append(
            f"replaced: {number_of(replaced, 'region')} that no slice matched, by other slices of "
            "the same cluster"
        )
    if left_out:
        lines.append(
            f"left out: {number_of(left_out, 'region')} that no slice matched; covered share "
            f"{percent(validation.selection.covered)}, the others re-weighted"
        )
    if len(moved.unknown):
        lines.append(
            f"unknown: {number_of(len(moved.unknown), 'slice')} with an end (a kernel, or the "
            "program's exit) that the selection never saw, "
            f"{percent(validation.unknown_time)} of the measured time; they alone move the "
            f"projection by {percent(validation.unknown_effect)}"
        )
    return lines or ["no differences: every marker fired, in order, with the same grid"]


def transfer_text(rows: Sequence[Row], metric: str = "time") -> str:
    """One line per machine; ratios are against the first."""
    cells = [
        [
            row.name,
            count(row.validation.selection.slices),
            amount(row.validation.measured, metric),
            amount(row.validation.projected.value, metric),
            percent(row.validation.error),
            f"{slice_reduction(row.validation.selection):,.1f}x",
            times_less(row.validation.time_speedup),
            f"{row.measured_ratio:.3f}",
            f"{row.projected_ratio:.3f}",
            percent(row.relative_error),
            percent(row.validation.selection.covered),
        ]
        for row in rows
    ]
    headers = [
        "run",
        "slices",
        "measured",
        "projected",
        "error",
        "slice reduction",
        "time speedup",
        "speedup",
        "projected speedup",
        "off by",
        "covered",
    ]
    lines = [
        *([f"projected metric: {metric}"] * (metric != "time")),
        f"speedup: over {rows[0].name}, as measured and as projected; covered: share of the slices",
        "",
    ]
    lines.append(table(headers, cells, "lrrrrrrrrrr"))
    for row in rows:
        said = [f"doubtful: {doubt}" for doubt in row.validation.doubts]
        if row.validation.differences or row.validation.transplant.missing:
            said += difference_lines(row.validation)
        if said:
            lines += ["", f"{row.name}:", *said]
    return "\n".join(lines)


def regions_json(regions: Sequence[RegionTime]) -> list[dict[str, object]]:
    """The regions that `xpuprof time --json` prints."""
    return [dict(vars(region)) for region in regions]


def regions_text(regions: Sequence[RegionTime]) -> str:
    """One line per region; columns for process, multiplier and warm-up if any region has them."""
    weighted = any(region.multiplier is not None for region in regions)
    warmed = any(region.warmup for region in regions)
    several = any(region.process for region in regions)
    rows = [
        [
            count(region.slice),
            *([region.process] * several),
            *marker(region.kernel, region.call),
            seconds(region.seconds),
            *([_multiplier(region)] * weighted),
            *([_warmup(region)] * warmed),
        ]
        for region in regions
    ]
    headers = ["slice", *["process"] * several, "ends with kernel", "call", "time"]
    headers += ["multiplier"] * weighted + ["warm-up"] * warmed
    return table(headers, rows, "r" + "l" * several + "lrrrr")


def _multiplier(region: RegionTime) -> str:
    return "" if region.multiplier is None else factor(region.multiplier)


def _warmup(region: RegionTime) -> str:
    return f"{seconds(region.warmup_s)} in {region.warmup}" if region.warmup else ""
