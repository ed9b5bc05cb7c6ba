# SPDX-License-Identifier: Apache-2.0
"""One time per slice from several runs."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from xpuprof.trace.pieces import pieces

F64 = npt.NDArray[np.float64]

ENOUGH_FOR_MEDIAN = 3


def typical_times(times: F64) -> F64:
    """Typical time of each slice: float64[slices] from float64[repeats, slices] (or one repeat).

    With three or more repeats, the median per slice. Occasional disturbances of milliseconds
    (another process, an interrupt) hit a slice of microseconds in one run; they are not the
    program's, yet would be multiplied a thousandfold if that slice represents its cluster. The
    medians are scaled so that they add up to the median run's measured total. Fewer repeats cannot
    separate disturbances from the program, so they give the mean. Medians are not scaled if a slice
    was not measured (NaN).
    """
    rows = np.atleast_2d(np.asarray(times, dtype=np.float64))
    if len(rows) < ENOUGH_FOR_MEDIAN:
        mean: F64 = rows.mean(axis=0)
        return mean
    typical = np.empty(rows.shape[1])
    for piece in pieces(len(typical)):  # np.median copies what it gets
        typical[piece] = np.median(rows[:, piece], axis=0)
    total, kept = float(np.median(rows.sum(axis=1))), float(typical.sum())
    if np.isfinite(total) and kept > 0.0:
        typical *= total / kept
    return typical
