# SPDX-License-Identifier: Apache-2.0
"""Where slices begin and end.

Boundary i is the moment when all kernels launched up to i have completed: the running maximum of
their completions. A launch's completion is its end on the device if known, else the moment when the
host saw it completed, else the moment of its launch (it cannot have completed before). Slices
therefore never overlap, are never negative, and add up exactly to the execution, or to the window.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from xpuprof.trace.tables import Process
from xpuprof.trace.window import ticks_in


def slice_ticks(process: Process, start: int, end: int | None) -> npt.NDArray[np.int64]:
    """int64[slices]: duration of each slice; with a window, the part inside it."""
    if process.window is None or process.window.whole is None:
        return np.diff(boundaries(process, start, end))
    return ticks_in(process.window, boundaries(process.window.whole, start, end))


def slice_ends(process: Process, start: int, end: int | None) -> npt.NDArray[np.int64]:
    """int64[slices], ticks: end of each slice."""
    window = process.window
    if window is None or window.whole is None:
        return boundaries(process, start, end)[1:]
    marks = boundaries(window.whole, start, end)
    in_window = ticks_in(window, marks)
    return np.where(window.inside, marks[window.rows + 1], marks[window.rows] + in_window)


def boundaries(process: Process, start: int, end: int | None) -> npt.NDArray[np.int64]:
    """int64[slices + 1] ticks: `start`, then the end of each slice of a whole process.

    `start` and `end` are the execution's stamps; `end` is None for an execution that never ended,
    whose last slice has no end.
    """
    launches = process.launches
    completion = np.zeros(len(launches), np.int64)
    for column in ("tsc_run", "tsc_complete", "dev_end"):  # each overrides the previous one
        stamps = launches[column].to_numpy().astype(np.int64)
        completion = np.where(stamps != 0, stamps, completion)
    marks = np.concatenate([[start], completion])
    if len(process.slices) > len(launches):
        marks = np.append(marks, marks.max() if end is None else end)
    if end is not None:  # the device's clock may be slightly off
        marks = np.minimum(marks, end)
    return np.maximum.accumulate(marks)
