# SPDX-License-Identifier: Apache-2.0
"""Writes stream files record by record, with the runtime's writer and without an engine."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

from xpuprof._bridge import ffi, lib

from xpuprof.errors import TraceError


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
    """Write a stream file record by record, with the runtime's writer.

    As a context manager it closes the stream in order; after an exception it leaves it like a
    killed process. Raises TraceError when the file cannot be made or written.
    """

    def __init__(self, path: Path, stream: int) -> None:
        self.path = path
        self._writer = lib.xp_stream_create(os.fsencode(path), stream)
        if self._writer == ffi.NULL:
            why = os.strerror(ffi.errno) if ffi.errno else errno.errorcode[errno.EIO]
            raise TraceError(f"{path} cannot be made: {why}")

    def put(self, tag: int, body: bytes, slice: int | None = None) -> None:
        """Append one record; `slice` extends the chunk's range of slices."""
        number = (1 << 64) - 1 if slice is None else slice
        if lib.xp_stream_put(self._writer, tag, body, len(body), number) < 0:
            raise TraceError(f"{self.path} cannot be written; is the disk full?")

    def seal(self) -> None:
        """End the current chunk."""
        lib.xp_stream_seal(self._writer)

    def close(self) -> None:
        """Close the stream in order; write END first."""
        lib.xp_stream_finish(self._writer)

    def abandon(self) -> None:
        """Release the stream without closing it."""
        lib.xp_stream_abandon(self._writer)

    def __enter__(self) -> StreamWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        (self.abandon if kind else self.close)()
