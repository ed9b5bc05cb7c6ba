# SPDX-License-Identifier: Apache-2.0
"""Results as JSON: a list of objects or an object by region, at top level or in `regions`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xpuprof.formats.format import Found, Match, ResultReader
from xpuprof.formats.simulator_results.regions import Regions
from xpuprof.inputs import Source

if TYPE_CHECKING:
    from xpuprof.selection.selection import Selection


def _read(source: Source, selection: Selection) -> list[Found]:
    document = source.json()
    if isinstance(document, dict) and isinstance(document.get("regions"), list | dict):
        document = document["regions"]
    if isinstance(document, dict):
        document = [
            {"region": key, **value} if isinstance(value, dict) else value
            for key, value in document.items()
        ]
    if not isinstance(document, list) or not all(isinstance(row, dict) for row in document):
        source.refuse(
            "is not a list of results: give objects with region (or slice, or kernel and call) and "
            "one number a metric"
        )
    regions = Regions(source, selection)
    return [regions.row(row) for row in document]


FORMAT = ResultReader(
    name="json",
    help="a JSON list of objects with region, slice, or kernel and call",
    read=_read,
    match=lambda first: Match.YES if first.startswith(("{", "[")) else Match.NO,
    table=True,
)
