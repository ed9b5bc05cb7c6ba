# SPDX-License-Identifier: Apache-2.0
"""A CSV table of results: one row per region, one column per metric; `#` begins a comment."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from xpuprof.formats.format import Found, Match, ResultReader
from xpuprof.formats.importers.table import rows
from xpuprof.formats.simulator_results.regions import Regions
from xpuprof.inputs import Source

if TYPE_CHECKING:
    from xpuprof.selection.selection import Selection


def _read(source: Source, selection: Selection) -> list[Found]:
    regions = Regions(source, selection)
    with source.lines() as lines:
        table = rows(source, _without_comments(lines))
        names = next(table, [])
        if not {"region", "slice", "kernel"} & set(names):
            source.refuse(
                "names no regions: its first line must have a column region, slice, or kernel and "
                "call"
            )
        if len(names) != len(set(names)):
            source.refuse("has a column twice in its first line; name each once")
        found = []
        for number, row in enumerate(table, start=2):
            if len(row) != len(names):
                source.refuse(
                    f"has {len(row)} values in line {number} for {len(names)} columns; write it "
                    "again"
                )
            found.append(regions.row(dict(zip(names, row, strict=True))))
    return found


def _without_comments(lines: Iterable[str]) -> Iterable[str]:
    return (line for line in lines if line.strip() and not line.startswith("#"))


FORMAT = ResultReader(
    name="csv",
    help="a CSV table with a column region, slice, or kernel and call",
    read=_read,
    match=lambda first: Match.PERHAPS,
    table=True,
)
