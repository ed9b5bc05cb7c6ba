# SPDX-License-Identifier: Apache-2.0
"""The program's standard streams over several executions.

One execution is the user's: it gets our own streams, untouched. The others read the same input and
write to files in the run directory.
"""

from __future__ import annotations

import errno
import os
import select
import stat
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


def in_thread(work: Callable[..., None], *arguments: object) -> threading.Thread:
    """Starts a thread that does not keep us from ending. Raises OSError."""
    thread = threading.Thread(target=work, args=arguments, daemon=True)
    try:
        thread.start()
    except RuntimeError:
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN)) from None
    return thread


@dataclass(frozen=True)
class Streams:
    """Descriptors for a child; None: inherit ours."""

    stdin: int | None = None
    stdout: int | None = None
    stderr: int | None = None


class Input:
    """Our standard input, for several executions.

    A file is reopened at its original offset. Data from a pipe is kept while the user's execution
    reads it. A terminal cannot be replayed: later executions read nothing.
    """

    def __init__(self) -> None:
        try:
            mode = os.fstat(0).st_mode
        except OSError:  # closed
            mode = 0
        self._is_file = stat.S_ISREG(mode)
        self._is_pipe = stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
        self._offset = os.lseek(0, 0, os.SEEK_CUR) if self._is_file else 0
        # Lives until we end: later executions read it.
        self._kept = tempfile.TemporaryFile() if self._is_pipe else None  # noqa: SIM115

    @contextmanager
    def for_user(self, again: bool) -> Iterator[int | None]:
        """Input of the user's execution; `again`: later executions need the same input."""
        if not (again and self._is_pipe):
            yield None
            return
        read_end, write_end = os.pipe()
        stop_read, stop_write = os.pipe()
        relay = in_thread(self._relay, write_end, stop_read)
        try:
            yield read_end
        finally:
            os.close(read_end)
            os.close(stop_write)
            relay.join()
            os.close(stop_read)

    def _relay(self, write_end: int, stop: int) -> None:
        assert self._kept is not None
        to_child = True
        while True:
            ready, _, _ = select.select([0, stop], [], [])
            if stop in ready:
                break
            data = os.read(0, 65536)
            if not data:
                break
            self._kept.write(data)
            if to_child:
                to_child = self._write_all(write_end, data)
        os.close(write_end)

    @staticmethod
    def _write_all(descriptor: int, data: bytes) -> bool:
        try:
            while data:
                data = data[os.write(descriptor, data) :]
        except BrokenPipeError:
            return False
        return True

    @contextmanager
    def repeated(self) -> Iterator[int]:
        """The same input for another execution."""
        if self._is_file:
            descriptor = os.open("/proc/self/fd/0", os.O_RDONLY)
            os.lseek(descriptor, self._offset, os.SEEK_SET)
        elif self._kept is not None:
            self._kept.flush()
            descriptor = os.open(f"/proc/self/fd/{self._kept.fileno()}", os.O_RDONLY)
        else:
            descriptor = os.open(os.devnull, os.O_RDONLY)
        try:
            yield descriptor
        finally:
            os.close(descriptor)


@contextmanager
def streams(source: Input, folder: Path, user: bool, again: bool) -> Iterator[Streams]:
    """The streams of one execution; `user`: it is the one that the user sees."""
    if user:
        with source.for_user(again) as stdin:
            yield Streams(stdin=stdin)
        return
    with (
        source.repeated() as stdin,
        open(folder / "stdout", "wb") as out,
        open(folder / "stderr", "wb") as err,
    ):
        yield Streams(stdin, out.fileno(), err.fileno())
