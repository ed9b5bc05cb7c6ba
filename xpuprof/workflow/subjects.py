# SPDX-License-Identifier: Apache-2.0
"""What methods select from: one run, recorded or imported, as a subject."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from xpuprof.arrays import F64
from xpuprof.errors import InputError, UsageError
from xpuprof.methods.block_vectors import ImportedVectors
from xpuprof.methods.profile import SliceProfile, Slices, Vectors
from xpuprof.methods.recorded import from_processes
from xpuprof.selection.identity import Identity, SelectedWindow
from xpuprof.selection.program import program_of
from xpuprof.trace.coordinates import JobRows, Stretches
from xpuprof.trace.imported import VECTORS, ImportedSlices
from xpuprof.trace.joined_times import Joined, join, profiled
from xpuprof.trace.kinds import Key
from xpuprof.trace.processes import Job, job_of, keys_of_table, layout_of
from xpuprof.trace.run import Run
from xpuprof.trace.sequence import launch_sequence
from xpuprof.trace.window import never_opened
from xpuprof.validation.native_times import different_sequences, native_times
from xpuprof.workflow.next_step import of_run
from xpuprof.workflow.unseen import no_kernel

if TYPE_CHECKING:
    from scipy import sparse


@dataclass(frozen=True, eq=False)
class Subject:
    """A run, or several together, to select from.

    `times`: float64[repeats, slices], `metric` measured on all slices, in seconds (or cycles of an
    import); None if not measured. `keys`: its processes. `identity`, `machine`: what a selection
    stores about it. `job`: for one recorded run. `joined`: times from other folders.
    """

    path: Path
    slices: Slices
    times: F64 | None = None
    metric: str = "time"
    keys: tuple[Key, ...] = ()
    identity: Identity = field(default_factory=Identity)
    machine: Mapping[str, object] = field(default_factory=dict)
    job: Job | None = None
    joined: Joined | None = None
    untimed: str = ""
    """The first of several runs without times."""
    doubts: Sequence[str] = ()
    """Reasons to doubt its times, or that its runs belong together, one sentence each."""

    @property
    def profile(self) -> SliceProfile:
        """The slices with all tables loaded."""
        return self.slices.at_hand()

    def by_process(self) -> list[Subject]:
        """One subject per process; only itself for a single process."""
        if len(self.keys) < 2:
            return [self]
        layout = layout_of(self.keys)
        none: Sequence[F64 | None] = [None] * len(self.keys)
        times = none if self.times is None else layout.split(self.times, axis=1)
        return [self._process(number, own) for number, own in enumerate(times)]

    def _process(self, number: int, times: F64 | None) -> Subject:
        job, slices = self.job, self.slices
        if job is None:
            slices = _part_of_import(self.profile, layout_of(self.keys).rows(number))
        else:
            process = job.processes[number]
            slices = from_processes(process.slices, [process], times, slices.name)
            job = replace(job, processes=(process,))
        return replace(self, slices=slices, times=times, keys=(self.keys[number],), job=job)


def open_subject(
    run: Run | str | Path, timed: Sequence[Path] = (), measured: F64 | None = None
) -> Subject:
    """A run directory as a subject. `timed`: folders of timer runs, instead of the run's own;
    `measured`: float64[repeats, slices], seconds, instead of both.

    Raises TraceError, or InputError if it holds no profile or no slices.
    """
    run = run if isinstance(run, Run) else Run.open(run)
    if ImportedSlices.present(run.path):
        if timed:
            raise UsageError(f"--times is for recorded runs; {run.path} is an import")
        return _imported(run)
    job = profiled_job(run)
    require_slices(run, job)
    joined = join(profiled(run, job), timed) if timed else None
    doubts: Sequence[str] = ()
    if measured is None:
        measured, doubts = (joined.times, joined.doubts) if joined else run_times(run, job)
    return Subject(
        run.path,
        from_processes(job.slices, job.processes, measured, str(run.path)),
        measured,
        keys=job.keys,
        identity=identity_of(job, run),
        machine=dict(run.manifest["machine"]),
        job=job,
        joined=joined,
        doubts=doubts,
    )


def _imported(run: Run) -> Subject:
    profile = imported_profile(run.path)
    keys = keys_of_table(profile.slices)
    identity = Identity(
        sequence=launch_sequence(profile.slices),
        processes=keys if len(keys) > 1 else (),
        metric=profile.time_name,
    )
    return Subject(
        run.path,
        profile,
        None if profile.times is None else profile.times[None, :],
        profile.time_name,
        keys,
        identity,
        dict(run.manifest["machine"]),
    )


def imported_profile(path: Path) -> SliceProfile:
    """The profile of an imported run."""
    source = ImportedSlices(path)
    metrics = {name: np.asarray(source.column(name)) for name in source.metrics}
    time = source.time_name
    matrices = {
        side: (lambda side=side: source.vectors(side))
        for side in VECTORS
        if source.has_vectors(side)
    }
    return SliceProfile(
        slices=source.table(),
        times=metrics[time] if time else None,
        metrics=metrics,
        time_name=time or "time",
        name=str(path),
        **_with_vectors(matrices),
    )


def _with_vectors(matrices: Mapping[str, Vectors]) -> dict[str, Any]:
    """The fields of a profile that hold the vectors of its sides."""
    vectors = ImportedVectors(**matrices) if matrices else None
    return {**{f"{side}_vectors": own for side, own in matrices.items()}, "vectors": vectors}


def _part_of_import(whole: SliceProfile, rows: JobRows) -> SliceProfile:
    """The profile of one process of an import; its table has no column `process`."""
    table = whole.slices.iloc[rows].drop(columns="process")
    table = table.assign(slice=np.arange(len(table)))
    matrices = {"gpu": whole.gpu_vectors, "cpu": whole.cpu_vectors}
    return replace(
        whole,
        slices=table.assign(kernel=table["kernel"].cat.remove_unused_categories()),
        times=None if whole.times is None else whole.times[rows],
        metrics={name: values[rows] for name, values in whole.metrics.items()},
        **_with_vectors({side: _rows_of(own, rows) for side, own in matrices.items() if own}),
    )


def _rows_of(matrix: Vectors, rows: JobRows) -> Vectors:
    def of_rows() -> sparse.csr_matrix | None:
        whole = matrix()
        return None if whole is None else whole[rows]

    return of_rows


def profiled_job(run: Run) -> Job:
    """The processes of the run's profile. Raises InputError if there is none."""
    if run.profile is None:
        why = f": {run.reason}" if run.reason else f"; first: {of_run(run)}"
        raise InputError(f"{run.path} holds no profile{why}")
    return job_of(run.profile)


def require_slices(run: Run, job: Job) -> None:
    """Raises InputError for a profile without a finished slice."""
    if job.sums.slices:
        record, images = job.execution.record, job.processes[0].images["path"].astype(str)
        if job.sums.launches or record.gpu_engine == "none" or job.processes[0].window:
            return
        program = next(iter(run.manifest["argv"]), "")
        raise InputError(
            f"{run.path}: {no_kernel(record, job.execution.losses, str(program), images)}"
        )
    if unopened := never_opened(job.processes):
        raise InputError(f"{run.path}: {unopened}")
    raise InputError(
        f"{run.path} holds no finished slice ({run.reason or 'nothing was recorded'}); record "
        "it again with: xpuprof profile -- ./app args"
    )


def run_times(run: Run, profiled: Job) -> tuple[F64 | None, list[str]]:
    """float64[repeats, slices], seconds, of the profile's slices in the run's timer runs, None
    without one; and, one sentence each, which of these have no times, and how their launches
    differ from the profile's."""
    rows, mismatches, doubts = [], [], []
    for native in native_times(profiled, run.times):
        if native.times is None:
            doubts.append(native.left_out)
            continue
        rows.append(native.times)
        mismatches.append(native.mismatch)
    doubts += different_sequences(mismatches)
    return np.stack(rows) if rows else None, doubts


def identity_of(job: Job, run: Run) -> Identity:
    """What a selection stores about the program."""
    images = pd.concat([process.images for process in job.processes], ignore_index=True)
    window = None
    if asked := job.processes[0].window:
        window = SelectedWindow(asked.spec, None if job.several else Stretches.of(asked.rows))
    return Identity(
        program_of(job.slices, images, run.manifest),
        job.sequence,
        job.keys if job.several else (),
        window=window,
        settings=run.manifest.get("settings", {}),
    )
