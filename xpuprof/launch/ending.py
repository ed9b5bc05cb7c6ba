# SPDX-License-Identifier: Apache-2.0
"""How the user's program ended, and how we end after it."""

from __future__ import annotations

import os
import resource
import signal
from dataclasses import dataclass
from typing import NoReturn


@dataclass(frozen=True)
class Ending:
    """How the program ended: `exit_code`, or -1 and the `signal` that killed it. Stamps are ticks
    just before the start and just after the wait. `stop` is the signal that asked us to stop
    meanwhile, however the program handled it; `late`: it came too late for the program; `handled`:
    the program went on with it. Neither is known of a program that catches it and was ending when
    we looked. `full`: the recording ended before the program, at the size that the user allows or
    on a full disk."""

    pid: int
    exit_code: int
    signal: int | None
    tsc_start: int
    tsc_end: int
    wall_s: float
    stop: int | None = None
    late: bool = False
    handled: bool = False
    full: bool = False

    @property
    def undisturbed(self) -> bool:
        """The program ended on its own, was recorded to its end, and no signal asked us to stop
        meanwhile."""
        return self.signal is None and self.stop is None and not self.full


_of_user: Ending | None = None


def remember(ending: Ending) -> None:
    """Records the end of the user's execution: whatever fails from here on, we end as it did."""
    global _of_user
    _of_user = ending


def remembered() -> Ending | None:
    """The ending of the user's execution; None before it has ended."""
    return _of_user


def end_like(ending: Ending) -> int:
    """Returns the program's exit code as ours; does not return when a signal killed it."""
    return ending.exit_code if ending.signal is None else end_by(ending.signal)


def is_interrupt(error: BaseException | None) -> bool:
    """An interrupt asked us to stop. Python hands it on as the cause of another error when it came
    while a class was made: `__set_name__` in 3.11."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__
    return error is not None


def exit_doubts(exit_code: int) -> list[str]:
    """A sentence if the program reported a failure; none otherwise, or when it was killed."""
    if exit_code <= 0:
        return []
    return [f"the program ended with exit code {exit_code}; is it the run you meant?"]


def end_after(first: Ending, last: Ending, *, has_result: bool = True) -> int:
    """Our exit code after several executions: that of the first, which was the user's. We end by a
    signal that asked us to stop after that; or that left us without a result, if the program
    succeeded and perhaps did not handle it: LLVM, for one, catches SIGINT in every program that
    compiles a kernel."""
    if last.stop is None:
        return end_like(first)
    came_after = last is not first or last.late
    in_vain = not has_result and not last.handled and first.exit_code == 0
    return end_by(last.stop) if came_after or in_vain else end_like(first)


def end_by(number: int) -> NoReturn:
    """Ends this process by a signal, so that a shell sees it."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the program left its core, if any
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [number])
    os.kill(os.getpid(), number)
    os._exit(128 + number)  # the signal's default action is to do nothing
