"""Where slices begin and end.

Boundary i is the moment when all kernels launched up to i have completed: the running maximum of
their completions. A launch's completion is its end on the device where that is known, else the
moment when the host saw it completed, else the moment of its launch (it cannot have completed
before). Slices therefore never overlap, are never negative, and add up exactly to the execution.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from xpuprof.trace.tables import Process


def boundaries(process: Process, start: int, end: int | None) -> npt.NDArray[np.int64]:
    """int64[slices + 1] ticks: `start`, then the end of each slice.

    `start` and `end` are the execution's stamps; the end of one that never ended is None, and such
    a process has no slice that ends with it.
    """
    launches = process.launches
    completion = np.zeros(len(launches), np.int64)
    for column in ("tsc_run", "tsc_complete", "dev_end"):  # each overrides the one before
        stamps = launches[column].to_numpy().astype(np.int64)
        completion = np.where(stamps != 0, stamps, completion)
    marks = np.concatenate([[start], completion])
    if len(process.slices) > len(launches):
        marks = np.append(marks, marks.max() if end is None else end)
    if end is not None:  # the device's clock may be off by a little
        marks = np.minimum(marks, end)
    return np.maximum.accumulate(marks)
