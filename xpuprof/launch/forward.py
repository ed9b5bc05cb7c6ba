"""Forwards signals: what is sent to us alone is sent to the program. What the whole process group
gets (from the terminal, from `timeout`) reaches the program by itself and must not come twice."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from types import TracebackType
from typing import Any

from xpuprof.launch.witness import Witness

# Not forwarded: what cannot be caught, faults of our own, limits on our own CPU time and files, our
# own writes, and what the terminal sends to the whole group for work in the background.
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


def _caught(number: int, frame: object) -> None:
    """The byte that Python writes into the pipe is what counts."""


class Forwarder:
    """Catches signals from before the program is started until it has ended.

    A signal that is ignored stays so: the program inherits that and ignores it, too.
    """

    stop: int | None = None
    """The first signal that asked us to stop, whatever the program made of it."""

    def __enter__(self) -> Forwarder:
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        self._witness = Witness()
        self._before: dict[int, Any] = {n: signal.getsignal(n) for n in _FORWARDED}
        self._wakeup = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        for number, handler in self._before.items():
            if handler not in (signal.SIG_IGN, None):
                signal.signal(number, _caught)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        signal.set_wakeup_fd(self._wakeup)
        for number, handler in self._before.items():
            if handler is not None:
                signal.signal(number, handler)
        self._witness.close()
        os.close(self._read)
        os.close(self._write)

    def wait(self, pid: int) -> int:
        """Waits for the program, which was just started; gives its status."""
        signal.signal(signal.SIGCHLD, _caught)  # ignored, it would have the status thrown away
        self._witness.forget()  # what came before the program was there, reached us alone
        while True:
            done, status = os.waitpid(pid, os.WNOHANG | os.WUNTRACED)
            if done and os.WIFSTOPPED(status):
                self._stop_like(os.WSTOPSIG(status))
            elif done:
                return status
            for number in os.read(self._read, 512):
                if number != signal.SIGCHLD:
                    self._forward(pid, number)

    def _forward(self, pid: int, number: int) -> None:
        if number in _STOPS:
            self.stop = self.stop or number
        if not self._witness.saw(number):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)

    def _stop_like(self, number: int) -> None:
        """Stops as the program did, so that the shell sees it; returns when told to go on."""
        caught = number in self._before and self._before[number] != signal.SIG_IGN
        if caught:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        if caught:
            signal.signal(number, _caught)
