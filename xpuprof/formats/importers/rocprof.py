# SPDX-License-Identifier: Apache-2.0
"""rocprofv3's CSV: `--kernel-trace` (a timeline) and `--pmc` (a row a counter of each launch).
Grids are in work-items, as OpenCL has them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from xpuprof.formats.format import Head, Importer, Match
from xpuprof.formats.importers.table import LARGEST, Columns, Places, Table, numbers, write
from xpuprof.inputs import Source, whole

if TYPE_CHECKING:
    from xpuprof.trace.imported import ImportWriter

KERNEL, START, END = "Kernel_Name", "Start_Timestamp", "End_Timestamp"
COUNTER, VALUE, LAUNCH = "Counter_Name", "Counter_Value", "Dispatch_Id"
SIZES = [f"{what}_Size_{axis}" for what in ("Grid", "Workgroup") for axis in "XYZ"]
GRID, BLOCK = "Grid_Size", "Workgroup_Size"
LATEST = 1 << 62
LAUNCH_COST = 520
"""Memory of a launch with its counters, in bytes, besides its counters' values."""
NS = 1e-9
ADVICE = "record with `rocprofv3 --kernel-trace --output-format csv -- ./app`"


class Count(NamedTuple):
    """A counter's value in a launch; `duration` in ns if known, sizes in work-items as a table's
    column holds them, or empty."""

    launch: int
    kernel: str
    grid: str
    block: str
    duration: int | None
    counter: str
    value: float


def load(source: Source, writer: ImportWriter) -> None:
    """Import a kernel trace or collected counters. Raises InputError for anything else."""
    with source.lines() as lines:
        table = Table.csv(source, lines)
        counted = COUNTER in table.header
        for name in (KERNEL, *((COUNTER, VALUE, LAUNCH) if counted else (START, END))):
            if name not in table.header:
                source.refuse(f"has no column {name}, so it is no kernel trace; {ADVICE}")
        if counted:
            write_counters(source, writer, _counts(source, table), ADVICE)
        else:
            _trace(source, table, writer)


def _trace(source: Source, table: Table, writer: ImportWriter) -> None:
    from xpuprof.formats.importers.timeline import Kernels  # loads numpy

    kernels, names = Kernels(source), dict[str, str]()
    origin = last = 0
    for row in _rows(table):
        start, end = (_whole(source, row, name, LATEST) for name in (START, END))
        if not len(kernels):
            origin = start
        last = max(last, end)
        if row[KERNEL] not in names:
            source.hold_name(row[KERNEL])
        kernels.add(
            names.setdefault(row[KERNEL], row[KERNEL]),
            start - origin,
            end - start,
            device=_number(row, "Agent_Id"),
            stream=_number(row, "Stream_Id" if "Stream_Id" in row else "Queue_Id"),
            shape=[_whole(source, row, name, LARGEST, 0) for name in SIZES],
        )
    if not len(kernels):
        source.refuse(f"holds no kernel launch; {ADVICE}")
    kernels.write(writer, kernels.first, last - origin, NS)


def _counts(source: Source, table: Table) -> Iterator[Count]:
    timed = {START, END} <= set(table.header)
    for columns in table.chunks():
        values = numbers(columns[VALUE]).tolist()
        for row, value in zip(_by_row(columns), values, strict=True):
            start, end = (_whole(source, row, n, LATEST) if timed else 0 for n in (START, END))
            yield Count(
                launch=_whole(source, row, LAUNCH, LATEST),
                kernel=row[KERNEL],
                grid=row.get(GRID, ""),
                block=row.get(BLOCK, ""),
                duration=end - start if timed else None,
                counter=row[COUNTER],
                value=value,
            )


def write_counters(
    source: Source, writer: ImportWriter, counts: Iterable[Count], advice: str
) -> None:
    """Write a row a launch, in order of the launches' numbers. Counters of several passes are
    joined. Raises InputError without a launch, or when a launch lacks a counter."""
    launches: dict[int, dict[str, Any]] = {}
    for count in counts:
        launch = launches.get(count.launch)
        if launch is None:
            source.hold(LAUNCH_COST + 4 * len(count.kernel))
            launch = {KERNEL: count.kernel, GRID: count.grid, BLOCK: count.block}
            launches[count.launch] = launch
            if count.duration is not None:
                launch["duration"] = count.duration
        source.hold(64)
        launch.setdefault(f"counter {count.counter}", count.value)
    if not launches:
        source.refuse(f"holds no kernel launch; {advice}")
    order = sorted(launches)
    names = list(launches[order[0]])
    for number in order:
        if missing := [name for name in names if name not in launches[number]]:
            source.refuse(
                f"lacks {missing[0]} for dispatch {number}, which others have; collect the same "
                "counters of all kernels"
            )
    columns = {
        name.removeprefix("counter "): [launches[number][name] for number in order]
        for name in names
    }
    time = "duration" if "duration" in names else ""
    if time:
        writer.units["gpu_time"] = "s"
    places = Places(kernel=KERNEL, time=time, unit=NS, grid=[GRID], block=[BLOCK], work_items=True)
    others = ["duration", KERNEL, GRID, BLOCK]
    write(source, writer, iter([columns]), places, others=others, advice=advice)


def _rows(table: Table) -> Iterator[dict[str, str]]:
    for columns in table.chunks():
        yield from _by_row(columns)


def _by_row(columns: Columns) -> Iterator[dict[str, str]]:
    for row in zip(*columns.values(), strict=True):
        yield dict(zip(columns, row, strict=True))


def _whole(source: Source, row: dict[str, str], name: str, most: int, missing: int = -1) -> int:
    value = whole(row[name], 0, most) if name in row else missing
    if value is None or value < 0:
        source.refuse(f"has {name} {row.get(name, '')[:40]!r}, which is not a number; {ADVICE}")
    return value


def _number(row: dict[str, str], name: str) -> int:
    """The number of an agent ("Agent 4" or 4), queue or stream; 0 without one."""
    return whole(row.get(name, "").rpartition(" ")[2], 0, LARGEST) or 0


def _match(head: Head) -> Match:
    first = head.columns
    # rocprofiler-compute writes Dispatch_ID.
    own = KERNEL in first and first & {START, COUNTER} and "Dispatch_ID" not in first
    return Match.YES if own else Match.NO


FORMAT = Importer(
    name="rocprofv3",
    help="rocprofv3 --kernel-trace or --pmc with --output-format csv",
    load=load,
    match=_match,
    aliases=("rocprof",),
)
