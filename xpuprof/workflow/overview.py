# SPDX-License-Identifier: Apache-2.0
"""A run as a whole, for its page: slices, kernels, selection, and where its error comes from."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from xpuprof.arrays import F64
from xpuprof.errors import InputError, TraceError
from xpuprof.estimation.contributions import Contribution, contributions
from xpuprof.estimation.typical_times import typical_times
from xpuprof.selection.origin import require_origin
from xpuprof.selection.selection import Selection
from xpuprof.trace.kinds import Key
from xpuprof.trace.processes import Job, job_of
from xpuprof.workflow.chosen import Chosen, Projection, with_times
from xpuprof.workflow.evaluate import Result, doubts, evaluate
from xpuprof.workflow.opened import Run, kernel_table
from xpuprof.workflow.reopen import timed_subject

INSTRUCTIONS = ("cpu_instructions", "gpu_instructions")


@dataclass(frozen=True, eq=False)
class Overview:
    """`slices`: one row a slice with `kernel`, `call` and, where known, `process` (a label),
    `cpu_instructions`, `gpu_instructions` and `value`, typical of `totals` runs and in the unit of
    `metric`. `totals`: of each timer run."""

    folder: Path
    argv: Sequence[str]
    status: str
    reason: str
    slices: pd.DataFrame
    kernels: pd.DataFrame
    metric: str
    totals: Sequence[float]
    selection: Selection | None
    projection: Projection | None
    contributions: Sequence[Contribution]
    """Each cluster's part of the projection; empty without one."""
    job: Job | None
    """None for imports."""
    doubts: Sequence[str]
    """Reasons to doubt the run, one sentence each."""
    unreliable: Sequence[str]
    """Why the sampling error does not say how good the selection is, one sentence each."""


def overview(run: Run, selection: Selection | None = None, timed: Sequence[Path] = ()) -> Overview:
    """Gathers what a page shows. `selection`: default the run's own, if there is one; `timed`:
    folders of timer runs, as in `reopen`.

    Raises InputError if the run holds neither a profile nor a timer run, or if the selection is
    another run's.
    """
    if selection is not None:
        require_origin(selection, run)
    selection = selection or run.selection
    times: F64 | None
    job: Job | None
    result = None if timed else _result(run, selection)
    if result:
        job, times, metric = result.job, result.times, "time"
        table, keys = job.slices, job.keys
    elif run.profile is None and not run.imported:
        table, times, metric, job = _timed_only(run)
        keys, selection = job.keys, None  # a selection names slices of a profile
    else:
        subject = timed_subject(run, selection, timed)
        table, times, metric = subject.profile.slices, subject.times, subject.metric
        keys, job = subject.keys, subject.job
    values = None if times is None else typical_times(times)
    if selection is not None and selection.slices != len(table):
        raise InputError(
            f"the selection names {selection.slices} slices, {run.path} has {len(table)}; name the "
            f"selection of this run, or make one with: xpuprof select {run.path}"
        )
    slices = _slices(table, keys, values)
    totals = [] if times is None else times.sum(axis=1).tolist()
    projection: Projection | None = None
    unsure: Sequence[str] = ()
    parts: Sequence[Contribution] = ()
    if selection is not None and values is not None and values.sum():
        chosen = with_times(Chosen(str(run.path), selection), times, metric)
        projection, unsure = chosen.projection, chosen.doubts
        parts = contributions(selection, values)
    return Overview(
        folder=run.path,
        argv=run.manifest["argv"],
        status=run.status,
        reason=run.reason,
        slices=slices,
        kernels=kernel_table(slices, "value"),
        metric="" if times is None else metric,
        totals=totals,
        selection=selection,
        projection=projection,
        contributions=parts,
        job=job,
        doubts=doubts(run, [] if run.imported else totals),
        unreliable=result.unreliable if result else unsure,
    )


def _result(run: Run, selection: Selection | None) -> Result | None:
    """What `report` shows; None if there is no such result."""
    if selection is None or run.profile is None or not run.times:
        return None
    try:
        return evaluate(run, selection)
    except (InputError, TraceError):  # the page shows what there is
        return None


def _timed_only(run: Run) -> tuple[pd.DataFrame, F64, str, Job]:
    """Slices and times of a folder that `xpuprof time` wrote."""
    found: list[tuple[Job, F64]] = []
    for execution in run.times:
        with suppress(TraceError):  # a timer run that was cut short has no times
            job = job_of(execution)
            if not found or len(job.slices) == len(found[0][1]):
                found.append((job, job.times()))
    if not found:
        raise InputError(
            f"{run.path} holds neither a profile nor a complete timer run; make one with: xpuprof "
            "run -- ./app args"
        )
    job = found[0][0]
    return job.slices, np.stack([times for _, times in found]), "time", job


def _slices(table: pd.DataFrame, keys: Sequence[Key], values: F64 | None) -> pd.DataFrame:
    """The columns that pages show."""
    known = [name for name in ("call", *INSTRUCTIONS) if name in table]
    slices = table[known].reset_index(drop=True)
    slices.insert(0, "kernel", table["kernel"].astype(str).astype(object).to_numpy())
    if len(keys) > 1:
        slices["process"] = np.repeat([key.label for key in keys], [key.slices for key in keys])
    return slices if values is None else slices.assign(value=values)
