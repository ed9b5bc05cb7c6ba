# SPDX-License-Identifier: Apache-2.0
"""Selections with one measured slice per cluster.

These methods cluster kernels. The slice after a process's last kernel belongs to no cluster, and
neither does the first slice when its time includes program start-up. Both represent themselves, so
every method estimates the same whole run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from xpuprof.arrays import F64, I64
from xpuprof.errors import InputError
from xpuprof.methods.profile import SliceProfile
from xpuprof.selection.design import Design
from xpuprof.selection.results import Scores
from xpuprof.selection.selection import Selection
from xpuprof.trace.coordinates import NO_KERNELS

Setting = TypeVar("Setting", int, float)
ROUNDING = 1e-12
"""Distances that differ by less than this share of the largest coordinate are equal."""


def without_kernel(profile: SliceProfile) -> npt.NDArray[np.bool_]:
    """Whether each slice ends with no kernel, but with the process or its window."""
    codes, names = profile.kernel_codes()
    return np.isin(codes, [code for code, name in enumerate(names) if name in NO_KERNELS])


def kernel_rows(profile: SliceProfile) -> I64:
    """Rows of the slices that end with a kernel. Raises InputError when there are none."""
    rows = np.flatnonzero(~without_kernel(profile))
    if profile.startup and len(rows) > 1:
        own = profile.slices.get("process", np.zeros(len(profile)))
        first = np.unique(np.asarray(own), return_index=True)[1]
        rows = np.setdiff1d(rows, first, assume_unique=True)
    if not len(rows):
        raise InputError(
            f"{profile.name} has no kernel launch to choose; record a program that launches kernels"
        )
    return rows


def dense(labels: npt.NDArray[Any]) -> I64:
    """Renumber labels from 0 in order of first appearance."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[inverse]


def first_of_each(labels: I64) -> I64:
    """Position of the first member of each (dense) cluster: first chronological."""
    return np.unique(labels, return_index=True)[1]


def nearest_to_centre(labels: I64, points: F64) -> I64:
    """Position of the member nearest to the mean of each (dense) cluster, the first of equals, as
    the members of a pair are, whatever rounding says."""
    size = np.bincount(labels).astype(np.float64)
    centre = np.column_stack([np.bincount(labels, weights=column) for column in points.T])
    mean = centre / size[:, None]
    distance = np.sqrt(((points - mean[labels]) ** 2).sum(axis=1))
    least = np.full(len(size), np.inf)
    np.minimum.at(least, labels, distance)
    near = np.flatnonzero(distance <= least[labels] + ROUNDING * np.abs(points).max())
    return near[np.unique(labels[near], return_index=True)[1]]


def least_error(
    clusterings: Iterable[tuple[Setting, I64, I64]], times: F64, target: float, work: F64 | None
) -> tuple[Setting, I64, I64, dict[str, float]]:
    """The first clustering whose profiled error is below `target`, else the one with the smallest
    error.

    A clustering is (setting, labels, chosen); `work` as in `select`. Returns its setting, labels
    and chosen, and the error of every setting tried."""
    total = float(times.sum())
    best: tuple[Setting, I64, I64] | None = None
    errors: dict[str, float] = {}
    for setting, labels, chosen in clusterings:
        projected = float(np.dot(times[chosen], multipliers(labels, chosen, work)))
        error = abs(1.0 - projected / total) if total else 0.0
        if best is None or error < min(errors.values()):
            best = (setting, labels, chosen)
        errors[f"{setting:g}"] = error
        if error < target:
            break
    assert best is not None
    setting, labels, chosen = best
    return setting, labels, chosen, errors


def multipliers(labels: I64, chosen: I64, work: F64 | None) -> F64:
    """Multiplier of each representative (see `select`), one per cluster."""
    size = np.bincount(labels).astype(np.float64)
    if work is None:
        return size
    own = work[chosen]
    ratio = np.bincount(labels, weights=work) / np.where(own > 0.0, own, 1.0)
    return np.where(own > 0.0, ratio, size)


def select(
    profile: SliceProfile,
    rows: I64,
    labels: I64,
    chosen: I64,
    *,
    method: str,
    parameters: Mapping[str, Any],
    seed: int,
    basis: str,
    work: F64 | None = None,
    scores: Mapping[str, object] | None = None,
) -> Selection:
    """A selection with one slice per cluster.

    `rows`: slices that were clustered, `labels`: their dense clusters, `chosen[c]`: position in
    `rows` of cluster c's representative. Its multiplier is the number of members or, with `work`
    (instructions of each of `rows`), the cluster's work over the representative's: equal IPC rather
    than equal time. `scores`: `Scores.own`.
    """
    size = np.bincount(labels).astype(np.float64)
    multiplier = multipliers(labels, chosen, work)
    rest = np.setdiff1d(np.arange(len(profile)), rows)
    clusters = len(size)
    full = np.empty(len(profile), dtype=np.int32)
    full[rows] = labels
    full[rest] = clusters + np.arange(len(rest))
    ones = np.ones(len(rest))
    return Selection(
        method=method,
        parameters=dict(parameters),
        seed=seed,
        representatives=profile.representatives(
            np.concatenate([rows[chosen], rest]),
            np.concatenate([np.arange(clusters), full[rest]]),
            np.concatenate([multiplier, ones]),
            np.concatenate([size, ones]) / len(profile),
        ),
        labels=full,
        design=Design.picked(basis),
        scores=Scores(own=scores or {}),
        summary=profile.summary(),
    )
