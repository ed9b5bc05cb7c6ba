"""What `validate`, `transfer` and `time --regions` tell people."""

from __future__ import annotations

from collections.abc import Sequence

from xpuprof.report.result import SPEEDUP_IS, shares_text
from xpuprof.report.text import (
    amount,
    count,
    of_runs,
    percent,
    seconds,
    shorten,
    table,
)
from xpuprof.trace.coordinates import EXIT_KERNEL, NO_KERNELS
from xpuprof.validation.regions import RegionTime
from xpuprof.validation.transfer import Row
from xpuprof.validation.validate import Validation

MAX_DIFFERENCES = 10


def validation_text(validation: Validation, repeats: int) -> str:
    """The representatives' times, then projected against measured."""
    rows = [
        [
            count(r.slice),
            *([validation.labels[r.process]] if validation.labels else []),
            NO_KERNELS.get(r.end.kernel) or shorten(r.end.kernel),
            "" if r.end.kernel == EXIT_KERNEL else count(r.end.call),
            f"{r.multiplier:,.4g}",
            seconds(validation.times[r.slice]),
            seconds(validation.times[r.slice] * r.multiplier),
        ]
        for r in validation.selection.representatives
    ]
    several = bool(validation.shares)
    headers = [
        "slice",
        *(["process"] if several else []),
        *("ends with kernel", "call", "multiplier", "slice time", "projected"),
    ]
    lines = [
        table(headers, rows, "rllrrrr" if several else "rlrrrr"),
        "",
        *shares_text(validation.shares),
    ]
    if validation.selection.window:
        lines.append(
            f"window          {validation.selection.window}: times are of it, not of the program"
        )
    projected = validation.projected
    interval = (
        f"   {100 * projected.confidence:g} % interval {seconds(projected.low)} to "
        f"{seconds(projected.high)}"
        if projected.low is not None
        and projected.high is not None
        and projected.confidence is not None
        else f"   no interval: {projected.basis}"
    )
    lines += [
        f"measured        {seconds(validation.measured)}   ({of_runs(repeats)}"
        + (f", all {len(validation.shares)} processes together)" if several else ")"),
        f"projected       {seconds(projected.value)}{interval}",
        f"sampling error  {percent(validation.error)}"
        + (
            f"   ({percent(validation.inner_error)} without start-up and exit)"
            if validation.inner_error is not None
            else ""
        ),
        f"speedup         {validation.speedup:.1f}x   {SPEEDUP_IS}",
        *difference_lines(validation),
    ]
    return "\n".join(lines)


def difference_lines(validation: Validation) -> list[str]:
    """What is not as it was when the selection was made; one line when all is."""
    moved = validation.transplant
    lines = [f"differs: {text}" for text in validation.differences[:MAX_DIFFERENCES]]
    if len(validation.differences) > MAX_DIFFERENCES:
        lines.append(f"differs: {len(validation.differences) - MAX_DIFFERENCES} more, see --json")
    if moved.missing:
        lines.append(
            f"left out: {len(moved.missing)} regions that never occurred, "
            f"{len(moved.stand_ins)} of them replaced by another slice of their cluster; covered "
            f"share {percent(validation.selection.covered)}, the others re-weighted"
        )
    if len(moved.unknown):
        lines.append(
            f"unknown: {count(len(moved.unknown))} slices of kernels that the selection never saw, "
            f"{percent(validation.unknown_time)} of the measured time; they alone move the "
            f"projection by {percent(validation.unknown_effect)}"
        )
    return lines or ["every marker fired, in order, with the grid it had; nothing differs"]


def transfer_text(rows: Sequence[Row], metric: str = "time") -> str:
    """One line a machine; ratios are against the first."""
    cells = [
        [
            row.name,
            count(row.validation.selection.slices),
            amount(row.validation.measured, metric),
            amount(row.validation.projected.value, metric),
            percent(row.validation.error),
            f"{row.validation.speedup:.1f}x",
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
        "speedup",
        "ratio",
        "projected ratio",
        "ratio error",
        "covered",
    ]
    lines = [*([f"projected metric: {metric}", ""] * (metric != "time"))]
    lines.append(table(headers, cells, "lrrrrrrrrr"))
    for row in rows:
        if row.validation.differences or row.validation.transplant.missing:
            lines += ["", f"{row.name}:", *difference_lines(row.validation)]
    return "\n".join(lines)


def regions_text(regions: Sequence[RegionTime]) -> str:
    """One line a region; multipliers and warm-up where some region has them."""
    weighted = any(region.multiplier is not None for region in regions)
    warmed = any(region.warmup for region in regions)
    rows = [
        [
            count(region.slice),
            NO_KERNELS.get(region.kernel) or shorten(region.kernel),
            "" if region.kernel == EXIT_KERNEL else count(region.call),
            seconds(region.seconds),
            *([_multiplier(region)] * weighted),
            *([_warmup(region)] * warmed),
        ]
        for region in regions
    ]
    headers = ["slice", "ends with kernel", "call", "time"]
    headers += ["multiplier"] * weighted + ["warm-up"] * warmed
    return table(headers, rows, "rlrrrr")


def _multiplier(region: RegionTime) -> str:
    return "" if region.multiplier is None else f"{region.multiplier:,.4g}"


def _warmup(region: RegionTime) -> str:
    return f"{seconds(region.warmup_s)} in {region.warmup}" if region.warmup else ""
