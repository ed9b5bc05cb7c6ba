# SPDX-License-Identifier: Apache-2.0
"""One time a slice from several runs."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]

ENOUGH_FOR_MEDIAN = 3


def typical_times(times: F64) -> F64:
    """Typical time of each slice: float64[slices] from float64[repeats, slices] (or one repeat).

    From three repeats on the median, slice by slice: a run is disturbed now and then for
    milliseconds (another process, an interrupt), which lands on one slice of microseconds in one of
    the runs, is not the program's, and would count thousands of times where that slice stands for
    its cluster. What the medians leave out is given back to all slices in proportion, so that they
    add up to the time that the median run really took. Fewer repeats cannot tell a disturbance from
    the program: then the mean. Where a slice was not measured (NaN) nothing is given back.
    """
    rows = np.atleast_2d(np.asarray(times, dtype=np.float64))
    if len(rows) < ENOUGH_FOR_MEDIAN:
        mean: F64 = rows.mean(axis=0)
        return mean
    typical: F64 = np.median(rows, axis=0)
    total, kept = float(np.median(rows.sum(axis=1))), float(typical.sum())
    return typical * (total / kept) if np.isfinite(total) and kept > 0.0 else typical
