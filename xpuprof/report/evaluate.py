"""Brings a run's tables together into one Result: selection, slice times, projection."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from xpuprof.errors import InputError
from xpuprof.report.result import Result, Share
from xpuprof.sampling.selection import Selection
from xpuprof.sampling.times import typical_times
from xpuprof.timing.intervals import estimate, estimate_part
from xpuprof.timing.processes import Key, job_of
from xpuprof.trace.run import Run

F64 = npt.NDArray[np.float64]


def evaluate(run: Run, selection: Selection) -> Result:
    """Projects the whole run's time from the representatives' and compares.

    Raises InputError: no profile, no timer run, or another number of slices in one of them.
    """
    if run.profile is None:
        raise InputError(f"{run.path} holds no profile; make one with: xpuprof run -- ./app args")
    if not run.times:
        raise InputError(f"{run.path} holds no timer run; make one with: xpuprof run -- ./app args")
    job = job_of(run.profile)
    like = job.keys if job.several else ()
    times = [job_of(execution, like).times() for execution in run.times]
    for execution, one in zip(run.times, times, strict=True):
        if len(one) != selection.slices:
            raise InputError(
                f"{execution.name} has {len(one)} slices, the selection {selection.slices}: the "
                "program launched another number of kernels; fix its input and seeds, or align the "
                f"two with: xpuprof validate {run.path}/selection.json -- ./app args"
            )
    stacked = np.stack(times)
    return Result(
        folder=run.path,
        status=run.status,
        reason=run.reason,
        exit_code=int(run.profile.record.get("exit_code", 0)),
        job=job,
        selection=selection,
        times=stacked,
        estimate=estimate(selection, stacked),
        shares=shares(job.keys, selection, stacked) if job.several else (),
        walls=[float(execution.record.get("wall_s") or 0.0) for execution in run.times],
    )


def shares(keys: Sequence[Key], selection: Selection, times: F64) -> tuple[Share, ...]:
    """Each process's part: measured, and projected with its interval."""
    mean = typical_times(times)
    ends = np.cumsum([key.slices for key in keys])
    return tuple(
        Share(
            key,
            measured=float(mean[end - key.slices : end].sum()),
            estimate=estimate_part(selection, times, slice(end - key.slices, end)),
        )
        for key, end in zip(keys, ends.tolist(), strict=True)
    )
