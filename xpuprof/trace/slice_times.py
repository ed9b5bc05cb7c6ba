# SPDX-License-Identifier: Apache-2.0
"""Slice times of an execution, in seconds; trace/boundaries.py defines where slices end."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from xpuprof.errors import TraceError
from xpuprof.trace.boundaries import slice_ends, slice_ticks
from xpuprof.trace.pieces import pieces
from xpuprof.trace.tables import Execution, Process


def main_process(execution: Execution) -> Process:
    """The process with the most device work: most launches, then most CPU instructions."""
    return max(execution.processes, key=lambda p: (p.sums.launches, p.sums.cpu_instructions))


def slice_times(
    execution: Execution, process: Process, *, own: bool = False
) -> npt.NDArray[np.float64]:
    """float64[slices], seconds; adds up to tsc_end - tsc_start of the execution, with `own` to the
    lifetime of the process, and with a window to the time in it. Raises TraceError when the
    execution has no start stamp."""
    start, end = _extent(execution, process, own)
    ticks = slice_ticks(process, start, end)
    times = ticks.view(np.float64)
    for piece in pieces(len(ticks)):  # in place
        times[piece] = ticks[piece] / execution.record.tsc_hz
    return times


def slice_spans(
    execution: Execution, process: Process, *, own: bool = False
) -> npt.NDArray[np.int64]:
    """int64[slices, 2], ticks: where each slice begins and ends; `own` and errors as above."""
    start, end = _extent(execution, process, own)
    ends = slice_ends(process, start, end)
    return np.stack([ends - slice_ticks(process, start, end), ends], axis=1)


def _extent(execution: Execution, process: Process, own: bool) -> tuple[int, int | None]:
    """Ticks at which the slices of a process begin and end.

    With `own` the process is one of several: its slices begin when it was created (to the kernel's
    clock tick, 10 ms) and end when it ended (after `_exit`: at its last recorded tick). Raises
    TraceError when the execution has no start stamp.
    """
    start = execution.record.tsc_start or process.meta.tsc_load
    if not start:
        raise TraceError(
            f"{execution.name} has no stamp of its start, so its slices have no times; run "
            "xpuprof time again"
        )
    end = execution.record.tsc_end or None
    if own:
        return _life(process, start, end, execution.record.tsc_hz)
    return start, end


def _life(process: Process, start: int, end: int | None, hz: float) -> tuple[int, int | None]:
    """Ticks at which a process began and ended, within [start, end]."""
    loaded, age = process.meta.tsc_load, process.meta.age_ns
    began = loaded - int(age * hz / 1e9) if loaded and age else start
    ended = process.meta.tsc_exit or process.recording.last_stamp() or end
    if ended is not None and end is not None:
        ended = min(ended, end)
    return max(began, start), ended
