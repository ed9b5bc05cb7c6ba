# SPDX-License-Identifier: Apache-2.0
"""One stream file (events.xpt, cpu.xpt) as numpy arrays, through the bridge.

Rows are structured arrays with the layout of the bridge's structs (layout.py);
native/include/xpuprof/trace_format.h describes every column.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from xpuprof._bridge import ffi, lib
from xpuprof.errors import TraceError
from xpuprof.trace.layout import CPU, EVENTS, TABLES, TAGS
from xpuprof.trace.records import STREAM_FILES

FILES = dict(zip((EVENTS, CPU), STREAM_FILES, strict=True))
Rows = Mapping[str, npt.NDArray[Any]]
"""Rows of some tables, by their names."""


class StreamError(TraceError):
    """A stream file cannot be read. `offset`: position in the file."""

    def __init__(self, message: str, code: int, offset: int) -> None:
        super().__init__(message)
        self.code = code
        self.offset = offset

    @property
    def violates(self) -> str:
        """The violated invariant, if the file itself is readable; empty otherwise."""
        if self.code == lib.XP_E_CRC:
            return "crc"
        if self.code == lib.XP_E_DENSE:
            return "ids-dense"
        return "ids-known" if self.code == lib.XP_E_UNKNOWN else ""


@dataclass(frozen=True)
class Stream:
    """A decoded stream. `rows[name]` is an array of xp_arrays; `ended`: closed in order."""

    path: Path
    rows: dict[str, npt.NDArray[Any]]
    ended: bool
    end: tuple[int, int]
    """END's two numbers; zeros if the stream was not closed."""
    bytes: int
    """Bytes of the file that hold chunks."""
    chunks: int
    unknown_records: int
    """Number of records of unknown kinds, which are skipped."""

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        return self.rows[name]

    def text(self, text: npt.NDArray[Any]) -> str:
        """Decode one text, a row of dtype (at, size)."""
        at, size = int(text["at"]), int(text["size"])
        return self.rows["texts"][at : at + size].tobytes().decode(errors="backslashreplace")

    def texts(self, column: npt.NDArray[Any]) -> list[str]:
        """Decode a column of texts; empty ones cost nothing."""
        result = [""] * len(column)
        for i in np.flatnonzero(column["size"]):
            result[i] = self.text(column[i])
        return result

    def meta(self) -> dict[str, str]:
        """The stream's META records; the last one of a repeated key."""
        metas = self.rows["metas"]
        return dict(zip(self.texts(metas["key"]), self.texts(metas["value"]), strict=True))


def read_stream(path: Path, stream: int, tables: Iterable[str] = TABLES) -> Stream:
    """Decode these tables of a stream file. Raises StreamError, which names file, place and remedy.

    A stream that was not closed (its writer was killed or still runs) returns its valid chunks.
    """
    with StreamReader(path, stream, whole=tables) as reader:
        for _ in reader.chunks():
            pass
        return reader.stream


SMALL = (
    *("texts", "metas", "programs", "kernels", "gpu_blocks", "stamps", "windows"),
    *("images", "cpu_blocks", "threads"),
)
"""Tables whose size does not grow with launches; other records refer to them."""


class StreamReader:
    """Reads a stream chunk by chunk: a context, open from the first walk, which checks chunks and
    counts rows, to the end of the second, which decodes.

    `whole` tables are kept in `stream`; those requested from `chunks` are returned chunk by chunk,
    so that memory does not grow with them. Raises StreamError as `read_stream`.
    """

    def __init__(self, path: Path, stream: int, whole: Iterable[str] = SMALL) -> None:
        self._kind = stream
        self._counts, self._error = ffi.new("xp_counts *"), ffi.new("xp_error *")
        self._reader = lib.xp_stream_open(os.fsencode(path), stream, self._counts, self._error)
        if self._reader == ffi.NULL:
            raise _explain(path, stream, self._error)
        self._arrays = ffi.new("xp_arrays *")
        self._keep: list[Any] = []
        rows = {name: _array(name, self._counts, self._arrays, self._keep) for name in whole}
        self.stream = Stream(
            path,
            rows,
            bool(self._counts.ended),
            (int(self._counts.end_a), int(self._counts.end_b)),
            int(self._counts.bytes),
            int(self._counts.chunks),
            int(self._counts.unknown_records),
        )

    def count(self, table: str) -> int:
        """Number of rows of a table in the whole stream."""
        return int(getattr(self._counts, TABLES[table].length))

    def chunks(self, *names: str) -> Iterator[Rows]:
        """Each chunk's rows of the tables `names`; those of tables that are not kept whole lie in
        buffers that the next chunk overwrites. `first_pair` and the like count in the whole
        stream."""
        room, rows, first = (ffi.new("xp_counts *") for _ in range(3))
        lib.xp_stream_rewind(self._reader)
        lib.xp_stream_largest(self._reader, room)
        arrays, keep, kept = ffi.new("xp_arrays *", self._arrays[0]), list[Any](), self.stream.rows
        buffers = {name: _array(name, room, arrays, keep) for name in names if name not in kept}
        for field in {TABLES[name].length for name in kept}:
            setattr(room, field, getattr(self._counts, field))
        error, done = self._error, dict.fromkeys((TABLES[name].length for name in names), 0)
        while (more := lib.xp_stream_next(self._reader, arrays, first, room, rows, error)) > 0:
            span = {field: slice(last, int(getattr(rows, field))) for field, last in done.items()}
            yield {
                name: buffers[name][: span[length].stop - span[length].start]
                if name in buffers
                else kept[name][span[length]]
                for name in names
                for length in (TABLES[name].length,)
            }
            done = {field: part.stop for field, part in span.items()}
            for name in buffers:
                setattr(first, TABLES[name].length, done[TABLES[name].length])
        if more < 0:
            raise _explain(self.stream.path, self._kind, error)

    def __enter__(self) -> StreamReader:
        return self

    def __exit__(self, *_: object) -> None:
        lib.xp_stream_close(self._reader)


def _array(name: str, counts: Any, arrays: Any, keep: list[Any]) -> npt.NDArray[Any]:
    """Allocate `counts` rows; `arrays` points to them while `keep` lives. Empty tables get a buffer
    too, because the bridge skips tables without one."""
    table = TABLES[name]
    length = int(getattr(counts, table.length))
    rows = np.empty(max(length, 1), table.dtype)
    buffer = ffi.from_buffer(rows.view(np.uint8), require_writable=True)
    keep.append(buffer)
    setattr(arrays, name, ffi.cast(table.pointer, buffer))
    return rows[:length]


_AGAIN = "copy the run directory again, or record it again"
_DAMAGED = "{path} is damaged at byte {offset}: "
_MESSAGES = {
    lib.XP_E_OPEN: "{path} cannot be opened: {why}; check who may read it",
    lib.XP_E_READ: "{path} cannot be read at byte {offset}: {why}; check the disk, or copy the run "
    "directory again",
    lib.XP_E_CHANGED: "{path} changed while it was read; wait until the run has ended",
    lib.XP_E_MEMORY: "{path} needs {a} bytes of memory in one piece; free some",
    lib.XP_E_FOREIGN: "{path} is not an xpuprof trace (its first bytes are foreign); " + _AGAIN,
    lib.XP_E_NEWER: "{path} has trace version {a} and this xpuprof reads up to {b}; install a "
    "newer xpuprof",
    lib.XP_E_VERSION: "{path} has trace version {a}, which no xpuprof ever wrote; " + _AGAIN,
    lib.XP_E_STREAM: "{path} holds a stream of kind {a} where kind {b} belongs; " + _AGAIN,
    lib.XP_E_TRUNCATED: "{path} is truncated: the chunk at byte {offset} has {a} bytes, the file "
    "only {b} more; " + _AGAIN,
    lib.XP_E_CHUNK: _DAMAGED + "no chunk starts there; " + _AGAIN,
    lib.XP_E_CRC: _DAMAGED
    + "the checksum of this chunk is {b:08x} and should be {a:08x}; "
    + _AGAIN,
    lib.XP_E_RECORD: _DAMAGED + "a record crosses the end of its chunk; " + _AGAIN,
    lib.XP_E_VARINT: _DAMAGED + "a number in a {tag} record does not end; " + _AGAIN,
    lib.XP_E_SHORT: _DAMAGED + "a {tag} record is too short; " + _AGAIN,
    lib.XP_E_EXCESS: _DAMAGED + "a {tag} record is too long; " + _AGAIN,
    lib.XP_E_LENGTH: _DAMAGED + "a {tag} record claims {b} entries, more than it holds; " + _AGAIN,
    lib.XP_E_RANGE: _DAMAGED + "{b} in a {tag} record is too large; " + _AGAIN,
    lib.XP_E_DENSE: "{path}: the {tag} record at byte {offset} has id {b}, out of order; record "
    "the run again",
    lib.XP_E_UNKNOWN: "{path}: the {tag} record at byte {offset} speaks of id {b}, which no record "
    "before it introduced; record the run again",
}


def _explain(path: Path, stream: int, error: Any) -> StreamError:
    code, offset, a = int(error.code), int(error.offset), int(error.a)
    message = _MESSAGES[code].format(
        path=path,
        offset=offset,
        a=a,
        b=int(error.b),
        tag=next((name for name, tag in TAGS[stream].items() if tag == a), "unknown"),
        why=os.strerror(a) if code in (lib.XP_E_OPEN, lib.XP_E_READ) else "",
    )
    return StreamError(message, code, offset)
