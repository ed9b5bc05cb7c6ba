"""Select representatives of a recorded run, with all that the selection must remember of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from xpuprof.errors import InputError, TraceError, UsageError
from xpuprof.sampling import xpu_point
from xpuprof.sampling.identity import program_identity
from xpuprof.sampling.methods import select, takes_process
from xpuprof.sampling.selection import Selection
from xpuprof.sampling.stability import Stability, over_bootstraps, over_seeds
from xpuprof.timing.slices import main_process, slice_times
from xpuprof.trace.imported import ImportedSlices
from xpuprof.trace.run import Run
from xpuprof.trace.tables import Process


def select_run(run: Run, method: str, *, seed: int, **options: Any) -> Selection:
    """Apply `method` to the process with the device work of the run's profile.

    Where the run holds timer runs of the same slices, their times go to the method: they decide how
    many representatives a cluster gets. Raises InputError when the run holds no profile.
    """
    if ImportedSlices.present(run.path):
        from xpuprof.timing.profiles import select_imported  # which reads times through this file

        return select_imported(run, method, seed=seed, **options)
    if run.profile is None:
        raise InputError(
            f"{run.path} holds no profile; record one with: xpuprof profile -- ./app args"
        )
    process = main_process(run.profile)
    if process.slices.empty:
        raise InputError(
            f"{run.path} holds no finished slice ({run.reason or 'nothing was recorded'}); record "
            "it again with: xpuprof profile -- ./app args"
        )
    times = run_times(run, len(process.slices))
    if times is not None:
        options["times"] = times
    chosen = select(method, process, seed=seed, **options)
    identity = program_identity(process.slices, process.images, run.manifest)
    return replace(chosen, identity=identity, machine=dict(run.manifest["machine"]))


@dataclass(frozen=True)
class RunSource:
    """A run directory as a `job.Source`: workers open it by its path."""

    name: str

    def process(self) -> Process:
        """The process with the device work."""
        profile = Run.open(self.name).profile
        if profile is None:
            raise InputError(f"{self.name} holds no profile")
        return main_process(profile)


def run_stability(run: Run, method: str, *, seed: int, **options: Any) -> list[Stability]:
    """How far a clustering selection of the run moves over seeds and bootstrap samples."""
    if not takes_process(method):
        raise UsageError(f"--stability is for clustering methods; {method} draws its samples")
    assert run.profile is not None
    process = main_process(run.profile)
    times = run_times(run, len(process.slices))
    make, settings = xpu_point.prepare(process, method, options)
    return [
        over_seeds(make, settings, seed, times),
        over_bootstraps(make(seed), settings, seed, times),
    ]


def run_times(run: Run, slices: int) -> np.ndarray[Any, np.dtype[np.float64]] | None:
    """float64[repeats, slices], seconds, of the timer runs that have as many slices; None without
    one."""
    rows = []
    for execution in run.times:
        try:
            times = slice_times(execution, main_process(execution))
        except TraceError:
            continue  # a timer run that was cut short has no times to offer
        if len(times) == slices:
            rows.append(times)
    return np.stack(rows) if rows else None
