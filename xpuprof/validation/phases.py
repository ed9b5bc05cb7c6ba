# SPDX-License-Identifier: Apache-2.0
"""CPU phases between kernels, which a profile without CPU vectors does not record."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from xpuprof.errors import TraceError
from xpuprof.methods.registry import by_measured_times
from xpuprof.selection.selection import Selection
from xpuprof.signature.matrix import builds_of
from xpuprof.trace.processes import job_of
from xpuprof.trace.slice_times import slice_times
from xpuprof.trace.tables import Execution, Process

F64 = npt.NDArray[np.float64]

LARGE = 0.1
"""Smallest share of the time (see `phase_share`) at which phases are reported. Smaller ones change
a projection by less than clusters differ internally."""


def unseen_phases(
    profiled: Sequence[Process], timer_runs: Sequence[Execution], selection: Selection
) -> list[str]:
    """A sentence with the remedy, if clusters of device vectors alone represent slices with a large
    share of CPU phases; otherwise empty. `profiled`: the processes of the profile."""
    # Random draws do not rest on vectors: their interval counts every phase.
    # Sums, since tables grow with the launches.
    if selection.design.strata is not None or any(process.sums.threads for process in profiled):
        return []
    if len(selection.representatives) == selection.slices:
        return []  # every slice represents itself
    share = phase_share(timer_runs)
    if share < LARGE:
        return []
    return [
        f"{100 * share:.0f} % of the time is CPU work between kernels, which device vectors do "
        "not show: profile with a CPU engine (--cpu auto), or choose by measured times (select "
        f"--method {' or '.join(by_measured_times())})"
    ]


def phase_share(timer_runs: Sequence[Execution]) -> float:
    """Share of the time between the ends of the first and the last kernel, a fraction, that slices
    spend outside their kernel beyond the median for that kernel name. Excludes the first and the
    last slice, which represent themselves. The median of the runs; 0 if no run has
    device stamps."""
    shares = []
    for execution in timer_runs:
        job, hz = job_of(execution), execution.record.tsc_hz
        try:
            times = [slice_times(execution, p, own=job.several) for p in job.processes]
        except TraceError:
            continue  # a truncated run has no times
        parts = [_parts(p, own, hz) for p, own in zip(job.processes, times, strict=True)]
        whole = sum(float(inner.sum()) for inner, _ in parts)
        if whole:
            shares.append(sum(float(phases.sum()) for _, phases in parts) / whole)
    return float(np.median(shares)) if shares else 0.0


def _parts(process: Process, times: F64, hz: float) -> tuple[F64, F64]:
    """Seconds of the inner slices, and of the phases in them."""
    launches, kernels = process.launches, process.slices["kernel"].to_numpy()
    inner = np.arange(1, min(len(launches), len(times)))
    rows = inner[~builds_of(process)[inner]]  # slices with a build stand apart
    on_device = (launches["dev_end"] - launches["dev_start"]).to_numpy(np.float64)[rows] / hz
    known = launches["dev_end"].to_numpy()[rows] > 0
    gap = np.where(known, np.maximum(times[rows] - on_device, 0.0), 0.0)
    phases = np.zeros(len(rows))
    for kernel in np.unique(kernels[rows]):
        own = kernels[rows] == kernel
        phases[own] = np.maximum(gap[own] - np.median(gap[own]), 0.0)
    return times[inner], phases
