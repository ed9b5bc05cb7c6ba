# SPDX-License-Identifier: Apache-2.0
"""A run's length from the recorded order of its kernels and the representatives' times."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from xpuprof.arrays import F64, I64
from xpuprof.errors import InputError
from xpuprof.estimation.projection import rows_of
from xpuprof.estimation.timeline import Order, Timeline, timeline
from xpuprof.formats.results import read_results
from xpuprof.formats.units import TIME_UNITS, unit_of, words_of
from xpuprof.selection.origin import require_origin
from xpuprof.selection.selection import Selection
from xpuprof.trace.coordinates import EXIT_KERNEL
from xpuprof.trace.imported import ImportedSlices
from xpuprof.trace.processes import Job, job_of
from xpuprof.trace.run import Run
from xpuprof.trace.slice_times import slice_spans
from xpuprof.trace.tables import Execution, Process

NO_EVENTS = (
    "events between streams and the host's waits are not recorded: a kernel is taken to have "
    "waited for the kernel of its process that ended last before it started"
)
NO_COPIES = "copies are not replayed: they are part of the gaps between kernels"
RANKS = "waits between processes are not recorded: each process keeps its own order"


def replay_run(
    selection: Selection,
    recording: str | Path,
    results: Sequence[str] = (),
    metric: str = "",
    *,
    same_machine: bool = False,
) -> Timeline:
    """Replay the kernels of `recording`, a run directory with the selection's slices.

    Without `results` the representatives take their recorded times; with them those of `metric`, in
    the unit that its name ends with, or seconds. Raises InputError when the recording has other
    slices, or lacks the kernels' times, and when `metric` is not a time.
    """
    run = Run.open(recording)
    require_origin(selection, run)
    order, own = _imported(run.path) if ImportedSlices.present(run.path) else _recorded(run)
    if len(own) != selection.slices:
        raise InputError(
            f"{recording} has {len(own)} slices, the selection {selection.slices}: name the "
            "recording that the selection was made from"
        )
    if not results:
        return timeline(selection, order, own)
    found = read_results(results, selection)
    if metric not in found[0]:
        raise InputError(
            f"--timeline needs the metric of the results that holds the kernels' times (--metric "
            f"NAME); they have {', '.join(found[0])}"
        )
    unit = _seconds_per_unit(metric)
    values = np.full(selection.slices, np.nan)
    rows = rows_of(selection)
    values[rows] = [found[i][metric] * unit for i in range(len(rows))]
    return timeline(selection, order, values, elsewhere=not same_machine)


def _seconds_per_unit(metric: str) -> float:
    """From the name of a metric; without a unit it is in seconds. Raises InputError if it does not
    name a time."""
    unit = unit_of(metric)
    if not (unit or {"time", "duration", "seconds", "s"} & set(words_of(metric))):
        raise InputError(
            f"{metric} is not a time, which --timeline adds to the gaps between kernels; give each "
            "region a metric such as time_us (cycles divided by the clock rate)"
        )
    return TIME_UNITS[unit] if unit else 1.0


def _imported(run: Path) -> tuple[Order, F64]:
    """The order of an import, and the kernel time of every slice."""
    source = ImportedSlices(run)
    table = source.table()
    if "start" not in table or "gpu_time" not in source.metrics:
        raise InputError(
            f"{run} does not tell when its kernels started: only timelines do (nsys, kineto, "
            "rocprofv3, rocpd, mgpusim, chakra); import the recording again if an earlier version "
            "imported it"
        )
    time = np.asarray(source.column("gpu_time"), dtype=np.float64)
    whole = np.asarray(source.column("time"), dtype=np.float64)
    length = float(np.bincount(table["process"], whole).max())
    start = table["start"].to_numpy(np.float64)
    return _order(table, start, start + time, length), time


def _recorded(run: Run) -> tuple[Order, F64]:
    """The order of the timer run of median length, and the kernel time of each of its slices."""
    if not run.times:
        raise InputError(f"{run.path} holds no timer run; record one with: xpuprof run -- ./app")
    middle = sorted(run.times, key=lambda timed: job_of(timed).times().sum())[len(run.times) // 2]
    order = _order_of_execution(middle)
    time = np.zeros(sum(key.slices for key in job_of(middle).keys))
    time[order.slice] = order.duration
    return order, time


def _order_of_execution(execution: Execution) -> Order:
    """Kernels by the device's stamps. Raises InputError when the device gave none."""
    job, record = job_of(execution), execution.record
    tables, lengths = [], []
    begin = 0
    for number, process in enumerate(job.processes):
        inside = np.flatnonzero(process.launches["inside"])
        own = process.launches.iloc[inside]
        origins, length = _origins(job, process)
        tables.append(
            pd.DataFrame(
                {
                    "kernel": own["kernel"].to_numpy(),
                    "slice": begin + inside,
                    "process": number,
                    "device": own["device"].to_numpy(),
                    "stream": own["queue"].to_numpy(),
                    "start": own["dev_start"].to_numpy(),
                    "end": own["dev_end"].to_numpy(),
                    "origin": origins[inside],
                }
            )
        )
        lengths.append(length)
        begin += process.sums.slices
    table = pd.concat(tables, ignore_index=True)
    if not (table["end"] > 0).all():
        raise InputError(
            f"{execution.name} has no device stamps of some kernels, so their order in time is "
            "unknown; time the program again with --timer async"
        )
    start, end = (
        (table[name] - table["origin"]).to_numpy(np.float64) / record.tsc_hz
        for name in ("start", "end")
    )
    return _order(table, start, end, max(max(lengths) / record.tsc_hz, float(end.max())))


def _origins(job: Job, process: Process) -> tuple[I64, int]:
    """int64[slices], ticks: where time is 0, and the length in ticks. A window's time runs only
    while it is open; without one, the time of several processes is that of the execution."""
    execution, record = job.execution, job.execution.record
    if job.several and process.window is None:
        start = record.tsc_start or process.meta.tsc_load
        return np.full(process.sums.slices, start), (record.tsc_end or start) - start
    spans = slice_spans(execution, process, own=job.own_lives)
    passed = np.cumsum(spans[:, 1] - spans[:, 0])
    return spans[:, 1] - passed, int(passed[-1])


def _order(table: pd.DataFrame, start: F64, end: F64, length: float) -> Order:
    """The table's kernels by their starts; without the slices that no kernel ends."""
    kernels = np.flatnonzero(table["kernel"].astype(str) != EXIT_KERNEL)
    rows = kernels[np.argsort(start[kernels], kind="stable")]
    slices = table["slice"].to_numpy(np.int64)
    process = table["process"].to_numpy(np.int64)[rows]
    several = len(np.unique(process)) > 1
    return Order(
        slice=slices[rows],
        kernel=tuple(table["kernel"].astype(str).to_numpy()[rows].tolist()),
        process=process,
        device=table["device"].to_numpy(np.int64)[rows],
        stream=table["stream"].to_numpy(np.int64)[rows],
        start=start[rows],
        end=end[rows],
        length=length,
        lacks=(NO_EVENTS, NO_COPIES, *([RANKS] * several)),
    )
