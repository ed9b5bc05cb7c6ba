"""Projection from representatives, sampling error, speedup (XPU-Point, section VI)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from xpuprof.errors import InputError
from xpuprof.selection.selection import Selection


def project(selection: Selection, values: npt.NDArray[np.float64]) -> float:
    """P_proj = sum P_i x multiplier_i over the representatives.

    `values[i]` is the metric of slice i (extensive, any unit); only the representatives' are read.
    """
    return float(sum(values[r.slice] * r.multiplier for r in selection.representatives))


def sampling_error(projected: float, measured: float) -> float:
    """|1 - P_proj / P_real|, a fraction. InputError when nothing was measured (P_real is 0)."""
    if measured == 0.0:
        raise InputError("the measured total is 0: there is nothing to hold a projection against")
    return abs(1.0 - projected / measured)


def speedup(selection: Selection) -> float:
    """num_slices / N, the serial reduction in work by the number of slices."""
    return selection.slices / len({(r.process, r.slice) for r in selection.representatives})
