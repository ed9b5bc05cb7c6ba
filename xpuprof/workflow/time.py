# SPDX-License-Identifier: Apache-2.0
"""Native executions of the user's program with a time stamp at every boundary."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import numpy as np

from xpuprof.engines.base import Timer
from xpuprof.engines.filters import EVERYTHING, Filters
from xpuprof.errors import UsageError
from xpuprof.estimation.typical_times import typical_times
from xpuprof.launch import execute
from xpuprof.launch.ending import Ending, exit_doubts
from xpuprof.launch.finish import finish, no_process
from xpuprof.trace.processes import Job, job_of
from xpuprof.trace.run import Run
from xpuprof.trace.sequence import STEADY, VARIES
from xpuprof.trace.window import never_opened
from xpuprof.workflow.arguments import one_of, whole_number
from xpuprof.workflow.noise import disturbed
from xpuprof.workflow.prepare import (
    Notes,
    Say,
    prepare,
    recording,
    refuse_within_job,
    run_folder,
    silently,
)
from xpuprof.workflow.unseen import no_kernel

if TYPE_CHECKING:
    from xpuprof.selection.selection import Selection
    from xpuprof.validation.regions import RegionTime


@dataclass(frozen=True)
class TimedRuns:
    """Timed native runs."""

    run: Run
    ending: Ending
    """How the user's execution ended."""
    last: Ending
    """How the last execution ended."""
    slices: int = 0
    seconds: tuple[float, ...] = ()
    """Time of the whole program in each run; empty if the runs were cut short, or neither window
    nor chosen processes were seen."""
    regions: tuple[RegionTime, ...] | None = None
    """Times of the requested regions."""
    notes: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    """Reasons to doubt the times, one sentence each."""

    @property
    def measured(self) -> float:
        """Native time of the whole program, seconds: that of the median run (for two, the mean)."""
        return float(typical_times(np.array([[total] for total in self.seconds])).sum())


def time(
    argv: Sequence[str],
    *,
    output: str | Path | None = None,
    force: bool = False,
    gpu: str = "auto",
    filters: Filters = EVERYTHING,
    gpu_tool: str | None = None,
    max_size: int | None = None,
    timer: Timer = "async",
    repeat: int = 5,
    regions: Selection | str | Path | None = None,
    kernels: Sequence[str] = (),
    warmup: int = 0,
    say: Say = silently,
) -> TimedRuns:
    """Run the program natively, `repeat` times, and time every slice.

    The first execution gets our standard streams, the others write into the run directory.
    `regions`: report the times of this selection's regions; `kernels`: times of kernel calls,
    `NAME:CALL[:COUNT]`; `warmup`: also of this many slices before each. Other parameters and errors
    as in `profile`.
    """
    one_of("timer", timer, get_args(Timer))
    whole_number("repeat", repeat, 1)
    whole_number("warmup", warmup, 0)
    if warmup and not (regions or kernels):
        raise UsageError("--warmup requires --regions or --kernel; add one of them")
    times_of = _regions(regions, kernels, warmup, filters) if regions or kernels else None
    if repeat > 1:
        refuse_within_job(f"--repeat is {repeat}")
    notes = Notes(say)
    ready = prepare(
        argv,
        folder=run_folder(output, argv),
        force=force,
        cpu=None,
        gpu=gpu,
        filters=filters,
        gpu_tool=gpu_tool,
        max_size=max_size,
        say=notes,
    )
    endings: list[Ending] = []
    with recording(ready):
        for number in range(repeat):
            if not endings or endings[-1].undisturbed:
                endings.append(
                    execute.time(
                        ready.writer,
                        ready.tooled,
                        ready.source,
                        timer,
                        number,
                        user=not number,
                        again=repeat > 1,
                    )
                )
        run = finish(ready.writer, ready.folder, endings[-1].stop if repeat > 1 else None)
    first = run.times[0]
    unseen = endings[-1].undisturbed and (no_process(run, first) or never_opened(first.processes))
    if run.reason and not unseen:
        notes(f"the run is {run.status}: {run.reason}")
    if unseen or not endings[-1].undisturbed:
        return TimedRuns(run, endings[0], endings[-1], notes=tuple(notes.kept))
    jobs = [job_of(execution) for execution in run.times]
    totals = tuple(float(job.times().sum()) for job in jobs)
    doubts = exit_doubts(endings[0].exit_code)
    if ready.program.gpu and not (filters.window or run.reason or jobs[0].sums.launches):
        record = jobs[0].execution.record
        doubts.append(no_kernel(record, jobs[0].execution.losses, ready.program.argv[0]))
    else:
        doubts += [*_varying(jobs), *disturbed(totals)]
    found, of_regions = times_of(run) if times_of else (None, ())
    return TimedRuns(
        run,
        endings[0],
        endings[-1],
        jobs[0].sums.slices,
        totals,
        found,
        tuple(notes.kept),
        tuple(dict.fromkeys([*doubts, *of_regions])),
    )


def _varying(jobs: Sequence[Job]) -> list[str]:
    """A sentence if the runs launched other kernels, or in another order."""
    if all(job.launched_like(jobs[0]) for job in jobs):
        return []
    sizes = sorted({job.sums.slices for job in jobs})
    between = f" ({sizes[0]:,} to {sizes[-1]:,} slices)" if len(sizes) > 1 else ""
    return [f"{VARIES}{between}, so slice times of different runs cannot be averaged; {STEADY}"]


def _regions(
    regions: Selection | str | Path | None, kernels: Sequence[str], warmup: int, filters: Filters
) -> Callable[[Run], tuple[tuple[RegionTime, ...], tuple[str, ...]]]:
    """What finds the times of the requested regions, and reasons to doubt them; read and checked
    before the program runs."""
    # These load pandas, without which the program starts sooner.
    from xpuprof.selection.selection import Selection
    from xpuprof.validation.regions import named_regions, parse_spec, selected_regions
    from xpuprof.validation.timed import from_executions, require_same_part

    chosen = Selection.read(regions) if isinstance(regions, str | Path) else regions
    if chosen:
        require_same_part(chosen, filters.window, "this run")
    specs = [parse_spec(text) for text in kernels]

    def found(run: Run) -> tuple[tuple[RegionTime, ...], tuple[str, ...]]:
        timed = from_executions("this run", run.times)
        own = selected_regions(chosen, timed, warmup) if chosen else []
        return (*own, *named_regions(specs, timed, warmup)), timed.doubts

    return found
