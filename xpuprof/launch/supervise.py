"""Starts one execution of the user's program and waits for its end. The program gets every signal
that it would get without us, once; exit code or signal are reported as they were."""

from __future__ import annotations

import os
import resource
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

from xpuprof.errors import UsageError
from xpuprof.launch.forward import Forwarder
from xpuprof.launch.streams import Streams
from xpuprof.trace.clock import tsc

# Python ignores these at start-up; the program must find them as usual.
_TO_DEFAULT = [signal.SIGPIPE, signal.SIGXFSZ]


@dataclass(frozen=True)
class Ending:
    """How the program ended: `exit_code`, or -1 and the `signal` that killed it. Stamps are ticks
    just before it was started and just after it was waited for. `stop` is the signal by which we
    were asked to stop meanwhile, whatever the program made of it."""

    pid: int
    exit_code: int
    signal: int | None
    tsc_start: int
    tsc_end: int
    wall_s: float
    stop: int | None = None

    @property
    def undisturbed(self) -> bool:
        """The program came to its own end, and nobody asked us to stop meanwhile."""
        return self.signal is None and self.stop is None


def run(argv: Sequence[str], environment: Mapping[str, str], streams: Streams) -> Ending:
    """Runs `argv` to its end. Raises UsageError when the system refuses to start it."""
    actions: list[tuple[int, int, int]] = [
        (os.POSIX_SPAWN_DUP2, descriptor, target)
        for target, descriptor in enumerate((streams.stdin, streams.stdout, streams.stderr))
        if descriptor is not None
    ]

    def start() -> int:
        try:
            return os.posix_spawn(
                argv[0], list(argv), dict(environment), file_actions=actions, setsigdef=_TO_DEFAULT
            )
        except OSError as error:
            raise UsageError(
                f"{argv[0]} cannot be started: {error.strerror}; try it without xpuprof first"
            ) from None

    in_main_thread = threading.current_thread() is threading.main_thread()
    with Forwarder() if in_main_thread else nullcontext() as signals:
        began = time.monotonic()
        tsc_start = tsc()
        pid = start()
        status = signals.wait(pid) if signals else os.waitpid(pid, 0)[1]
        tsc_end = tsc()
        wall = time.monotonic() - began
    killed = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
    code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -1
    return Ending(pid, code, killed, tsc_start, tsc_end, wall, signals.stop if signals else None)


def end_like(ending: Ending) -> int:
    """Our own exit code after the program's; does not return when a signal killed it."""
    return ending.exit_code if ending.signal is None else _end_by(ending.signal)


def exit_doubts(ending: Ending) -> list[str]:
    """That the program reported a failure, as a sentence; none otherwise, or when it was killed."""
    if ending.exit_code <= 0:
        return []
    return [f"the program ended with exit code {ending.exit_code}; is it the run you meant?"]


def end_after(first: Ending, last: Ending) -> int:
    """Our own exit code after several executions, the first of which was the user's: that one's,
    unless we were asked to stop in a later one; then we end by the signal that asked."""
    if last is first or last.stop is None:
        return end_like(first)
    return _end_by(last.stop)


def _end_by(number: int) -> int:
    """Ends this process by a signal, as a shell would see it; does not return."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the program left its core, if any
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    return 128 + number
