"""Slice times of an execution, in seconds; trace/boundaries.py defines where slices end."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from xpuprof.errors import TraceError
from xpuprof.trace.boundaries import boundaries
from xpuprof.trace.tables import Execution, Process


def main_process(execution: Execution) -> Process:
    """The process with the device work: most launches, then most CPU instructions."""
    return max(
        execution.processes,
        key=lambda p: (len(p.launches), int(p.slices["cpu_instructions"].sum())),
    )


def slice_times(execution: Execution, process: Process) -> npt.NDArray[np.float64]:
    """float64[slices], seconds; adds up to tsc_end - tsc_start of the execution.

    Of several processes each has its own slices, which all begin with the execution; the one to be
    taken is the one with device work (`main_process`). Raises TraceError when the execution has no
    stamp of its start.
    """
    start = int(execution.record.get("tsc_start") or process.meta.get("tsc_load") or 0)
    if not start:
        raise TraceError(
            f"{execution.name} has no stamp of its start, so its slices have no times; run "
            "xpuprof time again"
        )
    ticks = np.diff(boundaries(process, start, execution.record.get("tsc_end") or None))
    return ticks / float(execution.record["tsc_hz"])
