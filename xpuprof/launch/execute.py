# SPDX-License-Identifier: Apache-2.0
"""Executions of the user's program, recorded in a run directory: the profile and the timer runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from xpuprof.engines.base import Ahead, CpuEngine, GpuEngine, Mode, Timer, recording
from xpuprof.engines.filters import (
    EVERYTHING,
    VARIABLES,
    Filters,
    check_engines,
    starts_natively,
)
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
from xpuprof.trace.run_writer import RunWriter

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
    return _execute(
        writer, _Execution("profile", "profile", "async", program, source, user, again, started)
    )


def first(writer: RunWriter, program: Program, source: Input) -> Ending:
    """The user's execution when others follow: native, stamped, with our own streams.

    It may find the device runtime's kernel cache cold; the others find it warm.
    """
    return _execute(writer, _Execution("first", "first", "async", program, source, True, True))


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
    return _execute(
        writer, _Execution(f"time-{number}", "time", timer, program, source, user, again)
    )


@dataclass(frozen=True)
class _Execution:
    """One execution to record; fields as the parameters of `profile` and `time`."""

    name: str
    role: str
    timer: Timer
    program: Program
    source: Input
    user: bool
    again: bool
    started: Started = nothing

    @property
    def mode(self) -> Mode:
        return "profile" if self.role == "profile" else "time"

    @property
    def cpu(self) -> CpuEngine | None:
        return self.program.cpu if self.mode == "profile" else None

    @property
    def filters(self) -> Filters:
        filters = self.program.filters
        return filters if self.mode == "profile" else filters.of_timer_runs()

    def record(self) -> dict[str, object]:
        """What the manifest says of it from the start."""
        program, instrumented = self.program, self.mode == "profile"
        return {
            "name": self.name,
            "role": self.role,
            "cpu_engine": self.cpu.name if self.cpu else "none",
            "gpu_engine": program.gpu.name if program.gpu else "none",
            "timer": "" if instrumented else self.timer,
            "filters": self.filters.record(),
            "gpu_tool": str(program.gpu_tool.path) if program.gpu_tool else "",
            "fallbacks": list(program.fallbacks) if instrumented else [],
        }


@dataclass
class _Outcome:
    """What is known so far of an execution: its ending, what its recording lost, and, while it has
    no ending, why."""

    ending: Ending | None = None
    lost: Sequence[str] = ()
    why: str = "the program could not be started"


def _execute(writer: RunWriter, execution: _Execution) -> Ending:
    folder = writer.begin_execution(execution.record())
    outcome = _Outcome()
    with _kept(writer, execution.name, folder, outcome), ExitStack() as stack:
        _supervise(stack, execution, folder, outcome)
    assert outcome.ending is not None
    return outcome.ending


@contextmanager
def _kept(writer: RunWriter, name: str, folder: Path, outcome: _Outcome) -> Iterator[None]:
    """Writes down what became of an execution, also when it fails or is interrupted."""
    try:
        yield
    except OSError as error:
        raise OutputError(
            f"{folder} cannot be recorded ({error.strerror}); free disk, descriptors or processes"
        ) from None
    except KeyboardInterrupt:
        outcome.why = "xpuprof was stopped before the execution was recorded"
        raise
    finally:
        writer.end_execution(name, _result(outcome))
        if outcome.ending is None:
            writer.finish("partial", outcome.why)


def _supervise(stack: ExitStack, execution: _Execution, folder: Path, outcome: _Outcome) -> None:
    """Runs the program; `outcome` is told as soon as something is known."""
    program = execution.program
    signs = stack.enter_context(losses(folder))
    environment = _environment(stack, execution, folder) | signs.environment
    argv, environment = _under_engines(execution, environment, folder)
    ours = stack.enter_context(streams(execution.source, folder, execution.user, execution.again))
    given = argv if argv != program.argv else [program.name or argv[0], *argv[1:]]
    watched = stack.enter_context(unseen(program.gpu.footprint() if program.gpu else None))
    limit = stack.enter_context(size_limit(folder, program.max_size))
    hidden = stack.enter_context(WATCH.get()(folder, execution.role, execution.user))
    ending = outcome.ending = run(argv[0], given, environment, ours, hidden, execution.started)
    if execution.user:
        remember(ending)
    found = signs.sentences()
    # Further executions would be recorded no better than this one.
    full = any(DISK_FULL in sentence for sentence in found) or bool(limit and limit.reached)
    outcome.ending = replace(ending, full=full)
    at_limit = limit.sentences() if limit else []
    outcome.lost = [*at_limit, *found, *(watched.sentences(folder) if watched else ())]


def _under_engines(
    execution: _Execution, environment: dict[str, str], folder: Path
) -> tuple[list[str], dict[str, str]]:
    """The command line of the program under the CPU engine and the GPU tool, if any, and its
    environment."""
    program, cpu, tool = execution.program, execution.cpu, execution.program.gpu_tool
    argv = program.argv
    if cpu:
        cold = program.gpu is not None and not program.gpu.runtime_is_native()
        typed = program.name or argv[0]
        options = replace(
            execution.filters.cpu_options(),
            program_name=typed,
            native_start_up=starts_natively(cpu, program.gpu, execution.filters),
            cold_runtime=cold,
        )
        argv, more = cpu.wrap(argv, tool.cpu_options(options) if tool else options, folder)
        environment = environment | more | {_ENV_TRANSLATED: cpu.name}
    if tool:
        argv, more = tool.load(argv, environment, cpu)
        environment = environment | more
    return argv, environment


def _environment(stack: ExitStack, execution: _Execution, folder: Path) -> dict[str, str]:
    program, mode, timer = execution.program, execution.mode, execution.timer
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


def _result(outcome: _Outcome) -> dict[str, object]:
    ending = outcome.ending
    if ending is None:
        return {"status": "partial", "reason": outcome.why}
    killed = [f"the program was ended by {signal_name(ending.signal)}"] if ending.signal else []
    reasons = [*killed, *outcome.lost]
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
