# SPDX-License-Identifier: Apache-2.0
"""PinPoints region files: by instruction count, and by address with the 16 columns that gem5's
LoopPoint reader expects.

A record begins `cluster C from slice S,thread,region,...`; gem5 splits it at spaces and takes the
fifth piece, so image names must not contain spaces. A region's warm-up is a separate record,
`Warmup for regionid R,...`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import TYPE_CHECKING

from xpuprof.formats.format import Exporter, Needs
from xpuprof.formats.output import write_files

if TYPE_CHECKING:
    from xpuprof.formats.exporters.cpu_regions import Point, Region
    from xpuprof.selection.selection import Selection
    from xpuprof.trace.tables import Process

COUNT_HEADER = (
    "comment,thread-id,region-id,simulation-region-start-icount,simulation-region-end-icount,"
    "region-weight"
)
ADDRESS_HEADER = (
    "comment,thread-id,region-id,start-pc,start-image-name,start-image-offset,start-pc-count,"
    "end-pc,end-image-name,end-image-offset,end-pc-count,end-pc-relative-count,region-length,"
    "region-weight,region-multiplier,region-type"
)


def write(
    selection: Selection,
    process: Process,
    base: Path,
    force: bool = False,
    warmup: Mapping[int, int] = MappingProxyType({}),
    image_base: int | None = None,
) -> list[Path]:
    """Write `base`.icount.csv (instructions of thread 0) and `base`.pc.csv (all threads)."""
    # Imported late: `--help` lists formats without numpy.
    from xpuprof.formats.exporters.cpu_regions import instruction_starts, regions

    found = regions(selection, process, warmup, image_base)
    starts = instruction_starts(process, thread=0)
    title = f"# Regions chosen by xpuprof, method {selection.method}, seed {selection.seed}"
    by_count = [title, COUNT_HEADER]
    for region in found:
        r = region.representative
        begin, end = int(starts[r.slice]), int(starts[r.slice + 1])
        by_count += [
            f"# Region = {region.number} Slice = {r.slice} Icount = {begin} "
            f"Length = {end - begin} Weight = {r.weight:.6f}",
            f"{_comment(region)},0,{region.number},{begin},{end},{r.weight:.6f}",
        ]
    by_address = [title, f"# {ADDRESS_HEADER}"]
    for region in found:
        by_address += address_records(region)
    return write_files(
        {
            base.with_name(base.name + ".icount.csv"): "\n".join(by_count) + "\n",
            base.with_name(base.name + ".pc.csv"): "\n".join(by_address) + "\n",
        },
        force,
    )


def address_records(region: Region) -> Sequence[str]:
    """The region's record, and its warm-up's if it has one."""
    r = region.representative
    record = ",".join(
        [
            _comment(region),
            "global",
            str(region.number),
            *_point(region.start),
            *_point(region.end),
            str(region.relative),
            str(region.instructions),
            f"{r.weight:.6f}",
            repr(r.multiplier),
            "simulation",
        ]
    )
    if region.warmup is None:
        return [record]
    warm = ",".join(
        [
            f"Warmup for regionid {region.number}",
            "global",
            str(region.number),
            *_point(region.warmup),
            *_point(region.start),
            "0",
            "0",
            "0",
            "0",
            f"warmup:{region.number}",
        ]
    )
    return [record, warm]


def _comment(region: Region) -> str:
    r = region.representative
    return f"cluster {r.cluster} from slice {r.slice}"


def _point(point: Point) -> list[str]:
    name = PurePosixPath(point.image).name.replace(" ", "_").replace(",", "_")
    return [f"{point.pc:#x}", name, f"{point.offset:#x}", str(point.count)]


FORMAT = Exporter(
    name="pinpoints",
    help="OUT.icount.csv and OUT.pc.csv, PinPoints regions",
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
