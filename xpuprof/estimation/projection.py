# SPDX-License-Identifier: Apache-2.0
"""Projection from representatives, sampling error, speedup (XPU-Point, section VI)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from xpuprof.errors import InputError
from xpuprof.selection.selection import Selection

F64 = npt.NDArray[np.float64]


def project(selection: Selection, values: npt.NDArray[np.float64]) -> float:
    """P_proj = sum P_i x multiplier_i over the representatives.

    `values[i]` is the metric of slice i (extensive, any unit); only representatives' are read.
    """
    return float(sum(values[r.slice] * r.multiplier for r in selection.representatives))


def sampling_error(projected: float, measured: float) -> float:
    """|1 - P_proj / P_real|, a fraction. InputError when nothing was measured (P_real is 0)."""
    if measured == 0.0:
        raise InputError("the measured total is 0, so no sampling error can be stated")
    return abs(1.0 - projected / measured)


def slice_reduction(selection: Selection) -> float:
    """Slice reduction: slices of the run per slice to measure (XPU-Point's speedup, section VI)."""
    return selection.slices / len(chosen_slices(selection))


def time_speedup(selection: Selection, times: F64) -> float:
    """Measured time of the run over that of the representatives, each counted once however often it
    was drawn. `times`: float64[slices]."""
    own = float(times[chosen_slices(selection)].sum())
    return float(times.sum()) / own if own else float("inf")


def chosen_slices(selection: Selection) -> npt.NDArray[np.int64]:
    """The slices to measure, each once, in order."""
    return np.unique([r.slice for r in selection.representatives])
