# SPDX-License-Identifier: Apache-2.0
"""The error of a choice of representatives when every slice was measured: the choice is repeated
DRAWS times by the selection's `Design`, and the interval holds the stated share of the draws."""

from __future__ import annotations

import math

import numpy as np

from xpuprof.arrays import F64, I64
from xpuprof.estimation.measured import ByCluster
from xpuprof.estimation.projection import clusters_of, multipliers_of, rows_of
from xpuprof.estimation.redrawing import DRAWS, errors_of_total, ranked_means
from xpuprof.selection.selection import Selection

REDRAWN = "spread of the measured times within the clusters, by drawing other representatives"


def half_width(errors: F64, confidence: float) -> float:
    """The half-width that contains the share `confidence` of drawn errors."""
    rank = min(math.ceil(confidence * (len(errors) + 1)), len(errors)) - 1
    return float(np.sort(np.abs(errors))[rank])


def known_spread(
    selection: Selection, known: ByCluster, value: float, confidence: float
) -> tuple[float, str]:
    """Half-width of the projection `value` when every slice of the covered clusters was timed. If
    the uncovered slices were timed too, it includes their difference from the others."""
    stands_for, timed = represented(selection), bool(np.isfinite(known.left_out).all())
    # With only part of the run timed, slices left out do not enter the comparison.
    truth = float(known.values.sum()) if timed else _total_of(selection, known, stands_for)
    errors = errors_of_part(selection, known, stands_for, truth)
    half = at_least_seen(selection, half_width(errors, confidence), value - truth)
    if selection.sizes.sum() == selection.slices:
        return half, REDRAWN
    return half, REDRAWN + (
        ", and the measured times of the slices left out"
        if timed
        else f"; holds for the {100 * selection.covered:.1f} % of slices that are covered"
    )


def at_least_seen(selection: Selection, half: float, error: float) -> float:
    """A half-width, or the `error` that was seen where it is larger and the choice a rule: a slice
    that is unlike its cluster is chosen again next time, a random one is not."""
    return max(half, abs(error)) if selection.design.how == "nearest" else half


def represented(selection: Selection) -> F64:
    """How many slices the representatives of each cluster stand for, uncovered ones included,
    float64[clusters]."""
    owner = clusters_of(selection)
    return np.bincount(owner, multipliers_of(selection), len(selection.sizes)).astype(np.float64)


def _total_of(selection: Selection, known: ByCluster, stands_for: F64) -> float:
    """Total of `stands_for` slices of each cluster, each at its cluster's mean."""
    clusters = np.flatnonzero(selection.sizes).tolist()
    return sum(float(stands_for[cluster] * known.of(cluster).mean()) for cluster in clusters)


def errors_of_part(selection: Selection, known: ByCluster, stands_for: F64, truth: float) -> F64:
    """Errors of the projected total of a part of the run, float64[DRAWS]: a slice costs the mean of
    its cluster's representatives. `stands_for`: its slices in each cluster, those that are not
    covered distributed among them; `truth`: its total."""
    rng = np.random.default_rng(selection.seed)
    errors, expected = np.zeros(DRAWS), 0.0
    if selection.design.how == "ranked":
        # Each rank stands for an equal part of its process, of which a part has its share.
        equal = np.concatenate(
            [np.full(len(own), selection.sizes[own].mean()) for own in _ranks(selection)]
        )
        weight = equal * stands_for / np.maximum(selection.sizes, 1)
        return rank_means(selection, known, rng) @ weight - truth
    for cluster, draws in draws_of(selection).items():
        values = known.of(cluster)
        share = float(stands_for[cluster]) / len(values)
        if share:
            errors += share * errors_of_total(selection.design, values, draws, rng)
            expected += share * float(values.sum())
    return errors + (expected - truth)


def rank_means(selection: Selection, known: ByCluster, rng: np.random.Generator) -> F64:
    """The means of a ranked selection's clusters, float64[DRAWS, clusters], drawn again."""
    draws = draws_of(selection)
    means = [
        ranked_means(known.of(process), sum(draws.get(c, 0) for c in own.tolist()), len(own), rng)
        for process, own in enumerate(_ranks(selection))
    ]
    return np.concatenate(means, axis=1)


def _ranks(selection: Selection) -> list[I64]:
    """The clusters of a ranked selection, by what they were drawn from."""
    every = np.arange(len(selection.sizes))
    ranks = selection.design.ranks
    found = [every] if ranks is None else np.split(every, np.cumsum(ranks)[:-1])
    return [own for own in found if len(own)]  # the last processes may be missing in another run


def draws_of(selection: Selection) -> dict[int, int]:
    """Draws from each cluster."""
    draws: dict[int, int] = {}
    for r in selection.representatives:
        draws[r.cluster] = draws.get(r.cluster, 0) + r.draws
    return draws


def mean_of_others(selection: Selection, mean: F64) -> F64:
    """What each cluster's unmeasured slices cost on average, float64[clusters]: a representative
    stands for itself and for as many others as its multiplier tells. `mean`: float64[slices]."""
    owner, multiplier = clusters_of(selection), multipliers_of(selection)
    # Above 0, so that a cluster whose representatives stand for themselves alone has a mean, too.
    others, measured = np.maximum(multiplier - 1.0, 1e-9), mean[rows_of(selection)]
    stands_for = np.bincount(owner, others, len(selection.sizes))
    projected = np.bincount(owner, others * measured, len(selection.sizes))
    return np.divide(projected, stands_for, out=np.zeros(len(stands_for)), where=stands_for > 0.0)
