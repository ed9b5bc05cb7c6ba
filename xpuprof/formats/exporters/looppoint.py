# SPDX-License-Identifier: Apache-2.0
"""gem5's LoopPoint JSON: regions by number, each with the (pc, count) pairs that begin and end its
simulation, its multiplier, and the pairs of its warm-up, if any."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from xpuprof.formats.format import Exporter, Needs
from xpuprof.formats.output import write_files

if TYPE_CHECKING:
    from xpuprof.formats.exporters.cpu_regions import Point, Region
    from xpuprof.selection.selection import Selection
    from xpuprof.trace.tables import Process


def write(
    selection: Selection,
    process: Process,
    file: Path,
    force: bool = False,
    warmup: Mapping[int, int] = MappingProxyType({}),
    image_base: int | None = None,
) -> list[Path]:
    """Write `file`; counts cover all threads from the program's start."""
    # Imported late: `--help` lists formats without numpy.
    from xpuprof.formats.exporters.cpu_regions import regions

    found = regions(selection, process, warmup, image_base)
    document = {str(region.number): _region(region) for region in found}
    return write_files({file: json.dumps(document, indent=4) + "\n"}, force)


def _region(region: Region) -> dict[str, Any]:
    result: dict[str, Any] = {
        "simulation": {
            "start": {"pc": region.start.pc, "global": region.start.count},
            "end": {
                "pc": region.end.pc,
                "global": region.end.count,
                "relative": region.relative,
            },
        },
        "multiplier": region.representative.multiplier,
    }
    if region.warmup is not None:
        result["warmup"] = {"start": _pair(region.warmup), "end": _pair(region.start)}
    return result


def _pair(point: Point) -> dict[str, int]:
    return {"pc": point.pc, "count": point.count}


FORMAT = Exporter(
    name="looppoint",
    help="OUT, LoopPoint JSON for gem5",
    write=lambda source, out, options: write(
        source.selection,
        source.process,
        out,
        options.force,
        source.warmup(options, device=False),
        options.image_base,
    ),
    needs=Needs.VECTORS,
    per_process=True,
    takes=frozenset({"warmup", "warm_cache", "image_base"}),
)
