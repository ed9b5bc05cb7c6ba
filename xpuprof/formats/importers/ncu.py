# SPDX-License-Identifier: Apache-2.0
"""Nsight Compute's CSV: `ncu --csv --page raw` (one column per metric, a row of units) and `ncu
--csv --page details` (one row per metric)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING

from xpuprof.formats.format import Head, Importer, Match
from xpuprof.formats.importers.table import (
    SCALES,
    TIME_UNITS,
    Rows,
    after_log,
    index,
    integer,
    number,
    rows,
    seconds,
    shape,
)
from xpuprof.inputs import Source

if TYPE_CHECKING:
    from xpuprof.trace.imported import ImportWriter

KERNEL = "Kernel Name"
DURATIONS = ("gpu__time_duration.sum", "Duration", "gpu__time_duration.avg")
CYCLES = ("gpc__cycles_elapsed.max", "sm__cycles_elapsed.max", "Elapsed Cycles")
FIXED = frozenset(
    (
        "ID",
        "Process ID",
        "Process Name",
        "Host Name",
        KERNEL,
        "Kernel Time",
        "Context",
        "Stream",
        "Block Size",
        "Grid Size",
        "Device",
        "CC",
        "Section Name",
        "Metric Name",
        "Metric Unit",
        "Metric Value",
        "Rule Name",
        "Rule Type",
        "Rule Description",
        "Estimated Speedup Type",
        "Estimated Speedup",
        "thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg",
        "Id:Domain:Start/Stop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg",
    )
)
ADVICE = "profile with `ncu --csv --page raw --metrics ...` and pass its output"


def load(source: Source, writer: ImportWriter) -> None:
    """Import a CSV. Raises InputError when it is not Nsight Compute's, damaged, or has no
    kernel."""
    with source.lines() as lines:
        table = rows(source, after_log(lines, _is_header))
        header = next(table, [])
        columns = index(header)
        if KERNEL not in columns:
            source.refuse(f"has no column {KERNEL!r}, so it is not Nsight Compute's CSV; {ADVICE}")
        if "Metric Name" in columns:
            _details(source, table, header, columns, writer)
        else:
            _raw(source, table, header, columns, writer)


def _is_header(line: str) -> bool:
    return f'"{KERNEL}"' in line or line.startswith("ID,Process ID")


def _raw(
    source: Source,
    table: Iterator[list[str]],
    header: list[str],
    columns: Mapping[str, int],
    writer: ImportWriter,
) -> None:
    first = next(table, None)
    units = [""] * len(header)
    if (
        first
        and len(first) == len(header)
        and not first[columns.get("ID", columns[KERNEL])].strip()
    ):
        units, first = first, None
    names = [name for name in columns if name and name not in FIXED]
    scale = {name: _scale(source, name, units[columns[name]]) for name in names}
    launches: Rows | None = None
    for row in chain([first] if first else [], table):
        _check_row(source, row, header)
        if launches is None:
            # A text column (a device's name) is not a metric.
            names = [name for name in names if not math.isnan(number(row[columns[name]]))]
            launches = Rows(source, writer, [*_times(source, names, writer), *names])
            writer.units |= {name: _base(units[columns[name]]) for name in names}
        values = [number(row[columns[name]]) * scale[name] for name in names]
        _add(launches, row, columns, names, values)
    _finish(source, launches)


def _check_row(source: Source, row: list[str], header: list[str]) -> None:
    if len(row) != len(header):
        source.refuse(
            f"has a row of {len(row)} fields below a header of {len(header)}; the file is cut "
            "short or was edited"
        )


def _details(
    source: Source,
    table: Iterator[list[str]],
    header: list[str],
    columns: Mapping[str, int],
    writer: ImportWriter,
) -> None:
    """Consecutive rows with one ID form a launch; every launch has the first one's metrics."""
    for name in ("ID", "Metric Unit", "Metric Value"):
        if name not in columns:
            source.refuse(f"has no column {name!r}, so it is not Nsight Compute's CSV; {ADVICE}")
    launches: Rows | None = None
    names: list[str] = []
    held: list[str] | None = None
    found: dict[str, float] = {}

    def close() -> None:
        nonlocal launches, names
        if held is None:
            return
        if launches is None:
            names = [name for name, value in found.items() if not math.isnan(value)]
            launches = Rows(source, writer, [*_times(source, names, writer), *names])
        missing = [name for name in names if name not in found]
        if missing:
            source.refuse(
                f"lacks {missing[0]!r} for launch {held[columns['ID']]}, which others have; "
                "profile all kernels with the same metrics"
            )
        _add(launches, held, columns, names, [found[name] for name in names])

    for row in table:
        _check_row(source, row, header)
        if held is None or row[columns["ID"]] != held[columns["ID"]]:
            close()
            held, found = row, {}
        name = row[columns["Metric Name"]]
        if name:
            unit = row[columns["Metric Unit"]]
            value = number(row[columns["Metric Value"]]) * _scale(source, name, unit)
            found.setdefault(name, value)
            writer.units.setdefault(name, _base(unit))
    close()
    _finish(source, launches)


def _times(source: Source, names: list[str], writer: ImportWriter) -> list[str]:
    """The duration as `gpu_time` (if missing, cycles serve as time; see the import's note)."""
    if any(name in names for name in DURATIONS):
        writer.units["gpu_time"] = "s"
        return ["gpu_time"]
    if not any(name in names for name in CYCLES):
        source.refuse(f"has neither {DURATIONS[0]} nor {CYCLES[0]}; add one of them to --metrics")
    writer.units["cycles"] = "cycle"
    return ["cycles"]


def _add(
    launches: Rows,
    row: list[str],
    columns: Mapping[str, int],
    names: list[str],
    values: list[float],
) -> None:
    measured = next(name for name in (*DURATIONS, *CYCLES) if name in names)
    duration = values[names.index(measured)]
    launches.add(
        row[columns[KERNEL]],
        [duration, *values],
        shape(row[columns["Grid Size"]]) if "Grid Size" in columns else (1, 1, 1),
        shape(row[columns["Block Size"]]) if "Block Size" in columns else (1, 1, 1),
        device=integer(row[columns["Device"]], 0) if "Device" in columns else 0,
        stream=integer(row[columns["Stream"]], 0) if "Stream" in columns else 0,
    )


def _scale(source: Source, name: str, unit: str) -> float:
    """Factor to base units: seconds, bytes, instructions ... ("Kinst", "Mbyte", "usecond")."""
    unit = unit.strip()
    if name in DURATIONS:
        return seconds(source, unit)
    if unit.lower() in TIME_UNITS:
        return TIME_UNITS[unit.lower()]
    if len(unit) > 1 and unit[0] in SCALES and unit[1:].lower().startswith(("inst", "byte", "cyc")):
        return SCALES[unit[0]]
    return 1.0


def _base(unit: str) -> str:
    unit = unit.strip()
    if unit.lower() in TIME_UNITS:
        return "s"
    if len(unit) > 1 and unit[0] in SCALES and unit[1:].lower().startswith(("inst", "byte", "cyc")):
        return unit[1:]
    return unit


def _finish(source: Source, launches: Rows | None) -> None:
    if launches is None:
        source.refuse(f"holds no kernel launch; {ADVICE}")
    launches.finish(ADVICE)


def _match(head: Head) -> Match:
    text = head.text
    return Match.YES if "==PROF==" in text or f'"{KERNEL}"' in text else Match.NO


FORMAT = Importer(
    name="ncu",
    help="Nsight Compute: ncu --import R.ncu-rep --csv --page raw",
    load=load,
    match=_match,
    reports={
        ".ncu-rep": "an Nsight Compute report; export it first: "
        "`ncu --import {} --csv --page raw > FILE.csv`"
    },
    aliases=("nsight-compute",),
)
