# SPDX-License-Identifier: Apache-2.0
"""Starts one execution of the user's program and waits for it. The program gets, once, every signal
that it would get without us; its exit code or signal is reported unchanged."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace

from xpuprof.errors import UsageError
from xpuprof.launch.ending import Ending
from xpuprof.launch.forward import Forwarder
from xpuprof.launch.start import Start, ignored_signals
from xpuprof.launch.streams import Streams
from xpuprof.launch.watch import Hidden
from xpuprof.trace.clock import tsc

Started = Callable[[], None]


def nothing() -> None:
    """Does nothing."""


def run(
    path: str,
    argv: Sequence[str],
    environment: Mapping[str, str],
    streams: Streams,
    hidden: Hidden = nullcontext,
    started: Started = nothing,
) -> Ending:
    """Runs the program at `path` to its end. `hidden`: around a stop of ours; `started` is called
    when the program runs. Raises UsageError when the system cannot start it."""
    in_main_thread = threading.current_thread() is threading.main_thread()
    ignored = ignored_signals()
    with Forwarder(hidden) if in_main_thread else nullcontext() as signals:
        try:
            program = Start(path, argv, environment, streams, ignored)
            if signals:
                signals.settle(program)
            began = time.monotonic()
            tsc_start = tsc()
            program.go()
        except OSError as error:
            raise UsageError(
                f"{path} cannot be started: {error.strerror}; try it without xpuprof first"
            ) from None
        started()
        status = signals.wait(program.pid) if signals else os.waitpid(program.pid, 0)[1]
        tsc_end = tsc()
        wall = time.monotonic() - began
    killed = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
    code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -1
    ending = Ending(program.pid, code, killed, tsc_start, tsc_end, wall)
    if signals is None:
        return ending
    late = signals.late and not killed
    return replace(ending, stop=signals.stop, late=late, handled=signals.handled)
