"""One stream file (events.xpt, cpu.xpt) as numpy arrays, through the bridge; and its writer.

Rows are structured arrays whose dtypes have the layout of the bridge's structs; the meaning of
every column is in native/include/xpuprof/trace_format.h.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from xpuprof._bridge import ffi, lib
from xpuprof.errors import TraceError

EVENTS, CPU = 1, 2
"""enum xp_stream."""
FILES = {EVENTS: "events.xpt", CPU: "cpu.xpt"}

_TEXT = [("at", "<u8"), ("size", "<u8")]

DTYPES: dict[str, np.dtype[Any]] = {
    name: np.dtype(fields)  # type: ignore[call-overload]
    for name, fields in {
        "meta": [("key", _TEXT), ("value", _TEXT)],
        "program": [("hash", "u1", 16), ("kind", "<u8"), ("origin", _TEXT)],
        "kernel": [
            ("first_block", "<u8"),
            ("n_blocks", "<u4"),
            ("program", "<u4"),
            ("name", _TEXT),
            ("reason", _TEXT),
        ],
        "gpu_block": [
            ("identity", "<u8"),
            ("instructions", "<u4"),
            ("kernel", "<u4"),
            ("mix", "<u2", 12),
        ],
        "launch": [
            ("launch", "<u8"),
            ("tsc_run", "<u8"),
            ("global", "<u8", 3),
            ("local", "<u8", 3),
            ("offset", "<u8", 3),
            ("kernel", "<u4"),
            ("dimensions", "<u4"),
            ("queue", "<u4"),
            ("device", "<u4"),
            ("thread", "<u4"),
            ("flags", "<u4"),
            ("reason", _TEXT),
        ],
        "complete": [
            ("launch", "<u8"),
            ("tsc_host", "<u8"),
            ("dev_start", "<u8"),
            ("dev_end", "<u8"),
        ],
        "stamp": [("which", "<u8"), ("tsc", "<u8")],
        "vector": [("first_pair", "<u8"), ("n_pairs", "<u4"), ("kernel", "<u4")],
        "grid": [
            ("warps", "<u8"),
            ("instructions", "<u8"),
            ("first_run", "<u8"),
            ("n_runs", "<u8"),
            ("kernel", "<u8"),
        ],
        "launch_grid": [("launch", "<u8"), ("grid", "<u8")],
        "copy": [
            ("bytes", "<u8"),
            ("tsc_start", "<u8"),
            ("tsc_end", "<u8"),
            ("queue", "<u4"),
            ("direction", "<u4"),
        ],
        "resource": [
            ("launch", "<u8"),
            ("registers", "<u4"),
            ("local_static", "<u4"),
            ("local_dynamic", "<u4"),
            ("private_bytes", "<u4"),
        ],
        "lanes": [("launch", "<u8"), ("instructions", "<u8")],
        "device_ldv": [
            ("launch", "<u8"),
            ("accesses", "<u8"),
            ("recorded", "<u8"),
            ("groups", "<u8"),
            ("recorded_groups", "<u8"),
            ("first_pair", "<u8"),
            ("n_pairs", "<u8"),
            ("flags", "<u8"),
        ],
        "window": [("launch", "<u8"), ("open", "<u8"), ("tsc", "<u8"), ("marker", _TEXT)],
        "image": [("build_id", _TEXT), ("path", _TEXT)],
        "cpu_block": [
            ("identity", "<u8"),
            ("offset", "<u8"),
            ("image", "<u4"),
            ("instructions", "<u4"),
        ],
        "thread": [("system_id", "<u8")],
        "bbv": [
            ("slice", "<u8"),
            ("instructions", "<u8"),
            ("first_pair", "<u8"),
            ("n_pairs", "<u8"),
            ("thread", "<u8"),
        ],
        "ldv": [
            ("slice", "<u8"),
            ("first_pair", "<u8"),
            ("n_pairs", "<u8"),
            ("thread", "<u8"),
        ],
        "cut": [("slice", "<u8"), ("tsc", "<u8"), ("instructions", "<u8")],
    }.items()
}
"""numpy dtype of each struct xp_<name>_row."""

# xp_arrays field -> (field of xp_counts that has its length, dtype)
_ARRAYS: dict[str, tuple[str, np.dtype[Any]]] = {
    "texts": ("texts", np.dtype("u1")),
    "metas": ("metas", DTYPES["meta"]),
    "programs": ("programs", DTYPES["program"]),
    "kernels": ("kernels", DTYPES["kernel"]),
    "gpu_blocks": ("gpu_blocks", DTYPES["gpu_block"]),
    "launches": ("launches", DTYPES["launch"]),
    "completes": ("completes", DTYPES["complete"]),
    "stamps": ("stamps", DTYPES["stamp"]),
    "vectors": ("vectors", DTYPES["vector"]),
    "vector_block": ("vector_pairs", np.dtype("<u4")),
    "vector_count": ("vector_pairs", np.dtype("<u8")),
    "grids": ("grids", DTYPES["grid"]),
    "run_vector": ("grid_runs", np.dtype("<u4")),
    "run_length": ("grid_runs", np.dtype("<u8")),
    "launch_grids": ("launch_grids", DTYPES["launch_grid"]),
    "copies": ("copies", DTYPES["copy"]),
    "resources": ("resources", DTYPES["resource"]),
    "lanes": ("lanes", DTYPES["lanes"]),
    "device_ldvs": ("device_ldvs", DTYPES["device_ldv"]),
    "windows": ("windows", DTYPES["window"]),
    "images": ("images", DTYPES["image"]),
    "cpu_blocks": ("cpu_blocks", DTYPES["cpu_block"]),
    "threads": ("threads", DTYPES["thread"]),
    "bbvs": ("bbvs", DTYPES["bbv"]),
    "bbv_block": ("bbv_pairs", np.dtype("<u4")),
    "bbv_count": ("bbv_pairs", np.dtype("<u8")),
    "cuts": ("cuts", DTYPES["cut"]),
    "ldvs": ("ldvs", DTYPES["ldv"]),
    "ldv_bucket": ("ldv_pairs", np.dtype("<u4")),
    "ldv_count": ("ldv_pairs", np.dtype("<u8")),
}

_POINTERS = {name: field.type for name, field in ffi.typeof("xp_arrays").fields}

_EVENT_TAGS = (
    "META PROGRAM KERNEL LAUNCH COMPLETE STAMP WARP_VECTOR GRID_VECTOR LAUNCH_GRID COPY RESOURCES"
    " LANES WINDOW LDV"
)
_CPU_TAGS = "META IMAGE BLOCK THREAD BBV CUT LDV"
_TAGS = {
    stream: {15: "END", **dict(enumerate(names.split(), start=1))}
    for stream, names in ((EVENTS, _EVENT_TAGS), (CPU, _CPU_TAGS))
}


class StreamError(TraceError):
    """A stream file cannot be read. `offset` is where in the file."""

    def __init__(self, message: str, code: int, offset: int) -> None:
        super().__init__(message)
        self.code = code
        self.offset = offset

    @property
    def violates(self) -> str:
        """The invariant that is broken where the file as such can be read, else empty."""
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
    """END's two numbers; zeros when the stream was not closed."""
    bytes: int
    """Of the file that hold chunks."""
    chunks: int
    unknown_records: int
    """Records of kinds that this version does not know, left out."""

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        return self.rows[name]

    def text(self, text: npt.NDArray[Any]) -> str:
        """One text, a row of dtype (at, size)."""
        at, size = int(text["at"]), int(text["size"])
        return self.rows["texts"][at : at + size].tobytes().decode(errors="backslashreplace")

    def texts(self, column: npt.NDArray[Any]) -> list[str]:
        """A column of texts; a million empty ones cost nothing."""
        result = [""] * len(column)
        for i in np.flatnonzero(column["size"]):
            result[i] = self.text(column[i])
        return result

    def meta(self) -> dict[str, str]:
        """The stream's META records; of a key that occurs twice, the last."""
        metas = self.rows["metas"]
        return dict(zip(self.texts(metas["key"]), self.texts(metas["value"]), strict=True))


def read_stream(path: Path, stream: int) -> Stream:
    """Decodes a stream file. Raises StreamError: one sentence that names file, place and remedy.

    A stream that was not closed (its writer was killed, or is at work) gives what it holds.
    """
    counts, error = ffi.new("xp_counts *"), ffi.new("xp_error *")
    reader = lib.xp_stream_open(os.fsencode(path), stream, counts, error)
    if reader == ffi.NULL:
        raise _explain(path, stream, error)
    try:
        rows, arrays, keep = _allocate(counts)
        if lib.xp_stream_fill(reader, arrays, error) < 0:
            raise _explain(path, stream, error)
        del keep
    finally:
        lib.xp_stream_close(reader)
    return Stream(
        path,
        rows,
        bool(counts.ended),
        (int(counts.end_a), int(counts.end_b)),
        int(counts.bytes),
        int(counts.chunks),
        int(counts.unknown_records),
    )


def _allocate(counts: Any) -> tuple[dict[str, npt.NDArray[Any]], Any, list[Any]]:
    """Arrays of exactly the rows counted, the struct that points at them, and its buffers."""
    rows: dict[str, npt.NDArray[Any]] = {}
    arrays, keep = ffi.new("xp_arrays *"), []
    for name, (length, dtype) in _ARRAYS.items():
        rows[name] = np.empty(int(getattr(counts, length)), dtype)
        if rows[name].size:
            buffer = ffi.from_buffer(rows[name].view(np.uint8), require_writable=True)
            keep.append(buffer)
            setattr(arrays, name, ffi.cast(_POINTERS[name], buffer))
    return rows, arrays, keep


_AGAIN = "copy the run directory again, or record it again"
_DAMAGED = "{path} is damaged at byte {offset}: "
_MESSAGES = {
    lib.XP_E_OPEN: "{path} cannot be opened: {why}",
    lib.XP_E_READ: "{path} cannot be read at byte {offset}: {why}",
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
        tag=_TAGS[stream].get(a, "unknown"),
        why=os.strerror(a) if code in (lib.XP_E_OPEN, lib.XP_E_READ) else "",
    )
    return StreamError(message, code, offset)


# ---- writing -------------------------------------------------------------------------------------


def varint(value: int) -> bytes:
    """Unsigned LEB128."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def varints(values: Iterable[int]) -> bytes:
    """Several varints."""
    return b"".join(map(varint, values))


def text(value: str) -> bytes:
    """varint length + UTF-8."""
    data = value.encode()
    return varint(len(data)) + data


def u64(value: int) -> bytes:
    """Eight bytes, little-endian."""
    return value.to_bytes(8, "little")


class StreamWriter:
    """Writes a stream file record by record, with the runtime's own writer.

    As a context it closes the stream in order; after an exception it leaves it as a killed process
    does. Raises TraceError when the file cannot be made or written.
    """

    def __init__(self, path: Path, stream: int) -> None:
        self.path = path
        self._writer = lib.xp_stream_create(os.fsencode(path), stream)
        if self._writer == ffi.NULL:
            why = os.strerror(ffi.errno) if ffi.errno else errno.errorcode[errno.EIO]
            raise TraceError(f"{path} cannot be made: {why}")

    def put(self, tag: int, body: bytes, slice: int | None = None) -> None:
        """Appends one record; `slice` widens the chunk's range of slices."""
        number = (1 << 64) - 1 if slice is None else slice
        if lib.xp_stream_put(self._writer, tag, body, len(body), number) < 0:
            raise TraceError(f"{self.path} cannot be written; is the disk full?")

    def seal(self) -> None:
        """Ends the chunk under way."""
        lib.xp_stream_seal(self._writer)

    def close(self) -> None:
        """Closes the stream in order; write END before."""
        lib.xp_stream_finish(self._writer)

    def abandon(self) -> None:
        """Lets go of the stream as it is."""
        lib.xp_stream_abandon(self._writer)

    def __enter__(self) -> StreamWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        (self.abandon if kind else self.close)()
