"""Select representatives of a recorded run, with all that the selection must remember of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from xpuprof.clustering.cluster import Known, Options, with_options
from xpuprof.clustering.executors import Farm, Here
from xpuprof.clustering.stability import Stability, over_bootstraps, over_seeds
from xpuprof.errors import InputError, TraceError, UsageError
from xpuprof.estimation.typical_times import typical_times
from xpuprof.methods import job as joint
from xpuprof.methods import xpu_point
from xpuprof.methods.profile import from_processes
from xpuprof.methods.registry import check_options, find, select
from xpuprof.selection import parts
from xpuprof.selection.identity import program_identity
from xpuprof.selection.selection import Selection
from xpuprof.trace.coordinates import Stretches
from xpuprof.trace.imported import ImportedSlices
from xpuprof.trace.processes import Job, Key, job_of, labels_of
from xpuprof.trace.run import Run
from xpuprof.trace.sequence import joined_sequences, launch_sequence
from xpuprof.trace.tables import Process

F64 = npt.NDArray[np.float64]

Processes = Literal["job", "each"]
"""Of several processes: clusters over all of them together, or a selection for each."""


def select_run(
    run: Run,
    method: str,
    *,
    seed: int,
    processes: Processes = "job",
    measured: F64 | None = None,
    **options: Any,
) -> Selection:
    """Apply `method` to the processes with device work of the run's profile.

    Where the run holds timer runs of the same slices, or `measured` has their times
    (float64[repeats, slices], seconds), these go to the method: they decide how many
    representatives a cluster gets. Raises InputError when the run holds no profile.
    """
    if ImportedSlices.present(run.path):
        from xpuprof.workflow.subjects import select_imported  # which reads times through this file

        return select_imported(run, method, seed=seed, **options)
    job = profiled_job(run)
    _require_slices(run, job)
    times = run_times(run, len(job.slices)) if measured is None else measured
    if job.several and processes == "each":
        chosen = _select_each(job, method, seed, times, options)
    else:
        chosen = select_over(job, method, seed, times, options)
    identity = _identity(job, run)
    return replace(chosen, identity=identity, machine=dict(run.manifest["machine"]))


def profiled_job(run: Run) -> Job:
    """The processes of the run's profile. Raises InputError when there is none."""
    if run.profile is None:
        raise InputError(
            f"{run.path} holds no profile; record one with: xpuprof profile -- ./app args"
        )
    return job_of(run.profile)


def _require_slices(run: Run, job: Job) -> None:
    """Raises InputError for a profile in which no slice came to its end."""
    if not job.slices.empty:
        return
    window = job.processes[0].window
    if window is not None:
        raise InputError(
            f"{run.path}: the window {window.spec} never opened (the program launched "
            f"{len(window.whole.launches) if window.whole else 0} kernels); record it again with a "
            "window that the program reaches"
        )
    raise InputError(
        f"{run.path} holds no finished slice ({run.reason or 'nothing was recorded'}); record "
        "it again with: xpuprof profile -- ./app args"
    )


def select_over(
    job: Job, method: str, seed: int, times: F64 | None, options: dict[str, Any]
) -> Selection:
    """One selection over all processes of a job; clusters are shared between them."""
    if not job.several:
        return _select_one(job.processes[0], method, seed, times, options)
    if find(method).clusters:
        of_plan = {n: v for n, v in options.items() if n in xpu_point.SIGNATURE_OPTIONS}
        if method == "gpu-point":
            of_plan["cpu_weight"] = 0.0
        others = {n: v for n, v in options.items() if n not in xpu_point.SIGNATURE_OPTIONS}
        return joint.select_job(
            joint.held(job.processes),
            joint.Plan(seed=seed, **of_plan),
            with_options(**others),
            method=method,
            known=_known(times),
        )
    found = find(method)
    check_options(found, options)
    typical = None if times is None else typical_times(times)
    profile = from_processes(job.slices, job.processes, typical)
    return found.select(profile, seed=seed, **options)


def _select_one(
    process: Process, method: str, seed: int, times: F64 | None, options: dict[str, Any]
) -> Selection:
    given = options if times is None else {**options, "times": times}
    return select(method, process, seed=seed, **given)


def _select_each(
    job: Job, method: str, seed: int, times: F64 | None, options: dict[str, Any]
) -> Selection:
    """One selection a process, put together."""
    own = [None] * len(job.processes) if times is None else job.layout.split(times, axis=1)
    return parts.joined(
        [
            _select_one(process, method, seed, part, options)
            for process, part in zip(job.processes, own, strict=True)
        ]
    )


def _known(times: F64 | None) -> Known | None:
    return None if times is None else Known.of(times)


def _identity(job: Job, run: Run) -> dict[str, Any]:
    images = pd.concat([process.images for process in job.processes], ignore_index=True)
    identity = program_identity(job.slices, images, run.manifest)
    if job.several:
        identity["processes"] = [key.as_json() for key in job.keys]
    if asked := run.manifest.get("settings"):
        identity["settings"] = asked
    if window := job.processes[0].window:
        identity["window"] = {"spec": window.spec}
        if not job.several:
            identity["window"]["rows"] = Stretches.of(window.rows).as_json()
    return identity


@dataclass(frozen=True)
class RunSource:
    """A process of a run directory as a `job.Source`: workers open it by its path."""

    path: str
    number: int
    label: str

    @property
    def name(self) -> str:
        """The run, and the process where it has several."""
        return f"{self.path}:{self.label}" if self.label else self.path

    def process(self) -> Process:
        """The process."""
        return profiled_job(Run.open(self.path)).processes[self.number]


@dataclass(frozen=True)
class _DescribedProcess:
    source: RunSource
    key: Key
    sequence: dict[str, Any]


@dataclass(frozen=True)
class _Described:
    """What the selection over several runs must know of one of them."""

    identity: dict[str, Any]
    processes: list[_DescribedProcess]


def select_runs(
    paths: Sequence[str],
    plan: joint.Plan,
    options: Options,
    farm: Farm | None = None,
    method: str = "xpu-point",
    times: F64 | None = None,
) -> Selection:
    """One selection over every process of several run directories (ranks that were profiled one by
    one, a farm of programs), spread over the farm's workers. `times`: of all slices, as
    `times_of_runs` gives them. Errors as `job.select_job`."""
    if farm is None:
        with Here() as here:
            return select_runs(paths, plan, options, here, method, times)
    found: list[_Described] = list(farm.get(farm.keep(_describe, paths)))
    _require_alike(paths, found)
    every = _in_order(found)
    chosen = joint.select_job(
        [p.source for p in every], plan, options, farm, method=method, known=_known(times)
    )
    identity = {
        **found[0].identity,
        "images": sorted({image for run in found for image in run.identity["images"]}),
        "programs": sorted({program for run in found for program in run.identity["programs"]}),
        "sequence": joined_sequences([process.sequence for process in every]),
        "processes": [process.key.as_json() for process in every],
    }
    if "window" in identity:
        identity["window"] = {"spec": identity["window"]["spec"]}  # rows are of one process
    return replace(chosen, identity=identity)


def _in_order(found: Sequence[_Described]) -> list[_DescribedProcess]:
    """The processes of all runs as they are numbered, with labels that tell them apart."""
    every = [process for run in found for process in run.processes]
    every.sort(key=lambda process: _place(process.key.rank))
    labels = labels_of([process.key.rank for process in every])
    return [
        replace(process, key=replace(process.key, label=label))
        for process, label in zip(every, labels, strict=True)
    ]


def _place(rank: int | None) -> int:
    """Ranks decide the order, as they do within a run; without ranks the order given."""
    return -1 if rank is None else rank


def keys_of_runs(paths: Sequence[str], farm: Farm) -> tuple[Key, ...]:
    """The processes of several runs, in the order of `select_runs`."""
    return tuple(one.key for one in _in_order(list(farm.get(farm.keep(_describe, paths)))))


def times_of_runs(paths: Sequence[str], farm: Farm, *, needed: bool) -> F64 | None:
    """Times of all slices of several runs, float64[repeats, slices] in the order of `select_runs`,
    as many repeats as every run has. Where some run has no timer run of its slices, None, or
    UsageError when they are `needed`."""
    found = list(farm.get(farm.keep(_times_of, paths)))
    untimed = [path for path, own in zip(paths, found, strict=True) if own is None]
    if untimed and needed:
        raise UsageError(
            f"{untimed[0]} holds no timer run of its slices, and a target error or a budget needs "
            "those of every run: record them with xpuprof run, or name their folders with --times"
        )
    if untimed:
        return None
    parts = sorted((part for own in found for part in own), key=lambda part: _place(part[0]))
    repeats = min(len(times) for _, times in parts)
    return np.concatenate([times[:repeats] for _, times in parts], axis=1)


def _times_of(path: str) -> list[tuple[int | None, F64]] | None:
    """Rank and times of each process of a run."""
    run = Run.open(path)
    job = profiled_job(run)
    times = run_times(run, len(job.slices))
    if times is None:
        return None
    parts = job.layout.split(times, axis=1)
    return [(key.rank, part) for key, part in zip(job.keys, parts, strict=True)]


def _require_alike(paths: Sequence[str], found: Sequence[_Described]) -> None:
    """Raises InputError when runs have other filters or windows than the first."""
    first = found[0].identity.get("settings")
    for path, run in zip(paths, found, strict=True):
        if run.identity.get("settings") != first:
            raise InputError(
                f"{paths[0]} and {path} were profiled with different filters or windows "
                "(xpuprof info shows them); profile them alike"
            )


def _describe(path: str) -> _Described:
    run = Run.open(path)
    job = profiled_job(run)
    _require_slices(run, job)
    processes = [
        _DescribedProcess(
            RunSource(path, number, key.label if job.several else ""),
            key,
            launch_sequence(process.slices),
        )
        for number, (key, process) in enumerate(zip(job.keys, job.processes, strict=True))
    ]
    return _Described(_identity(job, run), processes)


def run_stability(
    run: Run,
    method: str,
    *,
    seed: int,
    times: F64 | None,
    processes: Processes = "job",
    **options: Any,
) -> list[Stability]:
    """How far a clustering selection of the run moves over seeds and bootstrap samples; of each of
    its processes where each has a selection of its own. `times`: float64[repeats, slices]."""
    job = profiled_job(run)
    if not (job.several and processes == "each"):
        return _stability(job.processes, method, seed, _known(times), options)
    own = [None] * len(job.processes) if times is None else job.layout.split(times, axis=1)
    return [
        replace(one, kind=f"{one.kind}, {key.label}")
        for process, key, part in zip(job.processes, job.keys, own, strict=True)
        for one in _stability([process], method, seed, _known(part), options)
    ]


def runs_stability(
    paths: Sequence[str], method: str, *, seed: int, times: F64 | None, **options: Any
) -> list[Stability]:
    """The same of the joint selection over several runs, whose profiles are read here. `times`: as
    `times_of_runs` gives them."""
    found = [profiled_job(Run.open(path)) for path in paths]
    every = [one for job in found for one in zip(job.keys, job.processes, strict=True)]
    every.sort(key=lambda one: _place(one[0].rank))
    return _stability([process for _, process in every], method, seed, _known(times), options)


def _stability(
    processes: Sequence[Process],
    method: str,
    seed: int,
    known: Known | None,
    options: dict[str, Any],
) -> list[Stability]:
    if not find(method).clusters:
        raise UsageError(f"--stability is for clustering methods; {method} draws its samples")
    make, settings = xpu_point.prepare(processes, method, options)
    return [
        over_seeds(make, settings, seed, known),
        over_bootstraps(make(seed), settings, seed, known),
    ]


def run_times(run: Run, slices: int) -> F64 | None:
    """float64[repeats, slices], seconds, of the timer runs that have as many slices, processes in
    the order of the profile's; None without one."""
    profiled = job_of(run.profile) if run.profile else None
    like = profiled.keys if profiled and profiled.several else ()
    rows = []
    for execution in run.times:
        try:
            times = job_of(execution, like).times()
        except TraceError:
            continue  # a timer run that was cut short has no times to offer
        if len(times) == slices:
            rows.append(times)
    return np.stack(rows) if rows else None
