"""Nsight Compute's CSV: `ncu --csv --page raw` (a column a metric, a row of units) and
`ncu --csv --page details` (a row a metric)."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from xpuprof.errors import InputError
from xpuprof.formats.importers.table import (
    SCALES,
    TIME_UNITS,
    Rows,
    index,
    number,
    open_text,
    seconds,
    shape,
)
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
ADVICE = "profile with `ncu --csv --page raw --metrics ...` and pass what it prints"


def load(source: Path, writer: ImportWriter) -> None:
    """Import a CSV. InputError when it is not Nsight Compute's, damaged, or holds no kernel."""
    with open_text(source) as text:
        table = csv.reader(_after_log(text))
        header = next(table, [])
        columns = index(header)
        if KERNEL not in columns:
            raise InputError(
                f"{source} has no column {KERNEL!r}, so it is no Nsight Compute CSV; {ADVICE}"
            )
        if "Metric Name" in columns:
            _details(source, table, dict(columns), writer)
        else:
            _raw(source, table, header, dict(columns), writer)


def _after_log(lines: Iterator[str]) -> Iterator[str]:
    """The table: what comes before its header (output, ==PROF== lines) is left out."""
    for line in lines:
        if f'"{KERNEL}"' in line or line.startswith("ID,Process ID"):
            return chain([line], (rest for rest in lines if not rest.startswith("==")))
    return iter(())


def _raw(
    source: Path,
    table: Iterator[list[str]],
    header: list[str],
    columns: dict[str, int],
    writer: ImportWriter,
) -> None:
    first = next(table, None)
    units = [""] * len(header)
    if first and not first[columns.get("ID", columns[KERNEL])].strip():
        units, first = first, None
    names = [name for name in columns if name and name not in FIXED]
    scale = {name: _scale(source, name, units[columns[name]]) for name in names}
    rows = None
    for row in chain([first] if first else [], table):
        if len(row) != len(header):
            raise InputError(
                f"{source}: a row has {len(row)} fields, the header {len(header)}; the file is cut "
                "short or was edited"
            )
        if rows is None:
            # A column of text (a device's name) is no metric.
            names = [name for name in names if not math.isnan(number(row[columns[name]]))]
            rows = Rows(writer, [*_times(source, names, writer), *names])
            writer.units |= {name: _base(units[columns[name]]) for name in names}
        values = [number(row[columns[name]]) * scale[name] for name in names]
        _add(rows, row, columns, names, values)
    _finish(source, rows)


def _details(
    source: Path, table: Iterator[list[str]], columns: dict[str, int], writer: ImportWriter
) -> None:
    """A launch is the run of rows with one ID; every launch has the first one's metrics."""
    rows: Rows | None = None
    names: list[str] = []
    held: list[str] | None = None
    found: dict[str, float] = {}

    def close() -> None:
        nonlocal rows, names
        if held is None:
            return
        if rows is None:
            names = [name for name, value in found.items() if not math.isnan(value)]
            rows = Rows(writer, [*_times(source, names, writer), *names])
        missing = [name for name in names if name not in found]
        if missing:
            raise InputError(
                f"{source}: launch {held[columns['ID']]} lacks {missing[0]!r}, which others have; "
                "profile all kernels with the same metrics"
            )
        _add(rows, held, columns, names, [found[name] for name in names])

    for row in table:
        if len(row) <= columns["Metric Value"]:
            raise InputError(f"{source}: a row is cut short; copy the file again")
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
    _finish(source, rows)


def _times(source: Path, names: list[str], writer: ImportWriter) -> list[str]:
    """The duration as `gpu_time` (without one, cycles serve as time: see the import's note)."""
    if any(name in names for name in DURATIONS):
        writer.units["gpu_time"] = "s"
        return ["gpu_time"]
    if not any(name in names for name in CYCLES):
        raise InputError(
            f"{source} has neither {DURATIONS[0]} nor {CYCLES[0]}; add one of them to --metrics"
        )
    writer.units["cycles"] = "cycle"
    return ["cycles"]


def _add(
    rows: Rows, row: list[str], columns: dict[str, int], names: list[str], values: list[float]
) -> None:
    source = next(name for name in (*DURATIONS, *CYCLES) if name in names)
    duration = values[names.index(source)]
    rows.add(
        row[columns[KERNEL]],
        [duration, *values],
        shape(row[columns["Grid Size"]]) if "Grid Size" in columns else (1, 1, 1),
        shape(row[columns["Block Size"]]) if "Block Size" in columns else (1, 1, 1),
        device=_integer(row, columns, "Device"),
        stream=_integer(row, columns, "Stream"),
    )


def _integer(row: list[str], columns: dict[str, int], name: str) -> int:
    value = number(row[columns[name]]) if name in columns else 0.0
    return 0 if math.isnan(value) else int(value)


def _scale(source: Path, name: str, unit: str) -> float:
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


def _finish(source: Path, rows: Rows | None) -> None:
    if rows is None:
        raise InputError(f"{source} holds no kernel launch; {ADVICE}")
    rows.finish(source, ADVICE)
