"""The `SliceProfile` of a run directory, recorded or imported, and methods applied to it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from xpuprof.estimation.typical_times import typical_times
from xpuprof.methods import registry, simpoint
from xpuprof.methods.declaration import Need
from xpuprof.methods.profile import (
    NeedsError,
    SliceProfile,
    Vectors,
    from_process,
    from_processes,
)
from xpuprof.selection.selection import Selection
from xpuprof.trace.imported import VECTORS, ImportedSlices
from xpuprof.trace.processes import Job, keys_of_table
from xpuprof.trace.run import Run
from xpuprof.workflow.select import profiled_job, run_times, select_over

F64 = npt.NDArray[np.float64]

TIMES = ("gpu_time", "cycles", "time")
"""What an imported profile selects by: kernels' own time first, which is what the field's methods
estimate and what a simulator of kernels gives."""


@dataclass(frozen=True, eq=False)
class Subject:
    """A run to select from. `job` is None for an imported run. `runs`: what the timer runs of a
    recorded one measured, float64[repeats, slices], seconds; the profile has their typical times.
    """

    path: Path
    profile: SliceProfile
    job: Job | None = None
    runs: F64 | None = None


def open_subject(path: str | Path) -> Subject:
    """Open a run directory. Raises TraceError, or InputError when it holds no slices."""
    run = Run.open(path)
    if ImportedSlices.present(run.path):
        return Subject(run.path, imported_profile(run.path))
    job = profiled_job(run)
    times = run_times(run, len(job.slices))
    typical = None if times is None else typical_times(times)
    if not job.several:
        process = job.processes[0]
        return Subject(run.path, from_process(process, typical, name=str(run.path)), job, times)
    profile = from_processes(job.slices, job.processes, typical, name=str(run.path))
    return Subject(run.path, profile, job, times)


def imported_profile(path: Path) -> SliceProfile:
    """The profile of an imported run; its columns are mapped, not read."""
    source = ImportedSlices(path)
    metrics = {name: np.asarray(source.column(name)) for name in source.metrics}
    time = next((name for name in TIMES if name in metrics), None)
    profile = SliceProfile(
        slices=source.table(),
        times=metrics[time] if time else None,
        metrics=metrics,
        gpu_vectors=lambda: source.vectors("gpu"),
        cpu_vectors=lambda: source.vectors("cpu"),
        time_name=time or "time",
        name=str(path),
    )
    if any(source.has_vectors(side) for side in VECTORS):
        return replace(
            profile, clusters=lambda seed: _by_imported_vectors(profile, "xpu-point", seed).labels
        )
    return profile


def imported_times(path: Path) -> tuple[str, F64 | None]:
    """What an imported run is selected by: its name, and float64[1, slices] (a time in seconds, or
    cycles); None without such a metric."""
    profile = imported_profile(path)
    return profile.time_name, None if profile.times is None else profile.times[None, :]


def select_imported(run: Run, method: str, *, seed: int, **options: Any) -> Selection:
    """Select from an imported run. Raises UsageError for options that the method does not have."""
    registry.check_options(registry.find(method), options)
    subject = Subject(run.path, imported_profile(run.path))
    chosen = apply(subject, method, seed=seed, **options)
    keys = keys_of_table(subject.profile.slices)
    identity: dict[str, Any] = {"metric": subject.profile.time_name}
    if len(keys) > 1:
        identity["processes"] = [key.as_json() for key in keys]
    return replace(chosen, identity=identity, machine=dict(run.manifest["machine"]))


def apply(subject: Subject, method: str, *, seed: int, **options: Any) -> Selection:
    """Select from the subject by a method of any kind.

    Options that the method does not have are left out, so that one set can serve several methods.
    Raises NeedsError with the reason when the profile lacks what the method needs.
    """
    found = registry.find(method)
    if not found.clusters:
        own = {option: value for option, value in options.items() if found.option(option)}
        return found.select(subject.profile, seed=seed, **own)
    if subject.job is None:
        return _by_imported_vectors(subject.profile, method, seed)
    # How many runs there were decides, too, how representatives are picked.
    times = subject.profile.times if subject.runs is None else subject.runs
    return select_over(subject.job, method, seed, times, {})


def _by_imported_vectors(profile: SliceProfile, method: str, seed: int) -> Selection:
    """Cluster imported vectors, which have lost threads and warps, as SimPoint clusters its own."""
    parts = [profile.gpu_vectors] if method == "gpu-point" else _both(profile)
    matrices = [matrix for part in parts if part and (matrix := part()) is not None]
    if not matrices:
        raise NeedsError(f"{method} needs {Need.VECTORS.value}")
    # Each side by itself adds up to one, as XPU-Point scales its parts (section IV).
    matrix = sparse.hstack([m / max(float(m.sum()), 1.0) for m in matrices]).tocsr()
    chosen, _ = simpoint.select(
        matrix.indptr.astype(np.uint64),
        matrix.indices.astype(np.uint64),
        matrix.data.astype(np.float64),
        seed=seed,
    )
    old = chosen.representatives
    representatives = profile.representatives(
        np.array([r.slice for r in old]),
        np.array([r.cluster for r in old]),
        np.array([r.multiplier for r in old]),
        np.array([r.weight for r in old]),
    )
    return replace(chosen, method=method, representatives=representatives)


def _both(profile: SliceProfile) -> list[Vectors | None]:
    return [profile.cpu_vectors, profile.gpu_vectors]
