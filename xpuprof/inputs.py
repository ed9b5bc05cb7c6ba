# SPDX-License-Identifier: Apache-2.0
"""The only way in for third-party files: input is checked, counted and limited.

A reader takes bytes, lines, JSON or numbers from here and trusts them. Any fault in a file is an
`InputError` that names the file, the place and the remedy.
"""

from __future__ import annotations

import io
import json
import math
import os
import re
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NoReturn

from xpuprof.errors import InputError, UsageError

if TYPE_CHECKING:
    import gzip

VARIABLE = "XPUPROF_INPUT_LIMIT"
FLOOR = 256 << 20
FACTOR = 64
"""A file may unpack to FLOOR bytes or FACTOR times its size on disk, whichever is more (text of the
profilers seen so far unpacks to 5 to 21 times). The same limit holds for what a reader keeps."""
LINE = 64
"""Bytes added for each line of packed text: short lines cost time, not space."""
NAME_COST = 256
"""Memory of a name besides its characters, in bytes."""
LONGEST_LINE = 4 << 20
"""Most characters in a line, and in a CSV row that spans lines."""
SELECTION = "xpuprof-selection"
"""The format that a selection file names in its first line."""
GZIP = b"\x1f\x8b"
SELECT_AGAIN = "make it again with `xpuprof select RUN --force`"
"""The remedy for a damaged selection file, which is in the way of a new one."""
_SIZE = re.compile(r"(\d{1,6})([KMGT]?)", re.IGNORECASE)


class Source:
    """A third-party file or folder, with limits on what may be unpacked and kept."""

    def __init__(self, path: Path, advice: str = "check its path") -> None:
        self.path = path
        self._advice = advice
        self.size = _size(path)
        """Bytes on disk."""
        self.limit = limit_of(self.size)
        self._unpacked = self._held = 0
        self._piped: bytes | None = None

    def __str__(self) -> str:
        return str(self.path)

    def refuse(self, reason: str) -> NoReturn:
        """Raises InputError: "<path> <reason>", on one line."""
        shown = "".join(c if c.isprintable() else "?" for c in " ".join(reason.split()))
        raise InputError(f"{self.path} {shown}")

    def hold(self, size: int) -> None:
        """Counts bytes that a reader keeps. Raises InputError beyond the limit."""
        self._held += size
        if self._held > self.limit:
            self._refuse_size("takes more than {} of memory to read")

    def hold_name(self, name: str) -> None:
        """Counts a name that a reader keeps, in all its lists of names."""
        self.hold(NAME_COST + 4 * len(name))

    def part(self, path: Path) -> Source:
        """A file in this folder, or beside this file; its unpacked size counts separately."""
        return Source(path)

    def head(self, size: int) -> bytes:
        """The first `size` bytes, unpacked."""
        with self.binary() as file:
            return file.read(size)

    @contextmanager
    def binary(self) -> Iterator[BinaryIO]:
        """The bytes, unpacked if the file is gzip-compressed."""
        import gzip  # would lengthen the shell's completion of formats

        with self._opened() as file:
            packed = file.read(2) == GZIP
            file.seek(0)
            raw = gzip.GzipFile(fileobj=file) if packed else file
            with io.BufferedReader(_Guarded(self, raw, packed), 1 << 18) as guarded:  # type: ignore[type-var]
                yield guarded

    @contextmanager
    def text(self) -> Iterator[io.TextIOWrapper]:
        """The text, unpacked; bytes that are not UTF-8 become replacement characters."""
        with (
            self.binary() as file,
            io.TextIOWrapper(file, encoding="utf-8-sig", errors="replace", newline="") as text,
        ):
            yield text

    @contextmanager
    def lines(self) -> Iterator[Iterator[str]]:
        """The text line by line, ends included. Raises InputError at an overlong line."""
        with self.text() as text:
            yield self._lines(text)

    def json(self) -> object:
        """The file as JSON."""
        with self.text() as text:
            return parse_json(text.read(), self.path)

    def unpacked(self, size: int) -> None:
        """Counts bytes unpacked from a file. Raises InputError beyond the limit."""
        self._unpacked += size
        if self._unpacked > self.limit:
            self._refuse_size("unpacks to more than {}")

    def _opened(self) -> BinaryIO:
        """The file; for a pipe, which can be read only once, the data kept from it."""
        if self._piped is None:
            file = _open(self.path, self._advice)
            if not stat.S_ISFIFO(os.fstat(file.fileno()).st_mode):
                return file
            with file:
                self._piped = _up_to(file, FLOOR)
            self.unpacked(len(self._piped))
        return io.BytesIO(self._piped)

    def _lines(self, text: io.TextIOWrapper) -> Iterator[str]:
        read = partial(text.readline, LONGEST_LINE)
        for number, line in enumerate(iter(read, ""), start=1):
            if len(line) == LONGEST_LINE and line[-1] not in "\r\n":
                self.refuse(
                    f"is not a text table: line {number} is longer than {LONGEST_LINE >> 20} M "
                    "characters; export it again"
                )
            yield line

    def _refuse_size(self, what: str) -> NoReturn:
        self.refuse(
            f"{what.format(f'{self.limit >> 20} MiB')}, so it is damaged or not a profile; if it "
            f"is genuine, set {VARIABLE}, as in {VARIABLE}={max(self.limit >> 30, 1) * 4}G"
        )


class _Guarded(io.RawIOBase):
    """Reads from a file and counts unpacked bytes; InputError if reading fails."""

    def __init__(self, source: Source, file: BinaryIO | gzip.GzipFile, packed: bool) -> None:
        self._source, self._file, self._packed = source, file, packed

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        try:
            data = self._file.read(len(buffer))
        except (OSError, EOFError, zlib.error) as error:
            self._source.refuse(f"cannot be read: {_reason(error)}; copy it again")
        if self._packed:
            self._source.unpacked(len(data) + LINE * (data.count(b"\n") + data.count(b"\r")))
        buffer[: len(data)] = data
        return len(data)


def is_selection(path: Path) -> bool:
    """Whether a file begins as a selection does: it was probably named by mistake."""
    try:
        with path.open("rb") as file:
            return SELECTION.encode() in file.read(64)
    except OSError:
        return False


def read_text(path: Path, what: str, most: int = FLOOR) -> str:
    """A whole text file. Raises InputError when it cannot be read, is larger than `most` bytes or
    not UTF-8; `what` names its kind and remedy, as in "a selection file: make one with ..."."""
    try:
        with _open(path, f"name {what}") as file:
            data = _up_to(file, most)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {_reason(error)}; name {what}") from None
    if len(data) > most:
        raise InputError(f"{path} is larger than {most >> 20} MiB; name {what}")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise InputError(f"{path} is not text; name {what}") from None


def parse_json(text: str, name: object) -> object:
    """Text as JSON. Raises InputError if it is not valid."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise InputError(f"{name} is not valid JSON ({reason}); write it again") from None


def whole(value: object, low: int, high: int) -> int | None:
    """The integer from `low` to `high` in a JSON value or a text; None for anything else."""
    try:
        number = int(value)  # type: ignore[call-overload]
    except (TypeError, ValueError, OverflowError):
        return None
    return number if low <= number <= high else None


def finite(value: object) -> float | None:
    """The finite number in a JSON value or a text; None for anything else."""
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _open(path: Path, advice: str) -> BinaryIO:
    """Opens a regular file or a pipe. Devices are refused: they may have no end."""
    try:
        # Without O_NONBLOCK, opening a named pipe that has no writer would block for ever.
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {_reason(error)}; {advice}") from None
    mode = os.fstat(handle).st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
        os.close(handle)
        raise InputError(f"{path} is a folder or a device, not a file; {advice}")
    os.set_blocking(handle, True)
    return os.fdopen(handle, "rb")


def _up_to(file: BinaryIO, most: int) -> bytes:
    """A file's bytes, a little more than `most` if there are more. read(most) would allocate
    `most`."""
    data = bytearray()
    while len(data) <= most and (part := file.read(1 << 20)):
        data += part
    return bytes(data)


def _size(path: Path) -> int:
    try:
        files = path.iterdir() if path.is_dir() else [path]
        return sum(file.stat().st_size for file in files)
    except (OSError, ValueError):
        return 0


def limit_of(size: int) -> int:
    """Bytes that a file of `size` bytes may unpack to, or take when read."""
    if text := os.environ.get(VARIABLE):
        found = _SIZE.fullmatch(text.strip())
        if not found:
            raise UsageError(f"{VARIABLE}={text} is not a size; give one such as 4G")
        return int(found[1]) << 10 * " KMGT".index(found[2].upper() or " ")
    return max(FLOOR, FACTOR * size)


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
