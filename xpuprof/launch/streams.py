# SPDX-License-Identifier: Apache-2.0
"""The program's standard streams over several executions.

One execution is the user's: it gets our own streams, untouched. The others read the same input and
write to files in the run directory.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import select
import socket
import stat
import struct
import tempfile
import termios
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

_LIBC = ctypes.CDLL(None)
_SPLICE_F_NONBLOCK = 2
_PIPE = 65536
_SHORTEST_PAUSE_S, _LONGEST_PAUSE_S = 0.0002, 0.05
"""Between two looks at how much was read; the kernel does not tell when."""


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
    reads it; what that leaves stays in the pipe. A terminal cannot be replayed: later executions
    read nothing.
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
        self._failure: OSError | None = None

    @contextmanager
    def for_user(self, again: bool) -> Iterator[int | None]:
        """Input of the user's execution; `again`: later executions need the same input."""
        if not (again and self._is_pipe):
            yield None
            return
        assert self._kept is not None
        read_end, write_end = os.pipe()
        stop_read, stop_write = os.pipe()
        relay = Relay(read_end, write_end, self._kept)
        thread = in_thread(relay.run, stop_read)
        try:
            yield read_end
        finally:
            os.close(stop_write)
            thread.join()
            relay.close()
            self._failure = relay.failure
            os.close(stop_read)
            os.close(read_end)

    @contextmanager
    def repeated(self) -> Iterator[int]:
        """The same input for another execution. Raises OSError if it could not be kept."""
        if self._failure:
            raise self._failure
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


class Relay:
    """Passes our input on to a pipe and keeps it, but takes no more of it than was read there: the
    rest is for whoever reads our input next, such as the loop of a shell around us.

    The pipe's content is always the beginning of what our input holds.
    """

    failure: OSError | None = None
    """Why the input was not kept."""
    _sent = 0
    """Bytes in the pipe, as far as we know, that our input still holds."""

    def __init__(self, read_end: int, write_end: int, kept: IO[bytes]) -> None:
        self._read_end, self._write_end, self._kept = read_end, write_end, kept
        self._copy = os.pipe()
        os.set_blocking(write_end, False)  # a program need not read

    def close(self) -> None:
        for descriptor in self._copy:
            os.close(descriptor)

    def run(self, stop: int) -> None:
        """Until the input ends, or `stop` is readable; then the pipe is closed."""
        try:
            self._pass_on(stop)
        except OSError as error:
            self.failure = error
        finally:
            os.close(self._write_end)

    def _pass_on(self, stop: int) -> None:
        pause = _SHORTEST_PAUSE_S
        while True:
            # Our input stays readable as long as the pipe is not read.
            waits, limit = ([stop], pause) if self._sent else ([0, stop], None)
            ready, _, _ = select.select(waits, [], [], limit)
            progress = self._take()
            held = self._peek()
            if stop in ready or held == b"":
                break
            progress += self._send(held[self._sent :]) if held else 0
            pause = _SHORTEST_PAUSE_S if progress else min(2 * pause, _LONGEST_PAUSE_S)
        self._keep(held or b"")  # later executions find as much as this one did

    def _take(self) -> int:
        """Takes from our input what was read from the pipe; bytes."""
        (left,) = struct.unpack("i", fcntl.ioctl(self._read_end, termios.FIONREAD, b"\0" * 4))
        taken: int = self._sent - left
        wanted = taken
        # Another reader of our input may have been first; we must not wait for it.
        while wanted and select.select([0], [], [], 0)[0] and (data := os.read(0, wanted)):
            self._keep(data)
            wanted -= len(data)
        self._sent = left
        return taken

    def _send(self, data: bytes) -> int:
        try:
            sent = os.write(self._write_end, data)
        except BlockingIOError:
            return 0
        self._sent += sent
        return sent

    def _keep(self, data: bytes) -> None:
        try:
            self._kept.write(data)
        except OSError as error:
            self.failure = error

    def _peek(self) -> bytes | None:
        """What our input holds, without taking it: up to a pipe's usual size. Empty at its end;
        None if there is nothing yet."""
        if stat.S_ISSOCK(os.fstat(0).st_mode):
            with socket.socket(fileno=os.dup(0)) as ours, suppress(BlockingIOError):
                return ours.recv(_PIPE, socket.MSG_PEEK | socket.MSG_DONTWAIT)
            return None
        read_end, write_end = self._copy
        copied = _LIBC.tee(0, write_end, ctypes.c_size_t(_PIPE), _SPLICE_F_NONBLOCK)
        if copied < 0:
            return None
        return os.read(read_end, copied) if copied else b""


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
