"""Slice times of an execution.

Boundary i is the moment when all kernels launched up to i have completed: the running maximum of
their completions. A launch's completion is its end on the device where that is known, else the
moment when the host saw it completed, else the moment of its launch (it cannot have completed
before). Slices therefore never overlap, are never negative, and add up exactly to the execution.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from xpuprof.errors import TraceError
from xpuprof.trace.tables import Execution, Process


def main_process(execution: Execution) -> Process:
    """The process with the device work: most launches, then most CPU instructions."""
    return max(
        execution.processes,
        key=lambda p: (len(p.launches), int(p.slices["cpu_instructions"].sum())),
    )


def boundaries(execution: Execution, process: Process) -> npt.NDArray[np.int64]:
    """int64[slices + 1] ticks: the execution's start, the end of each slice of `process`.

    Raises TraceError when the execution has no stamp of its start.
    """
    start, end = (int(execution.record.get(key) or 0) for key in ("tsc_start", "tsc_end"))
    start = start or int(process.meta.get("tsc_load", 0))
    launches = process.launches
    if not start:
        raise TraceError(
            f"{execution.name} has no stamp of its start, so its slices have no times; run "
            "xpuprof time again"
        )
    completion = np.zeros(len(launches), np.int64)
    for column in ("tsc_run", "tsc_complete", "dev_end"):  # the better known overrides
        stamps = launches[column].to_numpy().astype(np.int64)
        completion = np.where(stamps != 0, stamps, completion)
    marks = np.concatenate([[start], completion])
    if len(process.slices) > len(launches):
        marks = np.append(marks, end or marks.max())
    if end:  # a device clock may be off by a little
        marks = np.minimum(marks, end)
    return np.maximum.accumulate(marks)


def slice_times(execution: Execution, process: Process) -> npt.NDArray[np.float64]:
    """float64[slices], seconds; adds up to tsc_end - tsc_start of the execution."""
    ticks = np.diff(boundaries(execution, process))
    return ticks / float(execution.record["tsc_hz"])
