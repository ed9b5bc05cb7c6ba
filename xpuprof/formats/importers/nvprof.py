# SPDX-License-Identifier: Apache-2.0
"""nvprof's CSV: `nvprof --csv --print-gpu-trace [--metrics ...]`, one row per launch.

After the ==PID== lines comes a header, a row of units and the rows, copies and fills among them.
Archives of such tables with R-style names (inst_executed, grid.x) are read too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from itertools import compress
from typing import TYPE_CHECKING

from xpuprof.formats.format import Head, Importer, Match
from xpuprof.formats.importers.table import (
    Columns,
    Places,
    Table,
    after_log,
    numbers,
    seconds,
    write,
)
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
_CORRELATION = re.compile(r" \[\d+\]$")
ADVICE = "record it with `nvprof --csv --print-gpu-trace`"


def load(source: Source, writer: ImportWriter) -> None:
    """Import a CSV. Raises InputError when it is not nvprof's, has mixed units, or has no
    kernel."""
    with source.lines() as lines:
        table = Table.csv(source, after_log(lines, _is_header))
        name = next((c for c in NAME if c in table.header), None)
        duration = next((c for c in DURATION if c in table.header), None)
        if name is None or duration is None:
            source.refuse(f"has no column Name and Duration: {ADVICE}")
        # R's exports have durations in seconds and no row of units.
        units = table.units(duration, lambda value: math.isnan(numbers([value])[0]))
        grid = _present(table, GRID)
        places = Places(
            kernel=name,
            time=duration,
            unit=seconds(source, units.get(duration, "s")),
            grid=grid,
            block=_present(table, BLOCK),
        )
        writer.units["gpu_time"] = "s"
        chunks = _kernels(table, grid[0]) if grid else table.chunks()
        write(source, writer, _named(chunks, name), places, others=FIXED, advice=ADVICE)


def _is_header(line: str) -> bool:
    return not line.startswith("==") and line.count(",") > 1


def _kernels(table: Table, grid: str) -> Iterator[Columns]:
    """The rows with a grid: copies and fills have none."""
    for columns in table.chunks():
        kernels = [bool(size.strip()) for size in columns[grid]]
        if any(kernels):
            yield {name: list(compress(values, kernels)) for name, values in columns.items()}


def _named(chunks: Iterator[Columns], name: str) -> Iterator[Columns]:
    """The rows with names alone: nvprof appends the launch's correlation id, `kernel(int) [94]`."""
    for columns in chunks:
        yield {**columns, name: [_CORRELATION.sub("", value) for value in columns[name]]}


def _present(table: Table, spellings: tuple[tuple[str, ...], ...]) -> list[str]:
    found = ([name for name in names if name in table.header] for names in spellings)
    return next(filter(None, found), [])


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
