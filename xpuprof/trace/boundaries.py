# SPDX-License-Identifier: Apache-2.0
"""Where slices begin and end.

Boundary i is the moment when all kernels launched up to i have completed: the running maximum of
their completions. A launch's completion is its end on the device if known, else the moment when the
host saw it completed, else the moment of its launch (it cannot have completed before). Slices
therefore never overlap, are never negative, and add up exactly to the execution, or to the window.
"""

from __future__ import annotations

import numpy as np

from xpuprof.arrays import I64
from xpuprof.trace.pieces import pieces
from xpuprof.trace.tables import Process
from xpuprof.trace.window import ticks_in


def slice_ticks(process: Process, start: int, end: int | None) -> I64:
    """int64[slices]: duration of each slice; with a window, the part inside it."""
    marks = boundaries(process, start, end)
    if process.window is not None:
        return ticks_in(process.window, marks)
    for piece in pieces(len(marks) - 1):  # in place
        marks[piece] = np.diff(marks[piece.start : piece.stop + 1])
    return marks[:-1]


def slice_ends(process: Process, start: int, end: int | None) -> I64:
    """int64[slices], ticks: end of each slice."""
    window, marks = process.window, boundaries(process, start, end)
    if window is None:
        return marks[1:]
    rows, in_window = window.rows, ticks_in(window, marks)
    return np.where(window.inside, marks[rows + 1], marks[rows] + in_window)


def boundaries(process: Process, start: int, end: int | None) -> I64:
    """int64[slices + 1] ticks: `start`, then the end of each slice of the whole process.

    `start` and `end` are the execution's stamps; `end` is None for an execution that never ended,
    whose last slice has no end.
    """
    launches, slices = process.sums.of_launches, process.sums.of_slices
    marks = np.zeros(slices + 1, np.int64)
    marks[0] = start
    process.recording.fill_completions(marks[1 : launches + 1])
    latest = start
    for piece in pieces(slices + 1):
        own = marks[piece]
        own[0] = max(latest, own[0])
        np.maximum.accumulate(own, out=own)
        latest = int(own[-1])
    if slices > launches and end is not None:
        marks[-1] = max(latest, end)
    # The device's clock may be slightly off.
    return marks if end is None else np.minimum(marks, end, out=marks)
