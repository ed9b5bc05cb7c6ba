# SPDX-License-Identifier: Apache-2.0
"""nvprof's CSV: `nvprof --csv --print-gpu-trace [--metrics ...]`, one row per launch.

After the ==PID== lines comes a header, a row of units and the rows, copies and fills among them.
Archives of such tables with R-style names (inst_executed, grid.x) are read too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING

from xpuprof.formats.format import Head, Importer, Match
from xpuprof.formats.importers.table import Rows, after_log, index, integer, number, rows, seconds
from xpuprof.inputs import Source

if TYPE_CHECKING:
    from xpuprof.trace.imported import ImportWriter

NAME = ("Name", "Kernel", "name")
DURATION = ("Duration", "duration")
GRID = (("Grid X", "Grid Y", "Grid Z"), ("grid.x", "grid.y", "grid.z"))
BLOCK = (("Block X", "Block Y", "Block Z"), ("block.x", "block.y", "block.z"))
FIXED = frozenset(
    (
        "",
        "Start",
        "Device",
        "Context",
        "Stream",
        "Size",
        "Throughput",
        "SrcMemType",
        "DstMemType",
        "Correlation_ID",
        "device",
        "kernel",
        "gpu_name",
        *NAME,
        *DURATION,
        *(name for names in (*GRID, *BLOCK) for name in names),
    )
)
ADVICE = "record it with `nvprof --csv --print-gpu-trace`"


def load(source: Source, writer: ImportWriter) -> None:
    """Import a CSV. Raises InputError when it is not nvprof's, has mixed units, or has no
    kernel."""
    with source.lines() as lines:
        table = rows(source, after_log(lines, _is_header))
        header = next(table, [])
        columns = index(header)
        name = next((c for c in NAME if c in columns), None)
        duration = next((c for c in DURATION if c in columns), None)
        if name is None or duration is None:
            source.refuse(f"has no column Name and Duration: {ADVICE}")
        _rows(source, table, header, columns, columns[name], columns[duration], writer)


def _is_header(line: str) -> bool:
    return not line.startswith("==") and line.count(",") > 1


def _rows(
    source: Source,
    table: Iterator[list[str]],
    header: list[str],
    columns: Mapping[str, int],
    name: int,
    duration: int,
    writer: ImportWriter,
) -> None:
    first = next(table, None)
    # R's exports have durations in seconds and no row of units.
    unit = "s"
    if first and len(first) == len(header) and math.isnan(number(first[duration])):
        unit, first = first[duration], None
    factor = seconds(source, unit)
    grid = _places(columns, GRID)
    block = _places(columns, BLOCK)
    metrics: list[str] | None = None
    launches: Rows | None = None
    for row in chain([first] if first else [], table):
        if len(row) != len(header):
            source.refuse(
                f"has a row of {len(row)} fields below a header of {len(header)}; the file is cut "
                "short or was edited"
            )
        # Copies and fills have no grid.
        if grid and not row[grid[0]].strip():
            continue
        time = number(row[duration]) * factor
        if math.isnan(time):
            source.refuse(
                f"has a duration {row[duration]!r} of {row[name]!r} that is not a number in "
                f"{unit}: mixed units cannot be read; export with one unit "
                "(--normalized-time-unit)"
            )
        if metrics is None:
            metrics = [
                c for c in columns if c not in FIXED and not math.isnan(number(row[columns[c]]))
            ]
            launches = Rows(source, writer, ["gpu_time", *metrics])
            writer.units["gpu_time"] = "s"
        assert launches is not None
        launches.add(
            row[name],
            [time, *(number(row[columns[metric]]) for metric in metrics)],
            _shape(row, grid),
            _shape(row, block),
        )
    if launches is None:
        source.refuse(f"holds no kernel launch; {ADVICE}")
    launches.finish(ADVICE)


def _places(columns: Mapping[str, int], names: tuple[tuple[str, ...], ...]) -> list[int]:
    for spelling in names:
        places = [columns[name] for name in spelling if name in columns]
        if places:
            return places
    return []


def _shape(row: list[str], places: list[int]) -> tuple[int, int, int]:
    # A non-numeric size becomes -1, which Rows rejects.
    sizes = [integer(row[place], -1) for place in places] + [1] * (3 - len(places))
    return (sizes[0], sizes[1], sizes[2])


def _match(head: Head) -> Match:
    lines = head.text.splitlines()[:50]
    own = any(
        (line.startswith("==") and "NVPROF" in line)
        or line.startswith(('"Start"', '"Device","'))
        or '"grid.x"' in line
        for line in lines
    )
    return Match.YES if own else Match.NO


FORMAT = Importer(
    name="nvprof",
    help="nvprof --csv --print-gpu-trace",
    load=load,
    match=_match,
)
