# SPDX-License-Identifier: Apache-2.0
"""Tells a signal that the whole process group got from one that was sent to us alone.

The kernel does not say which it was. A second process of our group that blocks every signal knows:
what it finds pending went to the group, so the program has it, too. The kernel signals the newest
process of a group first, so the witness has a signal by the time we do.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress

_ALL = signal.valid_signals()


class Witness:
    """A process of our group. Where none can be started, every signal counts as ours alone."""

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
        """Did the whole group get this signal? Each time that it did is told once."""
        try:
            os.write(self._ask, bytes([number]))
            return os.read(self._hear, 1) == b"\1"
        except BrokenPipeError:
            return False

    def close(self) -> None:
        """Ends the process."""
        os.close(self._ask)
        os.close(self._hear)
        if self._pid:
            with suppress(ChildProcessError):  # whoever ignores SIGCHLD has nobody to wait for
                os.waitpid(self._pid, 0)


def _watch(asked: int, answers: int) -> None:
    """The witness's life: it answers until our end of the pipe is closed, by our death if need be.
    It keeps no other descriptor: an end of a pipe that stayed open here would never read as
    closed."""
    keep = sorted((asked, answers))
    os.closerange(0, keep[0])
    os.closerange(keep[0] + 1, keep[1])
    os.closerange(keep[1] + 1, os.sysconf("SC_OPEN_MAX"))
    try:
        while question := os.read(asked, 1):
            os.write(answers, bytes([signal.sigtimedwait(question, 0) is not None]))
    finally:
        os._exit(0)
