# SPDX-License-Identifier: Apache-2.0
"""The whole method in one go: profile, time, select, and compare with the native time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from xpuprof.engines.base import Ahead, Timer
from xpuprof.engines.filters import EVERYTHING, Filters
from xpuprof.errors import InputError, TraceError, UsageError
from xpuprof.launch import execute
from xpuprof.launch.ending import Ending, exit_doubts
from xpuprof.launch.finish import finish, launched_nothing, no_process, none_chosen
from xpuprof.methods import registry
from xpuprof.scratch import scratch
from xpuprof.trace.run import Run
from xpuprof.trace.window import never_opened
from xpuprof.workflow.arguments import LARGEST_SEED, Processes, one_of, whole_number
from xpuprof.workflow.loading import Loading
from xpuprof.workflow.prepare import (
    Notes,
    Prepared,
    Say,
    prepare,
    recording,
    refuse_within_job,
    run_folder,
    silently,
)
from xpuprof.workflow.repeats import Repeat, timer_runs
from xpuprof.workflow.unseen import no_kernel

if TYPE_CHECKING:
    from xpuprof.selection.selection import Selection
    from xpuprof.workflow.evaluate import Result


@dataclass(frozen=True)
class Ran:
    """A run that was profiled, timed and selected from, as far as it got."""

    run: Run
    ending: Ending
    """How the user's execution ended."""
    last: Ending
    """How the last execution ended."""
    result: Result | None = None
    """Selection, times and estimate; None if the executions were cut short."""
    unfinished: str = ""
    """Why there is no result."""
    notes: tuple[str, ...] = ()

    @property
    def doubts(self) -> tuple[str, ...]:
        """Reasons to doubt the result, one sentence each."""
        return self.result.doubts if self.result else ()

    @property
    def selection(self) -> Selection | None:
        """The selection, as in RUN/selection.json."""
        return self.result.selection if self.result else None


def run(
    argv: Sequence[str],
    *,
    output: str | Path | None = None,
    force: bool = False,
    cpu: str = "auto",
    gpu: str = "auto",
    filters: Filters = EVERYTHING,
    gpu_tool: str | None = None,
    max_size: int | None = None,
    timer: Timer = "async",
    repeat: Repeat = "auto",
    method: str | None = None,
    memory_weight: float | None = None,
    processes: Processes = "job",
    seed: int = 1,
    say: Say = silently,
) -> Ran:
    """Find slices that represent the whole program, and project its native time from theirs.

    The first execution is native and gets our standard streams; the profile and `repeat` timer runs
    follow, and write into the run directory. `repeat` may be "auto" (docs/launch.md): 3 to 5 native
    times of every slice, the first execution's among them if it is like the others. `method`: how
    slices are chosen, None for the default; `memory_weight`: the share of stack distances in its
    vectors, with `filters.memory`; `processes`: one selection for the whole job (`job`), or one per
    process (`each`). A method that clusters vectors gets as many representatives of each cluster as
    the measured times require (conclude.py), if there are enough timer runs. Other parameters
    and errors as in `profile` and `time`.
    """
    refuse_within_job("run executes it several times")
    one_of("timer", timer, get_args(Timer))
    one_of("processes", processes, get_args(Processes))
    if repeat != "auto":
        whole_number("repeat", repeat, 1)
    whole_number("seed", seed, 0, LARGEST_SEED)
    method = registry.default() if method is None else method
    options = _signature(method, memory_weight, filters.memory)
    notes = Notes(say)
    ready = prepare(
        argv,
        folder=run_folder(output, argv),
        force=force,
        cpu=cpu,
        gpu=gpu,
        filters=filters,
        gpu_tool=gpu_tool,
        max_size=max_size,
        say=notes,
        seed=seed,
    )
    with recording(ready), _paired(ready) as paired:
        first = execute.first(ready.writer, paired.program, ready.source)
        if first.undisturbed and (unseen := _unseen(ready)):
            for sentence in exit_doubts(first.exit_code):
                notes(sentence)
            done = finish(ready.writer, ready.folder, reason=unseen)
            return Ran(done, first, first, None, unseen, tuple(notes.kept))
        last = _profile(paired, first, notes)
        useless = _useless(ready, last)
        if not useless:
            last = timer_runs(ready, first, last, timer, repeat)
        done = finish(ready.writer, ready.folder, last.stop)
    if useless or done.profile is None or not done.times or not last.undisturbed:
        return Ran(done, first, last, None, _unfinished(done), tuple(notes.kept))
    from xpuprof.workflow.conclude import conclude  # loaded during the profile

    try:
        result = conclude(done, method, options, processes=processes, seed=seed, say=notes)
    except InputError:
        if not done.reason:
            raise
        # An execution that failed has other slices, or none; its reason says more than that.
        return Ran(done, first, last, None, _unfinished(done), tuple(notes.kept))
    return Ran(done, first, last, result, "", tuple(notes.kept))


def _signature(method: str, memory_weight: float | None, recorded: bool) -> Mapping[str, Any]:
    """Options of the signature, checked before anything runs."""
    declared = registry.find(method)
    if memory_weight is None:
        return {}
    if not declared.clusters:
        raise UsageError(f"--memory-weight is for clustering methods; {method} has no signature")
    if not 0.0 <= memory_weight <= 1.0:
        raise UsageError(f"--memory-weight must lie between 0 and 1, not {memory_weight:g}")
    if memory_weight > 0.0 and not recorded:
        raise UsageError("--memory-weight requires stack distances: add --memory")
    return {"memory_weight": memory_weight}


@contextmanager
def _paired(ready: Prepared) -> Iterator[Prepared]:
    """The same executions, of which the first leaves for the profile what it will have compiled, if
    it counts all kernels under a CPU engine (which makes compilation slow)."""
    program = ready.program
    filters = program.filters
    partly = filters.window or filters.kernels or filters.memory
    if program.cpu is None or program.gpu is None or partly:
        yield ready
        return
    with scratch() as place:
        ahead = Ahead(Path(place), program.cpu.name)
        tooled = replace(ready.tooled, ahead=ahead)
        yield replace(ready, program=replace(program, ahead=ahead), tooled=tooled)


def _unseen(ready: Prepared) -> str:
    """Why the user's execution launched no kernel that we see, so that the others would be in vain;
    empty if it launched one, or if kernels were not asked for."""
    if ready.program.gpu is None:
        return ""
    run = ready.writer.opened()
    first = run.executions[0]
    windows = [process.window for process in first.processes]
    launches = sum(process.sums.launches for process in first.processes)
    if launches or any(window is not None and len(window.openings) for window in windows):
        return ""
    return (
        no_process(run, first)
        or never_opened(first.processes)
        or no_kernel(first.record, first.losses, ready.program.argv[0])
    )


def _profile(ready: Prepared, last: Ending, say: Say) -> Ending:
    """The profile, after the execution that ended with `last`; returns the last ending."""
    if not last.undisturbed:
        return last
    say("native run done; now the instrumented one (its output goes to a file)")
    # Native runs show and time only the program: GPU tools print, and cost time.
    loading = Loading("xpuprof.workflow.conclude", "xpuprof.trace.recorded_tables")
    try:
        return execute.profile(
            ready.writer, ready.tooled, ready.source, user=False, started=loading.start
        )
    finally:
        loading.wait()


def _useless(ready: Prepared, last: Ending) -> str:
    """Why timing the program would be in vain after this profile; empty if it would not."""
    if not last.undisturbed:
        return ""
    try:
        first, *_, profile = ready.writer.opened().executions
    except TraceError as error:
        return str(error)
    return none_chosen(profile) or launched_nothing(first, profile)


def _unfinished(run: Run) -> str:
    lacking = "no selection was made" if run.profile else "no profile and no selection were made"
    return "; ".join([*filter(None, [run.reason]), lacking])
