# SPDX-License-Identifier: Apache-2.0
"""Nsight Compute's CSV: `ncu --csv --page raw` (one column per metric, a row of units) and `ncu
--csv --page details` (one row per metric)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from xpuprof.formats.format import Head, Importer, Match
from xpuprof.formats.importers.table import (
    CHUNK,
    Columns,
    Places,
    Table,
    after_log,
    numbers,
    seconds,
    write,
)
from xpuprof.formats.units import TIME_UNITS
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

SCALES = {"K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_SCALED = re.compile(r"([KMGT])((?i:inst|byte|cyc|hz).*)")


def load(source: Source, writer: ImportWriter) -> None:
    """Import a CSV. Raises InputError when it is not Nsight Compute's, damaged, or has no
    kernel."""
    with source.lines() as lines:
        table = Table.csv(source, after_log(lines, _is_header))
        if KERNEL not in table.header:
            source.refuse(f"has no column {KERNEL!r}, so it is not Nsight Compute's CSV; {ADVICE}")
        if "Metric Name" in table.header:
            _details(source, table, writer)
        else:
            _raw(source, table, writer)


def _is_header(line: str) -> bool:
    return f'"{KERNEL}"' in line or line.startswith("ID,Process ID")


def _raw(source: Source, table: Table, writer: ImportWriter) -> None:
    units = table.units("ID" if "ID" in table.header else KERNEL, lambda value: not value.strip())
    units = units or dict.fromkeys(table.header, "")
    bases = {name: _in_base(unit)[1] for name, unit in units.items()}
    _write(source, writer, table.chunks(), bases, lambda name: _scale(source, name, units[name]))


def _details(source: Source, table: Table, writer: ImportWriter) -> None:
    """Consecutive rows with one ID form a launch; every launch has the first one's metrics. Units
    may differ between rows, so values are converted here."""
    for name in ("ID", "Metric Unit", "Metric Value"):
        if name not in table.header:
            source.refuse(f"has no column {name!r}, so it is not Nsight Compute's CSV; {ADVICE}")
    units: dict[str, str] = {}
    launches = _launches(source, table, units)
    first = next(launches, None)
    if first is None:
        source.refuse(f"holds no kernel launch; {ADVICE}")

    def chunks() -> Iterator[Columns]:
        every = chain([first], launches)
        while part := list(islice(every, max(CHUNK // len(first), 1))):
            for launch in part:
                if missing := [name for name in first if name not in launch]:
                    source.refuse(
                        f"lacks {missing[0]!r} for launch {launch['ID']}, which others have; "
                        "profile all kernels with the same metrics"
                    )
            yield {name: [launch[name] for launch in part] for name in first}

    _write(source, writer, chunks(), units, lambda _: 1.0)


def _launches(source: Source, table: Table, units: dict[str, str]) -> Iterator[dict[str, Any]]:
    """The fields of a launch's first row, and its metrics. Adds base units to `units`."""
    launch: dict[str, Any] = {}
    for columns in table.chunks():
        measured = list(zip(columns["Metric Name"], columns["Metric Unit"], strict=True))
        scales = [_scale(source, name, unit) for name, unit in measured]
        values = (numbers(columns["Metric Value"]) * scales).tolist()
        rows = zip(*columns.values(), strict=True)
        for row, (name, unit), value in zip(rows, measured, values, strict=True):
            fields = dict(zip(columns, row, strict=True))
            if fields["ID"] != launch.get("ID"):
                if launch:
                    yield launch
                launch = fields
            # Sections may use a name again, for another metric.
            if name and name not in launch:
                launch[name] = value
                if not math.isnan(value):
                    _keep_unit(source, units, name, unit)
    if launch:
        yield launch


def _keep_unit(source: Source, units: dict[str, str], name: str, unit: str) -> None:
    """A metric's values form a column, so that all have one base unit."""
    base = _in_base(unit)[1]
    if units.setdefault(name, base) != base:
        source.refuse(
            f"gives {name[:80]!r} in {unit[:80]!r} and in {units[name][:80]!r}, which cannot be "
            "converted to one unit; export it with --print-units base"
        )


def _write(
    source: Source,
    writer: ImportWriter,
    chunks: Iterator[Columns],
    units: Mapping[str, str],
    scale: Callable[[str], float],
) -> None:
    """The duration is `gpu_time`; without one, cycles serve as time. `units` are base units."""
    first = next(chunks, None)
    if first is None:
        source.refuse(f"holds no kernel launch; {ADVICE}")
    measured = next((name for name in (*DURATIONS, *CYCLES) if name in first), None)
    if measured is None:
        source.refuse(f"has neither {DURATIONS[0]} nor {CYCLES[0]}; add one of them to --metrics")
    measure, unit = ("gpu_time", "s") if measured in DURATIONS else ("cycles", "cycle")
    writer.units |= {**units, measure: unit}
    places = Places(
        kernel=KERNEL,
        time=measured,
        unit=scale(measured),
        measure=measure,
        grid=[name for name in ("Grid Size",) if name in first],
        block=[name for name in ("Block Size",) if name in first],
        device="Device" if "Device" in first else "",
        stream="Stream" if "Stream" in first else "",
    )
    chunks = chain([first], chunks)
    write(source, writer, chunks, places, others=FIXED, scale=scale, advice=ADVICE)


def _scale(source: Source, name: str, unit: str) -> float:
    """Factor of a metric to its base unit."""
    return seconds(source, unit) if name in DURATIONS else _in_base(unit)[0]


@lru_cache(maxsize=1 << 12)
def _in_base(unit: str) -> tuple[float, str]:
    """Factor to base units, and the base unit: s, byte, inst, cycle/s, hz ... of "usecond",
    "Mbyte", "Kinst", "cycle/nsecond", "Ghz"."""
    above, mark, below = unit.strip().partition("/")
    (factor, base), (divisor, per) = _part(above), _part(below)
    return factor / divisor, f"{base}{mark}{per}"


def _part(unit: str) -> tuple[float, str]:
    if unit.lower() in TIME_UNITS:
        return TIME_UNITS[unit.lower()], "s"
    found = _SCALED.fullmatch(unit)
    return (SCALES[found[1]], found[2]) if found else (1.0, unit)


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
