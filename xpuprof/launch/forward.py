# SPDX-License-Identifier: Apache-2.0
"""Forwards signals that are sent to us alone. A signal to the whole process group (from the
terminal, from `timeout`) reaches the program directly and must not arrive twice."""

from __future__ import annotations

import os
import select
import signal
import time
from contextlib import suppress
from types import TracebackType
from typing import Any

from xpuprof.launch.start import Start, in_set, is_running
from xpuprof.launch.watch import Hidden
from xpuprof.launch.witness import Witness

# Not forwarded: signals that cannot be caught, our own faults, limits on our own CPU time and
# files, our own writes, and what the terminal sends to a whole background group.
_OURS = {
    signal.SIGKILL,
    signal.SIGSTOP,
    signal.SIGSEGV,
    signal.SIGBUS,
    signal.SIGFPE,
    signal.SIGILL,
    signal.SIGTRAP,
    signal.SIGSYS,
    signal.SIGXCPU,
    signal.SIGXFSZ,
    signal.SIGPIPE,
    signal.SIGTTIN,
    signal.SIGTTOU,
}
_FORWARDED = [number for number in signal.valid_signals() if number not in _OURS]
_STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_HANDLED = ("SigBlk", "SigIgn", "SigCgt")
# `timeout` signals us and then our group; the program may have ended in between.
_REPEAT_S = 0.2


class Forwarder:
    """Catches signals from before the program starts until after it has ended.

    An ignored signal stays ignored, in the program too.
    """

    stop: int | None = None
    """The first signal that asked us to stop, however the program handled it."""
    late = False
    """Whether that signal came too late to end the program, which has ended by itself."""
    handled = False
    """Whether the program went on with that signal."""
    _alone = False
    """Whether it reached us alone, so that it was forwarded, when it last came."""

    def __init__(self, hidden: Hidden) -> None:
        self._hidden = hidden
        self._caught: list[int] = []

    def __enter__(self) -> Forwarder:
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        self._witness = Witness()
        self._before: dict[int, Any] = {n: signal.getsignal(n) for n in _FORWARDED}
        self._wakeup = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        for number, handler in self._before.items():
            if handler not in (signal.SIG_IGN, None) or number == signal.SIGCHLD:
                signal.signal(number, self._catch)  # ignoring SIGCHLD would lose the status
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._absorb_repeat()
        self._caught.clear()
        signal.set_wakeup_fd(self._wakeup)
        for number, handler in self._before.items():
            if handler is not None:
                signal.signal(number, handler)
        for number in [*self._received(0), *self._caught]:
            self._note_stop(number)
        self._witness.close()
        os.close(self._read)
        os.close(self._write)

    def _catch(self, number: int, frame: object) -> None:
        """Counts only once Python no longer writes a byte for each signal into our pipe, from which
        we read them in order."""
        self._caught.append(number)

    def settle(self, program: Start) -> None:
        """Sends the signals that arrived before the program started, unless it has them already."""
        for number in self._received(0):
            self._witness.saw(number)  # discards it: the waiting process knows for certain
            self._note_stop(number, program.pid)
            if not program.has(number):
                _send(program.pid, number)

    def wait(self, pid: int) -> int:
        """Waits for the program; returns its wait status."""
        while True:
            done, status = os.waitpid(pid, os.WNOHANG | os.WUNTRACED)
            if done and os.WIFSTOPPED(status):
                self._stop_like(os.WSTOPSIG(status))
            elif done:
                return status
            for number in self._received(None):
                alone = not self._witness.saw(number)
                self._note_stop(number, pid, alone)
                if alone:
                    _send(pid, number)
                if number == self.stop:
                    self._alone = alone

    def _received(self, timeout: float | None) -> list[int]:
        """Signals that reached us, in order; with `timeout` None, waits for one."""
        if not select.select([self._read], [], [], timeout)[0]:
            return []
        return [number for number in os.read(self._read, 512) if number != signal.SIGCHLD]

    def _note_stop(self, number: int, pid: int = 0, alone: bool = True) -> None:
        """Notes a request to stop that reaches process `pid`; 0: it has ended. `alone`: the process
        does not have it yet."""
        if number in _STOPS and self.stop is None:
            self.stop = number
            # A handler may serve once (LLVM's of SIGQUIT) and be gone by now. A process that has
            # the signal and still runs has handled it, or is dying of it. One that is ending may
            # have handled it, if it could; a process drops signals while its memory is freed.
            could = bool(pid) and in_set(pid, number, *_HANDLED)
            self.handled = bool(pid) and is_running(pid) and (could or not alone)
            self.late = not (could or self.handled)

    def _absorb_repeat(self) -> None:
        """Waits for the second of the two signals, which asks for nothing new."""
        end = time.monotonic() + (_REPEAT_S if self._alone else 0)
        while (left := end - time.monotonic()) > 0 and self.stop not in self._received(left):
            pass

    def _stop_like(self, number: int) -> None:
        """Stops as the program did, so that the shell sees it; returns when continued."""
        caught = number in self._before and self._before[number] != signal.SIG_IGN
        if caught:
            signal.signal(number, signal.SIG_DFL)
        with self._hidden():
            os.kill(os.getpid(), number)
        if caught:
            signal.signal(number, self._catch)


def _send(pid: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
