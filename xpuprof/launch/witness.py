# SPDX-License-Identifier: Apache-2.0
"""Distinguishes a signal to the whole process group from one to us alone.

The kernel does not say which it was. A second process in our group blocks every signal: a signal
pending there went to the group, so the program has it too. The kernel signals the newest process of
a group first, so the witness has the signal by the time we do.

The witness outlives us if we are killed. It then lets the terminal's last row scroll again.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from itertools import pairwise

from xpuprof.launch.watch import LAST_ROW, giving_back

_ALL = signal.valid_signals()
_BOTTOM = 999  # terminals take their last row for rows beyond it


class Witness:
    """A process in our group. If it cannot be started, every signal counts as sent to us alone."""

    def __init__(self) -> None:
        asked, self._ask = os.pipe()
        self._hear, answers = os.pipe()
        self._pid = 0
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, _ALL)
        try:
            self._pid = os.fork()
            if self._pid == 0:
                _watch(asked, answers)
        except OSError:  # no more processes allowed
            pass
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            os.close(asked)
            os.close(answers)

    def saw(self, number: int) -> bool:
        """Whether the whole group got this signal; each occurrence is reported once."""
        try:
            os.write(self._ask, bytes([number]))
            return os.read(self._hear, 1) == b"\1"
        except BrokenPipeError:
            return False

    def close(self) -> None:
        """Ends the process, before it takes the end of the pipe for our death."""
        if self._pid:
            with suppress(ChildProcessError, ProcessLookupError):  # reaped: SIGCHLD is ignored
                os.kill(self._pid, signal.SIGKILL)
                os.waitpid(self._pid, 0)
        os.close(self._ask)
        os.close(self._hear)


def _watch(asked: int, answers: int) -> None:
    """Answers until we die. Every descriptor but stderr is closed: a pipe whose end stayed open
    here would never read as closed."""
    for kept, following in pairwise([-1, *sorted({2, asked, answers}), os.sysconf("SC_OPEN_MAX")]):
        os.closerange(kept + 1, following)
    try:
        while question := os.read(asked, 1):
            os.write(answers, bytes([signal.sigtimedwait(question, 0) is not None]))
        if LAST_ROW[0]:
            os.write(2, giving_back(_BOTTOM).encode())
    finally:
        os._exit(0)
