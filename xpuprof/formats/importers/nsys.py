# SPDX-License-Identifier: Apache-2.0
"""Nsight Systems' sqlite export (`nsys export --type sqlite`, or the .sqlite beside a report).

The database returns sorted kernels in chunks. Only one number per kernel (its NVTX range) and the
names are held for the whole recording. Every process of the recording becomes a process of the run,
with all its GPUs and streams on one timeline.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from xpuprof.formats.format import Head, Importer, Match
from xpuprof.formats.importers.database import Column, Database
from xpuprof.formats.importers.table import LARGEST
from xpuprof.inputs import Source

if TYPE_CHECKING:
    from xpuprof.arrays import F64, I64
    from xpuprof.formats.importers.launches import Launches
    from xpuprof.trace.imported import ImportWriter

KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"
NVTX = "NVTX_EVENTS"
CHUNK = 100_000
RANGE_EVENTS = "(59, 60, 70, 71)"
"""NvtxPushPopRange, NvtxStartEndRange, and both with a payload."""

LATEST = 1 << 61
KERNEL_COST = 128
"""Memory per kernel, in bytes."""
REMEDY = "`nsys export --type sqlite REPORT.nsys-rep`"
NS = 1e-9

_TIMES = (Column("start", -LATEST, LATEST), Column("end", -LATEST, LATEST))
_SIZES = ("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ")
_IDS = Column("globalPid", null=True), Column("correlationId", null=True)
_KERNELS = (
    *_TIMES,
    *_IDS,
    Column("demangledName"),
    *(Column(name, 0, LARGEST) for name in ("deviceId", "streamId", *_SIZES)),
)
_CALLS = (*_TIMES, Column("globalTid"), Column("correlationId", null=True))
_RANGES = (
    Column("globalTid"),
    Column("start", -LATEST, LATEST),
    Column("end", -LATEST, LATEST, null=True),
    Column("text", kind="text", null=True),
    Column("textId", null=True),
)
_SPAN = tuple(Column(name, -LATEST, LATEST) for name in ("startTime", "stopTime", "duration"))

_SHAPE = "k.gridX, k.gridY, k.gridZ, k.blockX, k.blockY, k.blockZ"


def load(source: Source, writer: ImportWriter) -> None:
    """Import a recording. Raises InputError when it is not an export, damaged, or has no
    kernels."""
    # Imported late: `--help` lists formats without numpy.
    from xpuprof.formats.importers.timeline import Timeline

    with Database(source, "Nsight Systems export", REMEDY) as database:
        if KERNELS not in database.tables:
            source.refuse(
                f"has no table {KERNELS}: no CUDA kernel was recorded "
                "(`nsys profile --trace cuda`), or it is not an Nsight Systems export"
            )
        if "StringIds" not in database.tables:
            source.refuse(f"has no table StringIds; make it again with {REMEDY}")
        _check(database)
        names = database.names("SELECT id, value FROM StringIds")
        processes = _processes(source, database)
        ranges = _Ranges(database, names, _launched(processes[0][0]))
        writer.units |= {"api_time": "s", "queue_time": "s"}
        writer.properties["devices"] = _devices(database)
        timeline = Timeline(source, writer)
        for process, first, last in processes:
            begin, end = _span(database, first, last)
            timeline.begin(0.0)
            for rows in _chunks(_kernels(database, process)):
                timeline.add(*_launches(rows, begin, names, ranges))
            timeline.finish((end - begin) * NS)


def _check(database: Database) -> None:
    """Reject values of wrong types, so that later reads can trust them."""
    database.check(KERNELS, _KERNELS)
    database.check(RUNTIME, _CALLS)
    database.check(NVTX, _RANGES, f"eventType IN {RANGE_EVENTS} AND end IS NOT NULL")
    database.check("ANALYSIS_DETAILS", _SPAN)
    database.check("StringIds", (Column("id"), Column("value", kind="text", null=True)))


def _devices(database: Database) -> list[str]:
    if "TARGET_INFO_GPU" not in database.tables:
        return []
    rows = database.rows("SELECT name FROM TARGET_INFO_GPU ORDER BY id LIMIT 1024")
    return [str(row[0]) for row in rows]


def _processes(source: Source, database: Database) -> list[tuple[int | None, int, int]]:
    """(global pid, first start, last end) of each process with kernels, ns; None if unrecorded."""
    group = "globalPid" if "globalPid" in database.columns(KERNELS) else "NULL"
    rows = list(
        database.rows(f"SELECT {group}, min(start), max(end) FROM {KERNELS} GROUP BY 1 ORDER BY 2")
    )
    if not rows:
        source.refuse("holds no kernel; record with `nsys profile --trace cuda`")
    if len(rows) > 1 and any(row[0] is None for row in rows):
        source.refuse(f"is damaged: some kernels name no process; make it again with {REMEDY}")
    return rows


def _span(database: Database, first: int, last: int) -> tuple[int, int]:
    """The recording's start and end in ns: the analysis's, if they contain the kernels.

    Some versions write the analysis and the events in different clocks; the recording then starts
    at the clock's zero and ends with the last API call.
    """
    begin, end = 0, last
    if RUNTIME in database.tables:
        begin, calls_end = next(
            database.rows(f"SELECT coalesce(min(start), 0), coalesce(max(end), 0) FROM {RUNTIME}")
        )
        end = max(last, calls_end)
    if "ANALYSIS_DETAILS" in database.tables:
        details = database.rows("SELECT startTime, stopTime, duration FROM ANALYSIS_DETAILS")
        row = next(details, None)
        if row and row[0] <= first and last <= row[1]:
            begin, end = row[0], max(end, row[1])
        elif row and last <= row[2]:
            begin, end = 0, max(end, row[2])
    return min(begin, first), end


def _kernels(database: Database, process: int | None) -> Iterator[Any]:
    """Kernels of a process by start time, with the call that launched each."""
    own = "WHERE k.globalPid = ?" if process is not None else ""
    arguments = (process,) if process is not None else ()
    calls, join = "NULL, NULL", ""
    if RUNTIME in database.tables:
        calls = "r.start, r.end"
        join = f"LEFT JOIN {RUNTIME} r ON {_launched(process)}"
    return database.rows(
        "SELECT k.rowid, k.start, k.end, k.deviceId, k.streamId, k.demangledName, "
        f"{_SHAPE}, {calls} FROM {KERNELS} k {join} {own} "
        "ORDER BY k.start, k.correlationId, k.rowid",
        arguments,
    )


def _launched(process: int | None) -> str:
    """SQL that is true when call r launched kernel k. A process's runtime calls carry its id in the
    upper bits of the thread's (globalTid >> 24); some exports do not name the kernel's process."""
    same = " AND r.globalTid >> 24 = k.globalPid >> 24" if process is not None else ""
    return f"r.correlationId = k.correlationId{same}"


def _chunks(rows: Iterator[Any]) -> Iterator[list[Any]]:
    """Yield chunks of rows, each kernel once (the first of several calls with its correlation
    id)."""
    previous, kept = None, []
    for row in rows:
        if row[0] != previous:
            kept.append(row)
            previous = row[0]
        if len(kept) >= CHUNK:
            yield kept
            kept = []
    if kept:
        yield kept


def _launches(
    rows: list[Any], origin: int, names: dict[int, str], ranges: _Ranges
) -> tuple[Launches, F64, F64]:
    """The launches of a chunk, their starts and ends in seconds from `origin`."""
    import numpy as np

    from xpuprof.formats.importers.launches import Launches, work_items

    def seconds(ns: I64) -> F64:
        return ns.astype(np.float64) * NS

    rowid, begin, end, device, stream, name, *shape, api_start, api_end = zip(*rows, strict=True)
    sizes = np.array(shape, dtype=np.int64).T
    start = np.array(begin, dtype=np.int64)
    call_start = np.array([x or 0 for x in api_start], dtype=np.int64)
    call_end = np.array([x or 0 for x in api_end], dtype=np.int64)
    queued = np.where(call_end > 0, np.maximum(start - call_end, 0), 0)
    launches = Launches(
        kernel=[names.get(i, f"kernel {i}") for i in name],
        grid=work_items(sizes[:, :3], sizes[:, 3:]),
        block=sizes[:, 3:],
        device=np.array(device),
        stream=np.array(stream),
        metrics={"api_time": seconds(call_end - call_start), "queue_time": seconds(queued)},
        ranges=ranges.of(rowid) if ranges else None,
    )
    return launches, seconds(start - origin), seconds(np.array(end, dtype=np.int64) - origin)


class _Ranges:
    """The innermost NVTX range around the call that launched each kernel.

    One sweep over calls and ranges, both sorted by thread and time, with a stack of open ranges.
    """

    def __init__(self, database: Database, names: dict[int, str], launched: str) -> None:
        self._texts: list[str] = [""]
        self._rowids, self._of = array("q"), array("i")
        if {NVTX, RUNTIME} <= database.tables:
            self._sweep(database, names, launched)

    def __bool__(self) -> bool:
        return bool(self._rowids)

    def of(self, rowids: tuple[int, ...]) -> list[str]:
        """Text of the range of each kernel, "" outside any."""
        import numpy as np

        places = np.searchsorted(np.frombuffer(self._rowids, np.int64), np.array(rowids))
        return [self._texts[self._of[place]] for place in places.tolist()]

    def _sweep(self, database: Database, names: dict[int, str], launched: str) -> None:
        self._rowids.extend(
            row[0] for row in database.rows(f"SELECT rowid FROM {KERNELS} ORDER BY rowid")
        )
        database.source.hold(KERNEL_COST * len(self._rowids))
        self._of = array("i", bytes(4 * len(self._rowids)))
        place = {rowid: i for i, rowid in enumerate(self._rowids)}
        codes: dict[str, int] = {"": 0}
        spans = database.rows(
            f"SELECT globalTid, start, end, text, textId FROM {NVTX} WHERE eventType IN "
            f"{RANGE_EVENTS} AND end IS NOT NULL ORDER BY globalTid, start"
        )
        launches = database.rows(
            f"SELECT r.globalTid, r.start, k.rowid FROM {KERNELS} k JOIN {RUNTIME} r "
            f"ON {launched} ORDER BY r.globalTid, r.start"
        )
        span = next(spans, None)
        thread = None
        stack: list[tuple[int, int]] = []
        for tid, at, rowid in launches:
            if tid != thread:
                thread, stack = tid, []
            while span and (span[0], span[1]) <= (tid, at):
                if span[0] == tid and span[2] >= at:
                    text = span[3] if span[3] is not None else names.get(span[4], "")
                    if text not in codes:
                        database.source.hold_name(text)
                    stack.append((span[2], codes.setdefault(text, len(codes))))
                span = next(spans, None)
            # Ranges of the start/end kind may overlap, so a closed one can lie under an open one.
            while stack and stack[-1][0] < at:
                stack.pop()
            self._of[place[rowid]] = stack[-1][1] if stack else 0
        self._texts = list(codes)


def _match(head: Head) -> Match:
    return Match.PERHAPS if head.data.startswith(b"SQLite format 3\0") else Match.NO


_REPORT = "an Nsight Systems report; export it first: `nsys export --type sqlite {}`"

FORMAT = Importer(
    name="nsys",
    help="Nsight Systems: nsys export --type sqlite REPORT.nsys-rep",
    load=load,
    match=_match,
    reports={".nsys-rep": _REPORT, ".qdrep": _REPORT},
    aliases=("nsight-systems",),
)
