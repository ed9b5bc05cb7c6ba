# SPDX-License-Identifier: Apache-2.0
"""Projection from representatives, sampling error, speedup (XPU-Point, section VI)."""

from __future__ import annotations

from dataclasses import dataclass

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


@dataclass(frozen=True)
class Accuracy:
    """How well a selection projects a run whose every slice was measured, as fractions.

    `error`: the sampling error. `inner`: without the first and the last slice, which represent
    themselves and can dominate a short run; None if they do not, or there are several processes.
    `measured`: the representatives' share of the run. `unmeasured`: the error over the rest of the
    run, which alone is projected; None if there is none.
    """

    error: float
    inner: float | None
    measured: float
    unmeasured: float | None


def accuracy(selection: Selection, values: F64, projected: float) -> Accuracy:
    """`values`: float64[slices], the metric's typical values, of which `projected` is the estimate.
    InputError when they add up to 0."""
    total, own = float(values.sum()), float(values[chosen_slices(selection)].sum())
    error = sampling_error(projected, total)
    left = total - own
    unmeasured = error * total / left if left > 1e-9 * total else None
    return Accuracy(error, _inner_error(selection, values), own / total, unmeasured)


def _inner_error(selection: Selection, values: F64) -> float | None:
    ends, clusters = {0, selection.slices - 1}, np.bincount(selection.labels + 1)
    alone = [
        r.slice in ends
        for r in selection.representatives
        if r.multiplier == 1.0 and clusters[r.cluster + 1] == 1
    ]
    inner = float(values[1:-1].sum())
    several = len(selection.identity.get("processes", ())) > 1
    if several or sum(alone) != len(ends) or not inner:
        return None
    projected = sum(
        float(values[r.slice]) * r.multiplier
        for r in selection.representatives
        if r.slice not in ends
    )
    return sampling_error(projected, inner)


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
