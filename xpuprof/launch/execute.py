# SPDX-License-Identifier: Apache-2.0
"""Executions of the user's program, recorded in a run directory: the profile and the timer runs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from xpuprof.engines.base import Ahead, CpuEngine, GpuEngine, Mode, Timer, recording
from xpuprof.engines.filters import EVERYTHING, VARIABLES, Filters, check_engines
from xpuprof.engines.gpu_tool import GpuTool
from xpuprof.engines.native import native_file
from xpuprof.errors import OutputError
from xpuprof.launch.ending import Ending, remember
from xpuprof.launch.environment import given_environment
from xpuprof.launch.losses import losses
from xpuprof.launch.size_limit import size_limit
from xpuprof.launch.streams import Input, streams
from xpuprof.launch.supervise import Started, nothing, run
from xpuprof.launch.unseen import unseen
from xpuprof.launch.watch import WATCH
from xpuprof.signals import signal_name
from xpuprof.trace.clock import ENV_CLOCK
from xpuprof.trace.clock import source as source_of_stamps
from xpuprof.trace.losses import DISK_FULL
from xpuprof.trace.run import RunWriter

# boundary.h
_ENV_RUNTIME, _ENV_TRANSLATED = "XPUPROF_RUNTIME", "XPUPROF_TRANSLATED"
RUNTIME = "libxpuprof_rt.so"


@dataclass(frozen=True)
class Program:
    """What is executed, and with which engines."""

    argv: list[str]
    cpu: CpuEngine | None
    gpu: GpuEngine | None
    filters: Filters = EVERYTHING
    gpu_tool: GpuTool | None = None
    fallbacks: tuple[str, ...] = ()
    """Why better engines were passed over, one sentence each; kept in the manifest."""
    name: str = ""
    """argv[0] of the program, as the user named it; empty: its path."""
    max_size: int | None = None
    """Bytes of an execution's traces at which its recording ends; None: no limit."""
    ahead: Ahead | None = None
    """As in GpuOptions."""

    def __post_init__(self) -> None:
        check_engines(self.cpu, self.gpu, self.filters)


def profile(
    writer: RunWriter,
    program: Program,
    source: Input,
    *,
    user: bool,
    again: bool = False,
    started: Started = nothing,
) -> Ending:
    """The instrumented execution. `user`: it gets our own streams; `again`: later executions read
    the same input; `started` is called when the program runs. Raises EngineError or UsageError, and
    only before the program starts.
    """
    return _execute(writer, "profile", "profile", "async", program, source, user, again, started)


def first(writer: RunWriter, program: Program, source: Input) -> Ending:
    """The user's execution when others follow: native, stamped, with our own streams.

    It may find the device runtime's kernel cache cold; the others find it warm.
    """
    return _execute(writer, "first", "first", "async", program, source, True, True)


def time(
    writer: RunWriter,
    program: Program,
    source: Input,
    timer: Timer,
    number: int,
    *,
    user: bool,
    again: bool = False,
) -> Ending:
    """The `number`-th timer run: native, with a stamp at every boundary; no CPU engine."""
    return _execute(writer, f"time-{number}", "time", timer, program, source, user, again)


def _execute(
    writer: RunWriter,
    name: str,
    role: str,
    timer: Timer,
    program: Program,
    source: Input,
    user: bool,
    again: bool,
    started: Started = nothing,
) -> Ending:
    mode: Mode = "profile" if role == "profile" else "time"
    cpu = program.cpu if mode == "profile" else None
    tool = program.gpu_tool
    filters = program.filters if mode == "profile" else program.filters.of_timer_runs()
    folder = writer.begin_execution(
        {
            "name": name,
            "role": role,
            "cpu_engine": cpu.name if cpu else "none",
            "gpu_engine": program.gpu.name if program.gpu else "none",
            "timer": timer if mode == "time" else "",
            "filters": filters.record(),
            "gpu_tool": str(tool.path) if tool else "",
            "fallbacks": list(program.fallbacks) if mode == "profile" else [],
        }
    )
    ending: Ending | None = None
    lost: list[str] = []
    why = "the program could not be started"
    try:
        with ExitStack() as stack:
            signs = stack.enter_context(losses(folder))
            environment = _environment(stack, program, mode, timer, folder) | signs.environment
            argv = program.argv
            if cpu:
                cold = program.gpu is not None and not program.gpu.runtime_is_native()
                typed = program.name or argv[0]
                options = replace(filters.cpu_options(), program_name=typed, cold_runtime=cold)
                argv, more = cpu.wrap(argv, tool.cpu_options(options) if tool else options, folder)
                environment |= more | {_ENV_TRANSLATED: cpu.name}
            if tool:
                argv, more = tool.load(argv, environment, cpu)
                environment |= more
            ours = stack.enter_context(streams(source, folder, user, again))
            given = argv if argv != program.argv else [program.name or argv[0], *argv[1:]]
            watched = stack.enter_context(unseen(program.gpu.footprint() if program.gpu else None))
            limit = stack.enter_context(size_limit(folder, program.max_size))
            hidden = stack.enter_context(WATCH.get()(folder, role, user))
            ending = run(argv[0], given, environment, ours, hidden, started)
            if user:
                remember(ending)
            found = signs.sentences()
            # Further executions would be recorded no better than this one.
            full = any(DISK_FULL in sentence for sentence in found)
            if limit:
                full |= limit.reached
                lost = limit.sentences()
            ending = replace(ending, full=full)
            lost += [*found, *(watched.sentences(folder) if watched else ())]
    except OSError as error:
        raise OutputError(
            f"{folder} cannot be recorded ({error.strerror}); free disk, descriptors or processes"
        ) from None
    except KeyboardInterrupt:
        why = "xpuprof was stopped before the execution was recorded"
        raise
    finally:
        writer.end_execution(name, _result(ending, lost, why))
        if ending is None:
            writer.finish("partial", why)
    return ending


def _environment(
    stack: ExitStack, program: Program, mode: Mode, timer: Timer, folder: Path
) -> dict[str, str]:
    # An xpuprof around us may have set filters of its own.
    environment = {k: v for k, v in given_environment().items() if k not in VARIABLES}
    environment |= program.filters.environment()
    environment |= recording(mode, timer, folder)
    environment[ENV_CLOCK] = source_of_stamps()
    environment[_ENV_RUNTIME] = str(native_file(RUNTIME))
    gpu = program.gpu
    options = replace(program.filters.gpu_options(), ahead=program.ahead)
    if gpu:
        environment |= gpu.environment(mode, timer, folder, options)
        environment |= stack.enter_context(gpu.start_services(mode, folder, options))
    return environment


def _result(ending: Ending | None, lost: Sequence[str], unstarted: str) -> dict[str, object]:
    if ending is None:
        return {"status": "partial", "reason": unstarted}
    killed = [f"the program was ended by {signal_name(ending.signal)}"] if ending.signal else []
    reasons = [*killed, *lost]
    return {
        "status": "partial" if reasons else "complete",
        "reason": "; ".join(reasons),
        "pid": ending.pid,
        "exit_code": ending.exit_code,
        "signal": ending.signal,
        "tsc_start": ending.tsc_start,
        "tsc_end": ending.tsc_end,
        "wall_s": ending.wall_s,
    }
