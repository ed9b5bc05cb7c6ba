# SPDX-License-Identifier: Apache-2.0
"""Projection from representatives, sampling error, speedup (XPU-Point, section VI)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from xpuprof.arrays import F64, I64
from xpuprof.errors import InputError
from xpuprof.estimation.measured import Measured
from xpuprof.selection.selection import Selection


def project(selection: Selection, values: F64 | Mapping[int, float]) -> float:
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
    themselves and can dominate a short run; None if they do not, there are several processes, or
    the run covers a window, whose ends are neither start-up nor exit.
    `measured`: the representatives' share of the run. `unmeasured`: the error over the rest of the
    run, which alone is projected; None if there is none.
    """

    error: float
    inner: float | None
    measured: float
    unmeasured: float | None


def accuracy(selection: Selection, measured: Measured, projected: float) -> Accuracy:
    """`measured`: the metric's typical values, of which `projected` is the estimate. InputError
    when they add up to 0."""
    total, own = measured.total, _chosen_sum(selection, measured)
    error = sampling_error(projected, total)
    left = total - own
    unmeasured = error * total / left if left > 1e-9 * total else None
    return Accuracy(error, _inner_error(selection, measured), own / total, unmeasured)


def _inner_error(selection: Selection, measured: Measured) -> float | None:
    ends = {0, selection.slices - 1}
    alone = [
        r.slice in ends
        for r in selection.representatives
        if r.multiplier == 1.0 and selection.sizes[r.cluster] == 1
    ]
    several = len(selection.identity.processes) > 1
    if several or selection.window or sum(alone) != len(ends) or not measured.inner:
        return None
    projected = sum(
        measured.of[r.slice] * r.multiplier
        for r in selection.representatives
        if r.slice not in ends
    )
    return sampling_error(projected, measured.inner)


def slice_reduction(selection: Selection) -> float:
    """Slice reduction: slices of the run per slice to measure (XPU-Point's speedup, section VI)."""
    return selection.slices / len(chosen_slices(selection))


def time_speedup(selection: Selection, measured: Measured) -> float:
    """Measured time of the run over that of the representatives, each counted once however often it
    was drawn."""
    own = _chosen_sum(selection, measured)
    return measured.total / own if own else float("inf")


def _chosen_sum(selection: Selection, measured: Measured) -> float:
    return sum(measured.of[row] for row in chosen_slices(selection).tolist())


def chosen_slices(selection: Selection) -> I64:
    """The slices to measure, each once, in order."""
    return np.unique(rows_of(selection))


def rows_of(selection: Selection) -> I64:
    """The slice of each representative, in their order."""
    return np.array([r.slice for r in selection.representatives], dtype=np.int64)


def clusters_of(selection: Selection) -> I64:
    """The cluster of each representative, in their order."""
    return np.array([r.cluster for r in selection.representatives], dtype=np.int64)


def multipliers_of(selection: Selection) -> F64:
    """The multiplier of each representative, in their order."""
    return np.array([r.multiplier for r in selection.representatives])
