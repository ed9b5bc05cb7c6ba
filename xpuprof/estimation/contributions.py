# SPDX-License-Identifier: Apache-2.0
"""Where a projection's error comes from, cluster by cluster."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xpuprof.arrays import F64
from xpuprof.selection.selection import Selection


@dataclass(frozen=True)
class Contribution:
    """A cluster's part. Values are in the unit of the metric; the cluster -1 is not covered."""

    cluster: int
    slices: int
    representatives: int
    measured: float
    projected: float
    spread: float
    """Coefficient of variation of its slices' values."""
    gain: float
    """By how much one more representative lowers the standard error of the cluster's total, if the
    representatives were drawn at random: N s sqrt((1/n)(1 - n/N)), Cochran, Sampling Techniques,
    eq. 2.9."""


def _standard_error(values: F64, n: int) -> float:
    size = len(values)
    if size < 2 or n < 1 or n >= size:
        return 0.0
    return size * float(values.std(ddof=1)) * float(np.sqrt((1 / n) * (1 - n / size)))


def contributions(selection: Selection, values: F64) -> tuple[Contribution, ...]:
    """One per cluster, by decreasing share of the total. `values`: float64[slices]."""
    chosen: dict[int, list[int]] = {}
    projected: dict[int, float] = {}
    for r in selection.representatives:
        chosen.setdefault(r.cluster, []).append(r.slice)
        projected[r.cluster] = projected.get(r.cluster, 0.0) + values[r.slice] * r.multiplier
    order = np.argsort(selection.labels, kind="stable")
    clusters, starts = np.unique(selection.labels[order], return_index=True)
    found = []
    for cluster, rows in zip(clusters.tolist(), np.split(order, starts[1:]), strict=True):
        own = values[rows]
        mean = float(own.mean())
        n = len(set(chosen.get(cluster, ())))
        found.append(
            Contribution(
                cluster=cluster,
                slices=len(rows),
                representatives=n,
                measured=float(own.sum()),
                projected=projected.get(cluster, 0.0),
                spread=float(own.std()) / mean if mean else 0.0,
                gain=_standard_error(own, n) - _standard_error(own, n + 1) if n else 0.0,
            )
        )
    return tuple(sorted(found, key=lambda c: -c.measured))
