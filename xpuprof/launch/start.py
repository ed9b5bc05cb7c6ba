# SPDX-License-Identifier: Apache-2.0
"""A process that is about to become the user's program. It waits with all signals blocked until we
know which of them reached it directly; then it executes the program."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from xpuprof.launch.streams import Streams

_ALL = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
# Python ignores these at start-up; the program must get their default actions.
_BY_PYTHON = {signal.SIGPIPE, signal.SIGXFSZ}


def ignored_signals() -> set[int]:
    """Signals that were ignored when we started; the program ignores them too."""
    return {n for n in _ALL - _BY_PYTHON if signal.getsignal(n) == signal.SIG_IGN}


def in_set(pid: int, number: int, *names: str) -> bool:
    """Whether a signal is in one of these sets of a process."""
    fields = _status(pid)
    return any(int(fields.get(name, "0"), 16) >> (number - 1) & 1 for name in names)


def is_running(pid: int) -> bool:
    """Whether a process has not begun to end: it gives up its memory then."""
    return "VmSize" in _status(pid)


def _status(pid: int) -> dict[str, str]:
    """What /proc says of a process (proc(5), status)."""
    lines = Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines()
    return dict(line.split(":", 1) for line in lines)


class Start:
    """The waiting process. Raises OSError when it cannot be created."""

    def __init__(
        self,
        path: str,
        argv: Sequence[str],
        environment: Mapping[str, str],
        streams: Streams,
        ignored: set[int],
    ) -> None:
        gate, self._gate = os.pipe()
        self._failure, failure = os.pipe()
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, _ALL)
        try:
            self.pid = os.fork()
            if self.pid == 0:
                os.close(self._gate)
                _become(path, argv, environment, streams, ignored, mask, gate, failure)
        except OSError:
            os.close(self._gate)
            os.close(self._failure)
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            os.close(gate)
            os.close(failure)

    def has(self, number: int) -> bool:
        """Whether this signal reached the waiting process directly."""
        return in_set(self.pid, number, "ShdPnd")

    def go(self) -> None:
        """Executes the program. If the system refuses, the process has ended; raises OSError."""
        os.write(self._gate, b"g")
        os.close(self._gate)
        with open(self._failure, "rb") as file:
            number = file.read()
        if number:
            os.waitpid(self.pid, 0)
            raise OSError(int(number), os.strerror(int(number)))


def _become(
    path: str,
    argv: Sequence[str],
    environment: Mapping[str, str],
    streams: Streams,
    ignored: set[int],
    mask: set[int],
    gate: int,
    failure: int,
) -> None:
    try:
        for number in _ALL:
            signal.signal(number, signal.SIG_IGN if number in ignored else signal.SIG_DFL)
        for target, descriptor in enumerate((streams.stdin, streams.stdout, streams.stderr)):
            if descriptor is not None:
                os.dup2(descriptor, target)
        if os.read(gate, 1):
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            os.execve(path, list(argv), environment)
    except OSError as error:
        os.write(failure, str(error.errno).encode())
    finally:
        os._exit(127)
