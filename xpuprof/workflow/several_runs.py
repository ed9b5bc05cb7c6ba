# SPDX-License-Identifier: Apache-2.0
"""Several runs as one subject: ranks that were profiled one by one, or many programs.

The executor's workers open the runs; only descriptions, times and markers travel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from xpuprof.arrays import F64, I64
from xpuprof.clustering.executors import Executor
from xpuprof.clustering.points import Source
from xpuprof.errors import InputError
from xpuprof.estimation.further_runs import SliceTimes
from xpuprof.methods.block_vectors import RecordedVectors
from xpuprof.methods.profile import SliceProfile, markers_of
from xpuprof.methods.recorded import from_processes
from xpuprof.selection.identity import Identity, Program, SelectedWindow
from xpuprof.selection.selection import Marker
from xpuprof.trace.coordinates import JobLayout
from xpuprof.trace.imported import ImportedSlices
from xpuprof.trace.joined_times import join, profiled
from xpuprof.trace.kinds import Key, LaunchSequence
from xpuprof.trace.processes import labels_of, slices_of
from xpuprof.trace.run import Run
from xpuprof.trace.sequence import joined_sequences, launch_sequence
from xpuprof.trace.tables import Process
from xpuprof.workflow.subjects import (
    Subject,
    identity_of,
    profiled_job,
    require_slices,
    run_times,
)


@dataclass(frozen=True)
class RunSource:
    """A process of a run directory as a `Source`: workers open it by its path."""

    path: str
    number: int
    label: str

    @property
    def name(self) -> str:
        """The run, and the process if it has several."""
        return f"{self.path}:{self.label}" if self.label else self.path

    def process(self) -> Process:
        """The process."""
        return profiled_job(Run.open(self.path)).processes[self.number]


@dataclass(frozen=True, eq=False)
class DistributedSlices:
    """Slices of processes that an executor opens; their tables stay with its workers."""

    name: str
    sources: Sequence[Source]
    layout: JobLayout
    executor: Executor
    timed: SliceTimes | None = None

    @property
    def times(self) -> F64 | None:
        """The typical times."""
        return self.timed.typical if self.timed else None

    @property
    def vectors(self) -> RecordedVectors:
        """The vectors of all processes."""
        return RecordedVectors(self.sources, self.executor)

    def markers(self, rows: I64) -> list[Marker]:
        """The markers of `rows`, from the runs that have them."""
        owners = self.owners(rows)
        some = np.unique(owners).tolist()
        wanted = [rows[owners == owner] - self.layout.first(owner) for owner in some]
        handles = self.executor.map(_markers, [self.sources[owner] for owner in some], wanted)
        found = dict(zip(some, map(iter, self.executor.results(handles)), strict=True))
        return [next(found[owner]) for owner in owners.tolist()]

    def owners(self, rows: I64) -> I64:
        """The process of each row, from the processes' numbers of slices."""
        return np.searchsorted(np.cumsum(self.layout.lengths), rows, side="right")

    def at_hand(self) -> SliceProfile:
        """All processes read into this process."""
        processes = [source.process() for source in self.sources]
        table = slices_of(processes)
        profile = from_processes(table, processes, name=self.name)
        return replace(profile, times=self.times, timed=self.timed)


def _markers(source: Source, rows: I64) -> list[Marker]:
    return markers_of(source.process().slices, rows)


@dataclass(frozen=True)
class _DescribedProcess:
    source: RunSource
    key: Key
    sequence: LaunchSequence


@dataclass(frozen=True, eq=False)
class _DescribedRun:
    """What a selection over several runs must know about one of them; `times` per process."""

    identity: Identity
    processes: list[_DescribedProcess]
    times: list[F64] | None
    doubts: Sequence[str]

    @property
    def command(self) -> str:
        """The program's name."""
        program = self.identity.program
        return Path(next(iter(program.arguments if program else ()), "")).name


def open_runs(paths: Sequence[str], executor: Executor, timed: Sequence[Path] = ()) -> Subject:
    """Every process of several run directories as one subject. `timed`: folders of timer runs,
    instead of the runs' own.

    Raises InputError if runs were profiled with different filters or windows, or one was imported.
    """
    found = list(executor.results(executor.map(_describe, paths, what="run")))
    _require_alike(paths, found)
    every = _in_order(found)
    keys = tuple(process.key for process in every)
    name = f"{len(paths)} runs" if len(paths) > 1 else paths[0]
    joined = None
    if timed:
        first = Run.open(paths[0])  # each run may have arguments of its own
        wanted = profiled(first, profiled_job(first))
        joined = join(replace(wanted, keys=keys, arguments=()), timed)
    times = joined.times if joined else _times(found)
    slices = DistributedSlices(
        name,
        [process.source for process in every],
        JobLayout(tuple(key.slices for key in keys)),
        executor,
        None if times is None else SliceTimes.of(times),
    )
    identity = replace(
        found[0].identity,
        program=_joined([run.identity.program for run in found if run.identity.program]),
        sequence=joined_sequences([process.sequence for process in every]),
        processes=keys,
    )
    if identity.window:
        identity = replace(identity, window=SelectedWindow(identity.window.spec))
    return Subject(
        Path(paths[0]),
        slices,
        times,
        keys=keys,
        identity=identity,
        joined=joined,
        doubts=[
            *_unlike(paths, found),
            *(joined.doubts if joined else [doubt for run in found for doubt in run.doubts]),
        ],
        untimed=next((path for path, run in zip(paths, found, strict=True) if not run.times), ""),
    )


def _unlike(paths: Sequence[str], found: Sequence[_DescribedRun]) -> list[str]:
    """A sentence if the runs are not of one program."""
    first = found[0].command
    for path, run in zip(paths, found, strict=True):
        if run.command != first:
            return [
                f"{paths[0]} is a run of {first}, {path} of {run.command}: the selection stands "
                "for all together, not for each; select from each on its own"
            ]
    return []


def _joined(programs: Sequence[Program]) -> Program:
    """The first run's program, with the images and device programs of all. Of several runs no one's
    command starts the whole job, or another's process, so it has none."""
    return replace(
        programs[0],
        arguments=programs[0].arguments if len(programs) == 1 else (),
        images=tuple(sorted({image for one in programs for image in one.images})),
        programs=tuple(sorted({program for one in programs for program in one.programs})),
    )


def _describe(path: str) -> _DescribedRun:
    run = Run.open(path)
    if ImportedSlices.present(run.path):
        raise InputError(f"{path} was imported: select from it separately")
    job = profiled_job(run)
    require_slices(run, job)
    processes = [
        _DescribedProcess(
            RunSource(path, number, key.label if job.several else ""),
            key,
            launch_sequence(process.slices),
        )
        for number, (key, process) in enumerate(zip(job.keys, job.processes, strict=True))
    ]
    times, doubts = run_times(run, job)
    own = None if times is None else job.layout.split(times, axis=1)
    own_doubts = [f"{path}: {doubt}" for doubt in doubts]
    return _DescribedRun(identity_of(job, run), processes, own, own_doubts)


def _times(found: Sequence[_DescribedRun]) -> F64 | None:
    """Times of all slices in the order of `_in_order`, with the number of repeats that every run
    has; None if some run has no timer run of its slices."""
    parts = [
        (process.key.rank, own)
        for run in found
        for process, own in zip(run.processes, run.times or (), strict=False)
    ]
    if any(run.times is None for run in found):
        return None
    parts.sort(key=lambda part: _place(part[0]))
    repeats = min(len(times) for _, times in parts)
    return np.concatenate([times[:repeats] for _, times in parts], axis=1)


def _in_order(found: Sequence[_DescribedRun]) -> list[_DescribedProcess]:
    """The processes of all runs in the order of their numbers, with distinct labels."""
    every = [process for run in found for process in run.processes]
    every.sort(key=lambda process: _place(process.key.rank))
    labels = labels_of([process.key.rank for process in every])
    return [
        replace(process, key=replace(process.key, label=label))
        for process, label in zip(every, labels, strict=True)
    ]


def _place(rank: int | None) -> int:
    """Ranks set the order, as within a run; without ranks the given order holds."""
    return -1 if rank is None else rank


def _require_alike(paths: Sequence[str], found: Sequence[_DescribedRun]) -> None:
    """Raises InputError if a run's filters or window differ from the first's. Start-up stands for
    itself, so it does not matter whether it counts."""

    def settings(run: _DescribedRun) -> dict[str, object]:
        return {name: v for name, v in run.identity.settings.items() if name != "start_up"}

    first = settings(found[0])
    for path, run in zip(paths, found, strict=True):
        if settings(run) != first:
            raise InputError(
                f"{paths[0]} and {path} were profiled with different filters or windows "
                "(xpuprof info shows them); profile them alike"
            )
