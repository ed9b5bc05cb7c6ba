# SPDX-License-Identifier: Apache-2.0
"""Combines a run's selection, slice times and projection into one Result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from xpuprof.arrays import F64
from xpuprof.errors import InputError
from xpuprof.estimation.estimate import Estimate
from xpuprof.estimation.intervals import estimate_measured
from xpuprof.estimation.measured import Measured, gathered
from xpuprof.estimation.projection import Accuracy, accuracy, time_speedup
from xpuprof.estimation.shares import Share, shares_of
from xpuprof.estimation.typical_times import Repeats, typical_times
from xpuprof.launch.ending import exit_doubts
from xpuprof.selection.selection import Selection
from xpuprof.signals import signal_name
from xpuprof.trace.processes import Job, job_of
from xpuprof.trace.run import Run
from xpuprof.trace.spilled import Spilled
from xpuprof.trace.tables import Execution
from xpuprof.validation.native_times import (
    Mismatch,
    different_sequences,
    native_times,
    times_on,
)
from xpuprof.validation.phases import unseen_phases
from xpuprof.validation.reliability import unreliable_projection
from xpuprof.workflow.noise import disturbed


@dataclass(frozen=True)
class Result:
    """A profiled, timed and selected run, with the slices of all processes, so that times add up
    over processes."""

    folder: Path
    argv: tuple[str, ...]
    status: str
    reason: str
    exit_code: int
    job: Job
    timer_runs: tuple[Execution, ...]
    selection: Selection
    typical: Measured
    """Typical times over the timer runs, seconds."""
    totals: tuple[float, ...]
    """Time of the whole program in each timer run, seconds."""
    estimate: Estimate
    shares: tuple[Share, ...] = ()
    """Each process's part; empty for a single process."""
    untimed: frozenset[int] = frozenset()
    """Representatives that most timer runs lacked, which have no time."""
    doubts: tuple[str, ...] = ()
    """Reasons to doubt the run, one sentence each."""
    unreliable: tuple[str, ...] = ()
    """Why the sampling error does not say how good the selection is, one sentence each."""

    @property
    def execution(self) -> Execution:
        """The profiled execution."""
        return self.job.execution

    @property
    def times(self) -> F64:
        """float64[repeats, slices], seconds, read from the run directory."""
        return np.stack([times_on(self.job, execution)[0] for execution in self.timer_runs])

    @property
    def walls(self) -> Sequence[float]:
        """Duration of each timer run in seconds."""
        return [execution.record.wall_s or 0.0 for execution in self.timer_runs]

    @property
    def measured(self) -> float:
        """Native time of the whole program, seconds: that of the median run (for two, the mean)."""
        return self.typical.total

    @property
    def accuracy(self) -> Accuracy:
        """How well the selection projects the typical times."""
        return accuracy(self.selection, self.typical, self.estimate.value)

    @property
    def time_speedup(self) -> float:
        """Native time of the whole program over that of the representatives."""
        return time_speedup(self.selection, self.typical)


def evaluate(run: Run, selection: Selection) -> Result:
    """Projects the whole run's time from the representatives' times.

    Slices are aligned if a timer run launched another sequence; one that has no times for them is
    left out. Raises InputError: no profile, no timer run with times, or one that a signal ended; or
    the selection is another profile's.
    """
    if run.profile is None:
        raise InputError(f"{run.path} holds no profile; make one with: xpuprof run -- ./app args")
    if not run.times:
        raise InputError(f"{run.path} holds no timer run; make one with: xpuprof run -- ./app args")
    job = job_of(run.profile)
    if job.sums.slices != selection.slices:
        raise InputError(
            f"the profile in {run.path} has {job.sums.slices} slices, the selection "
            f"{selection.slices}; choose again with: xpuprof select {run.path}"
        )
    unseen = unseen_phases(job.processes, run.times, selection)
    with Spilled() as kept:
        timed = _timed(run, job, kept)
        repeats = Repeats(kept.length, kept.sums, kept.read)
        typical, known = gathered(selection, repeats)
        shares: tuple[Share, ...] = ()
        if job.several:
            shares = shares_of(job.keys, selection, typical_times(repeats))
    totals, found = tuple(repeats.totals.tolist()), estimate_measured(selection, typical, known)
    return Result(
        folder=run.path,
        argv=tuple(run.manifest["argv"]),
        status=run.status,
        reason=run.reason,
        exit_code=run.profile.record.exit_code or 0,
        job=job,
        timer_runs=timed.runs,
        selection=selection,
        typical=typical,
        totals=totals,
        estimate=found,
        shares=shares,
        untimed=_untimed(selection, typical, timed.mismatches),
        doubts=(*doubts(run, totals), *timed.left_out),
        unreliable=(
            *different_sequences(timed.mismatches),
            *unseen,
            *unreliable_projection(selection, known, len(timed.runs), found),
        ),
    )


@dataclass(frozen=True)
class _Timed:
    """The timer runs with times for the profile's slices, how their launches differ, and a sentence
    on each of the others."""

    runs: tuple[Execution, ...]
    mismatches: tuple[Mismatch | None, ...]
    left_out: tuple[str, ...]


def _timed(run: Run, job: Job, kept: Spilled) -> _Timed:
    """Adds the times of each timer run to `kept`."""
    _refuse_killed(run)
    runs: list[Execution] = []
    mismatches: list[Mismatch | None] = []
    left_out: list[str] = []
    first = ""
    for native in native_times(job, run.times):
        if native.times is None:
            left_out.append(native.left_out)
            first = first or native.reason
            continue
        kept.add(native.times)
        runs.append(native.execution)
        mismatches.append(native.mismatch)
        del native  # its times, before the next run's are read
    if not runs:
        raise InputError(f"{run.path} has no timer run with times: {first}")
    return _Timed(tuple(runs), tuple(mismatches), tuple(left_out))


def _untimed(
    selection: Selection, typical: Measured, mismatches: Sequence[Mismatch | None]
) -> frozenset[int]:
    if all(mismatch is None or mismatch.matched == mismatch.slices for mismatch in mismatches):
        return frozenset()
    return frozenset(r.slice for r in selection.representatives if not typical.of[r.slice])


def _refuse_killed(run: Run) -> None:
    for execution in run.times:
        if killed := execution.record.signal:
            raise InputError(
                f"{execution.name} was ended by {signal_name(killed)}, so it has no time to "
                "compare with; record the program again, or choose without it: "
                f"xpuprof select {run.path}"
            )


def doubts(run: Run, totals: Sequence[float]) -> tuple[str, ...]:
    """Reasons to doubt a run and its timer runs, one sentence each. `totals`: the time of each
    timer run, seconds."""
    partial = [f"the run is {run.status}: {run.reason}"] if run.reason else []
    codes = [execution.record.exit_code or 0 for execution in run.executions[:1]]
    ended = [sentence for code in codes for sentence in exit_doubts(code)]
    return (*partial, *ended, *_not_in_sync(run), *disturbed(totals))


def _not_in_sync(run: Run) -> list[str]:
    """A sentence if `--timer sync` gave up waiting for kernels."""
    processes = (process for execution in run.executions for process in execution.processes)
    if not any("not_in_sync" in process.meta for process in processes):
        return []
    return [
        "a kernel waited for the program, so --timer sync waited for it and the kernels after it "
        "only briefly; use --timer async"
    ]
