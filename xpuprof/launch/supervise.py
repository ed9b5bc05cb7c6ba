"""Starts one execution of the user's program and waits for its end. The program gets every signal
that it would get without us, once; exit code or signal are reported as they were."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext

from xpuprof.errors import UsageError
from xpuprof.launch.ending import Ending
from xpuprof.launch.forward import Forwarder
from xpuprof.launch.streams import Streams
from xpuprof.trace.clock import tsc

# Python ignores these at start-up; the program must find them as usual.
_TO_DEFAULT = [signal.SIGPIPE, signal.SIGXFSZ]


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
