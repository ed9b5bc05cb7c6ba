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
    its cluster. Fewer repeats cannot tell a disturbance from the program: then the mean. Whole-run
    and projected time are both sums of these, so they compare like with like.
    """
    rows = np.atleast_2d(np.asarray(times, dtype=np.float64))
    middle = np.median if len(rows) >= ENOUGH_FOR_MEDIAN else np.mean
    return np.asarray(middle(rows, axis=0), dtype=np.float64)
