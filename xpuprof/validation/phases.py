# SPDX-License-Identifier: Apache-2.0
"""CPU phases between kernels, which a profile without CPU vectors does not record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from xpuprof.arrays import F64
from xpuprof.errors import TraceError
from xpuprof.estimation.measured import ByCluster
from xpuprof.methods.registry import by_measured_times
from xpuprof.selection.selection import Selection
from xpuprof.trace.pieces import pieces
from xpuprof.trace.processes import job_of
from xpuprof.trace.slice_times import slice_times
from xpuprof.trace.spilled import Spilled
from xpuprof.trace.tables import DeviceWork, Execution, Process

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
        f"--method with one of {', '.join(by_measured_times())})"
    ]


def phase_share(timer_runs: Sequence[Execution]) -> float:
    """Share of the run's time, a fraction, that slices spend outside their kernel beyond the median
    for that kernel name: what a projection can miss. The first and the last slice represent
    themselves, so their time counts in the whole alone. The median of the runs; 0 if no run has
    device stamps."""
    shares = []
    for execution in timer_runs:
        job = job_of(execution)
        try:
            parts = [_parts(execution, process, job.own_lives) for process in job.processes]
        except TraceError:
            continue  # a truncated run has no times
        whole = sum(seconds for seconds, _ in parts)
        if whole:
            shares.append(sum(phases for _, phases in parts) / whole)
    return float(np.median(shares)) if shares else 0.0


def _parts(execution: Execution, process: Process, own_life: bool) -> tuple[float, float]:
    """Seconds of the slices, and of the phases in the inner ones; only one array of 8 bytes a slice
    is in memory at a time."""
    with Spilled() as device, Spilled() as gaps:
        ticks = np.empty(process.sums.of_launches)
        work = process.recording.device_work(ticks)
        device.add(ticks)
        del ticks
        times = slice_times(execution, process, own=own_life)
        whole = float(times.sum())
        kernel = _gaps(process, work, device, times, execution.record.tsc_hz)
        gaps.add(times[: len(kernel)])
        del times
        rows = ((piece, gaps.read(piece)[0]) for piece in pieces(len(kernel)))
        grouped = ByCluster.of_pieces(kernel, rows)
    phases = 0.0
    for number in range(len(work.names) + 1):
        own = grouped.of(number) if number + 2 < len(grouped.bounds) else np.empty(0)
        usual = float(np.median(own, overwrite_input=True)) if len(own) else 0.0
        phases += sum(
            float(np.maximum(own[piece] - usual, 0.0).sum()) for piece in pieces(len(own))
        )
    return whole, phases


def _gaps(
    process: Process, work: DeviceWork, device: Spilled, times: F64, hz: float
) -> npt.NDArray[np.signedinteger[Any]]:
    """Replaces the slices' times by the parts outside their kernels, 0 where unknown. Returns each
    slice's kernel, -1 for those apart from others."""
    kernel, window, done = work.kernel, process.window, 0
    kernel[work.builds[work.builds < len(kernel)]] = -1
    for piece in pieces(len(kernel)):
        own, on_device = kernel[piece], device.read(piece)[0]
        if window is not None:
            own[~window.ends[piece] & (own >= 0)] = len(work.names)
            own, on_device = own[window.wanted[piece]], on_device[window.wanted[piece]]
        here = slice(done, done + len(own))
        kernel[here], done = own, here.stop
        if not here.start and done:  # the first slice is apart
            kernel[0] = -1
        times[here] = np.nan_to_num(np.maximum(times[here] - on_device / hz, 0.0))
    return kernel[:done]
