"""Nsight Systems' sqlite export (`nsys export --type sqlite`, or the .sqlite beside a report).

Kernels come sorted out of the database in chunks; what is held of the whole recording is one number
a kernel (its NVTX range) and the names. Every process of the recording becomes a process of the
run, with all its GPUs and streams on one timeline.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from xpuprof.errors import InputError
from xpuprof.formats.importers.timeline import NS, Launches, Timeline
from xpuprof.trace.imported import ImportWriter

KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"
NVTX = "NVTX_EVENTS"
CHUNK = 100_000
RANGE_EVENTS = "(59, 60, 70, 71)"
"""NvtxPushPopRange, NvtxStartEndRange, and both with a payload."""

_SHAPE = "k.gridX, k.gridY, k.gridZ, k.blockX, k.blockY, k.blockZ"


def load(source: Path, writer: ImportWriter) -> None:
    """Import a recording. InputError when it is no export, damaged, or without kernels."""
    uri = f"{source.resolve().as_uri()}?mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(uri, uri=True)) as database:
            _load(source, database, writer)
    except sqlite3.DatabaseError as error:
        raise InputError(
            f"{source} is not a readable Nsight Systems export ({error}); make it anew with "
            "`nsys export --type sqlite REPORT.nsys-rep`"
        ) from error


def _load(source: Path, database: sqlite3.Connection, writer: ImportWriter) -> None:
    if KERNELS not in _tables(database):
        raise InputError(
            f"{source} has no table {KERNELS}: no CUDA kernel was recorded "
            "(`nsys profile --trace cuda`), or it is not an Nsight Systems export"
        )
    names = dict(database.execute("SELECT id, value FROM StringIds"))
    ranges = _Ranges(database, names)
    writer.units |= {"api_time": "s", "queue_time": "s"}
    writer.properties["devices"] = _devices(database)
    timeline = Timeline(writer)
    for process, first, last in _processes(source, database):
        begin, end = _span(database, first, last)
        timeline.begin(0.0)
        for rows in _chunks(_kernels(database, process)):
            timeline.add(_launches(rows, begin, names, ranges))
        timeline.finish((end - begin) * NS)


def _tables(database: sqlite3.Connection) -> set[str]:
    return {row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type='table'")}


def _columns(database: sqlite3.Connection, table: str) -> set[str]:
    return {row[1] for row in database.execute(f"PRAGMA table_info({table})")}


def _devices(database: sqlite3.Connection) -> list[str]:
    if "TARGET_INFO_GPU" not in _tables(database):
        return []
    return [str(row[0]) for row in database.execute("SELECT name FROM TARGET_INFO_GPU ORDER BY id")]


def _processes(source: Path, database: sqlite3.Connection) -> list[tuple[int | None, int, int]]:
    """(global pid, first start, last end) of each process with kernels, ns; None: not recorded."""
    group = "globalPid" if "globalPid" in _columns(database, KERNELS) else "NULL"
    rows = database.execute(
        f"SELECT {group}, min(start), max(end) FROM {KERNELS} GROUP BY 1 ORDER BY 2"
    ).fetchall()
    if not rows:
        raise InputError(f"{source} holds no kernel; record with `nsys profile --trace cuda`")
    return rows


def _span(database: sqlite3.Connection, first: int, last: int) -> tuple[int, int]:
    """The recording's start and end in ns: of the analysis when that contains the kernels.

    (Some versions write the analysis in another clock than the events; the recording then starts
    with the clock's zero and ends with the last API call.)
    """
    tables = _tables(database)
    begin, end = 0, last
    if RUNTIME in tables:
        begin, calls_end = database.execute(
            f"SELECT coalesce(min(start), 0), coalesce(max(end), 0) FROM {RUNTIME}"
        ).fetchone()
        end = max(last, calls_end)
    if "ANALYSIS_DETAILS" in tables:
        row = database.execute(
            "SELECT startTime, stopTime, duration FROM ANALYSIS_DETAILS"
        ).fetchone()
        if row and row[0] <= first and last <= row[1]:
            begin, end = row[0], max(end, row[1])
        elif row and last <= row[2]:
            begin, end = 0, max(end, row[2])
    return min(begin, first), end


def _kernels(database: sqlite3.Connection, process: int | None) -> sqlite3.Cursor:
    """Kernels of a process in order of their start, with the call that launched each.

    A process's runtime calls carry its id in the upper bits of the thread's (globalTid >> 24).
    """
    own = "WHERE k.globalPid = ?" if process is not None else ""
    arguments = (process,) if process is not None else ()
    calls, join = "NULL, NULL", ""
    if RUNTIME in _tables(database):
        calls = "r.start, r.end"
        same = "AND r.globalTid >> 24 = k.globalPid >> 24" if process is not None else ""
        join = f"LEFT JOIN {RUNTIME} r ON r.correlationId = k.correlationId {same}"
    return database.execute(
        "SELECT k.rowid, k.start, k.end, k.deviceId, k.streamId, k.demangledName, "
        f"{_SHAPE}, {calls} FROM {KERNELS} k {join} {own} "
        "ORDER BY k.start, k.correlationId, k.rowid",
        arguments,
    )


def _chunks(cursor: sqlite3.Cursor) -> Iterator[list[Any]]:
    """Chunks of rows, a kernel once (of several calls with its correlation id the first counts)."""
    previous = None
    while rows := cursor.fetchmany(CHUNK):
        kept = []
        for row in rows:
            if row[0] != previous:
                kept.append(row)
                previous = row[0]
        if kept:
            yield kept


def _launches(rows: list[Any], origin: int, names: dict[int, str], ranges: _Ranges) -> Launches:
    rowid, begin, end, device, stream, name, *shape, api_start, api_end = zip(*rows, strict=True)
    start = np.array(begin, dtype=np.int64) - origin
    call_start = np.array([x if x is not None else 0 for x in api_start], dtype=np.int64)
    call_end = np.array([x if x is not None else 0 for x in api_end], dtype=np.int64)
    known = call_end > 0
    return Launches(
        kernel=[names.get(i, f"kernel {i}") for i in name],
        start=_seconds(start),
        end=_seconds(np.array(end, dtype=np.int64) - origin),
        device=np.array(device, dtype=np.int32),
        stream=np.array(stream, dtype=np.int32),
        grid=np.array(shape[:3], dtype=np.int64).T,
        block=np.array(shape[3:], dtype=np.int64).T,
        metrics={
            "api_time": _seconds(call_end - call_start),
            "queue_time": _seconds(np.where(known, np.maximum(start + origin - call_end, 0), 0)),
        },
        ranges=ranges.of(rowid) if ranges else None,
    )


def _seconds(ns: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    return ns.astype(np.float64) * NS


class _Ranges:
    """The innermost NVTX range around the call that launched each kernel.

    One sweep over calls and ranges, both sorted by thread and time, with a stack of open ranges.
    """

    def __init__(self, database: sqlite3.Connection, names: dict[int, str]) -> None:
        self._texts: list[str] = [""]
        self._of: npt.NDArray[np.int32] = np.zeros(0, dtype=np.int32)
        if {NVTX, RUNTIME} <= _tables(database):
            self._sweep(database, names)

    def __bool__(self) -> bool:
        return bool(len(self._of))

    def of(self, rowids: tuple[int, ...]) -> list[str]:
        """Text of the range of each kernel, "" outside any."""
        return [self._texts[i] for i in self._of[list(rowids)]]

    def _sweep(self, database: sqlite3.Connection, names: dict[int, str]) -> None:
        rows = database.execute(f"SELECT max(rowid) FROM {KERNELS}").fetchone()[0] or 0
        self._of = np.zeros(rows + 1, dtype=np.int32)
        codes: dict[str, int] = {"": 0}
        spans = database.execute(
            f"SELECT globalTid, start, end, text, textId FROM {NVTX} WHERE eventType IN "
            f"{RANGE_EVENTS} AND end IS NOT NULL ORDER BY globalTid, start"
        )
        launches = database.execute(
            f"SELECT r.globalTid, r.start, k.rowid FROM {KERNELS} k JOIN {RUNTIME} r "
            "ON r.correlationId = k.correlationId AND r.globalTid >> 24 = k.globalPid >> 24 "
            "ORDER BY r.globalTid, r.start"
        )
        span = spans.fetchone()
        thread = None
        stack: list[tuple[int, int]] = []
        for tid, at, rowid in launches:
            if tid != thread:
                thread, stack = tid, []
            while span and (span[0], span[1]) <= (tid, at):
                if span[0] == tid and span[2] >= at:
                    text = span[3] if span[3] is not None else names.get(span[4], "")
                    stack.append((span[2], codes.setdefault(text, len(codes))))
                span = spans.fetchone()
            # Ranges of the start/end kind may overlap, so a closed one can lie under an open one.
            while stack and stack[-1][0] < at:
                stack.pop()
            self._of[rowid] = stack[-1][1] if stack else 0
        self._texts = list(codes)
