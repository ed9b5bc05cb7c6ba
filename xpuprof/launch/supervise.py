"""Starts one execution of the user's program and waits for its end. Signals that reach us are
passed on; exit code or signal are reported as they were."""

from __future__ import annotations

import os
import resource
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType

from xpuprof.errors import UsageError
from xpuprof.launch.streams import Streams
from xpuprof.trace.clock import tsc

# Python ignores these at start-up; the program must find them as usual.
_TO_DEFAULT = [signal.SIGPIPE, signal.SIGXFSZ]

_PASSED_ON = [
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGWINCH,
    signal.SIGCONT,
]

_STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


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
    began = time.monotonic()
    tsc_start = tsc()
    try:
        pid = os.posix_spawn(
            argv[0], list(argv), dict(environment), file_actions=actions, setsigdef=_TO_DEFAULT
        )
    except OSError as error:
        raise UsageError(
            f"{argv[0]} cannot be started: {error.strerror}; try it without xpuprof first"
        ) from None
    with _passing_on(pid) as stops:
        _, status = os.waitpid(pid, 0)
    tsc_end = tsc()
    killed = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
    code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -1
    wall = time.monotonic() - began
    return Ending(pid, code, killed, tsc_start, tsc_end, wall, stops[0] if stops else None)


@contextmanager
def _passing_on(pid: int) -> Iterator[list[int]]:
    """Passes signals on to the program while it runs; gives those that asked us to stop. An
    interrupt from the terminal reaches the program by itself (same process group), so it is only
    passed on when it cannot have."""
    stops: list[int] = []

    def pass_on(number: int, _: FrameType | None) -> None:
        if number in _STOPS:
            stops.append(number)
        if number == signal.SIGINT and from_terminal:
            return
        with suppress(ProcessLookupError):
            os.kill(pid, number)

    from_terminal = _in_foreground()
    before = {number: signal.signal(number, pass_on) for number in (*_PASSED_ON, signal.SIGINT)}
    try:
        yield stops
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _in_foreground() -> bool:
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


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
