# SPDX-License-Identifier: Apache-2.0
"""A CSV table of results: one row per region, one column per metric; `#` begins a comment."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from xpuprof.formats.format import Found, Match, ResultReader
from xpuprof.formats.importers.table import Table
from xpuprof.formats.simulator_results.regions import Regions
from xpuprof.inputs import Source

if TYPE_CHECKING:
    from xpuprof.selection.selection import Selection


NAMES = {"region", "slice", "kernel"}
"""Columns that name a region."""


def _read(source: Source, selection: Selection) -> list[Found]:
    regions = Regions(source, selection)
    with source.lines() as lines:
        table = Table.csv(source, _without_comments(lines))
        if not NAMES & set(table.header):
            source.refuse(
                "names no regions: its first line must have a column region, slice, or kernel and "
                f"call, not {', '.join(table.header)[:200]!r}"
            )
        if len(table.header) != len(set(table.header)):
            source.refuse("has a column twice in its first line; name each once")
        return [
            regions.row(dict(zip(columns, row, strict=True)))
            for columns in table.chunks()
            for row in zip(*columns.values(), strict=True)
        ]


def _without_comments(lines: Iterable[str]) -> Iterable[str]:
    return (line for line in lines if line.strip() and not line.startswith("#"))


FORMAT = ResultReader(
    name="csv",
    help="a CSV table with a column region, slice, or kernel and call",
    read=_read,
    match=lambda first: Match.YES if NAMES & set(first.split(",")) else Match.PERHAPS,
    table=True,
)
