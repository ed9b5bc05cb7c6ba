# SPDX-License-Identifier: Apache-2.0
"""Projected totals of a whole run with their intervals; nothing else computes them.

The theory is stratified sampling (Cochran, Sampling Techniques, chapter 5): cluster c has N slices,
m of them are measured, the projected total is the sum over clusters of N x mean. The interval
follows from the selection's `Design` and the known times: those of every slice (known_spread.py),
or of the representatives only (sampled_spread.py). docs/intervals.md gives the reasons.
"""

from __future__ import annotations

import math

import numpy as np

from xpuprof.arrays import F64
from xpuprof.errors import InputError
from xpuprof.estimation.estimate import Estimate
from xpuprof.estimation.known_spread import (
    REDRAWN,
    at_least_seen,
    draws_of,
    errors_of_part,
    half_width,
    known_spread,
    mean_of_others,
    rank_means,
    represented,
)
from xpuprof.estimation.measured import ByCluster, Measured, by_cluster
from xpuprof.estimation.projection import clusters_of, multipliers_of, project, rows_of
from xpuprof.estimation.quantiles import CONFIDENCE, student, z_score
from xpuprof.estimation.redrawing import errors_of_total
from xpuprof.estimation.sampled_spread import (
    ALL_ZERO,
    Margins,
    Spread,
    half_of,
    margins_of,
    only_zeros,
    sampled_spread,
    samples_of,
    with_like_slices,
)
from xpuprof.estimation.stratified import error_bound
from xpuprof.estimation.typical_times import ENOUGH_FOR_MEDIAN, typical_times
from xpuprof.selection.design import Design
from xpuprof.selection.selection import Selection

BOUNDLESS = (
    "no interval: the error may be as large as the whole; choose more slices, or a method "
    "that forms strata by times"
)
MEANS = 2000
"""Draws of the clusters' means, for what does not add up."""


def estimate(
    selection: Selection,
    values: F64,
    confidence: float = CONFIDENCE,
    *,
    other_runs: bool = False,
    elsewhere: bool = False,
) -> Estimate:
    """Projected total of the run.

    `values`: float64[repeats, slices] (or one repeat: float64[slices]), any unit of an extensive
    metric, measured on this or another machine; NaN for unmeasured slices. Each slice enters with
    its typical value over the repeats (`typical_times`). The interval is for the sum of the typical
    values of these runs, the result of measuring every slice: it covers the choice of
    representatives, and its low end is never below the representatives' own sum. With `other_runs`
    it also covers the total of any single later run (a prediction interval; at least two repeats),
    and so its typical value. With `elsewhere` unmeasured slices may differ on the machine of
    `values` as no profiled time tells. A method without a theory of its error gets no interval.
    Raises InputError when a representative was not measured.
    """
    z_score(confidence)  # rejects an invalid confidence
    times = np.atleast_2d(np.asarray(values, dtype=np.float64))
    if times.shape[1] != selection.slices:
        raise InputError(
            f"{times.shape[1]} slice times for a selection of {selection.slices} slices: "
            "they come from different runs"
        )
    mean = typical_times(times)
    measured = mean[rows_of(selection)]
    if not np.isfinite(measured).all():
        missing = int(rows_of(selection)[~np.isfinite(measured)][0])
        raise InputError(f"slice {missing} is a representative, but its time was not measured")
    value = project(selection, mean)
    design = selection.design
    if design.no_interval:
        return Estimate(value, None, None, None, design.no_interval)
    known = by_cluster(selection, mean)
    all_known = bool(np.isfinite(known.covered).all())
    if all_known:
        half, basis = known_spread(selection, known, value, confidence)
        margins = Margins(half, half)
    else:
        samples = samples_of(selection, measured)
        spread = sampled_spread(selection, samples, measured, confidence, elsewhere)
        if isinstance(spread, str):
            return Estimate(value, None, None, None, spread)
        margins, basis = margins_of(samples, spread, confidence), spread.basis
    # Planned sigmas are scaled by the estimate, so the error is relative to the truth.
    relative = design.planned is not None and not all_known
    if relative and _is_boundless(design, value, margins.above, confidence, elsewhere):
        return Estimate(value, None, None, None, BOUNDLESS)
    floor = _floor(measured)
    if other_runs:
        margins = margins.beside(_next_run(selection, times, confidence))
        floor = min(floor, 0.0)  # a later run may take less than these representatives
        basis += f"; runs differ: Student's t over {len(times)} repeats, for one more run"
    return _bounded(value, margins, floor, confidence, basis, relative=relative and not other_runs)


def estimate_measured(
    selection: Selection, measured: Measured, known: ByCluster, confidence: float = CONFIDENCE
) -> Estimate:
    """`estimate` for the typical values of a run whose every slice was measured."""
    value, design = project(selection, measured.of), selection.design
    if design.no_interval:
        return Estimate(value, None, None, None, design.no_interval)
    half, basis = known_spread(selection, known, value, confidence)
    floor = _floor(np.array([measured.of[r.slice] for r in selection.representatives]))
    return _bounded(value, Margins(half, half), floor, confidence, basis)


def estimate_part(
    selection: Selection, values: F64, rows: slice, confidence: float = CONFIDENCE
) -> Estimate:
    """Projected total of the slices `rows` alone (one process of a job): its own representatives as
    measured, and for each other slice the mean cost of its cluster's representatives, in whichever
    process they are.

    The interval covers the choice of representatives as `estimate`'s does, and how far the part's
    slices of a cluster differ from the cluster (a domain estimate, Cochran, section 5A.13). All
    slices must have been timed; slices that are not covered are assumed to be like the part's
    others, and the interval covers the difference.
    """
    mean = typical_times(values)
    own, inside = mean[rows], selection.labels[rows]
    if (inside < 0).all():
        return Estimate(0.0, None, None, None, "no interval: none of its slices is covered")
    others = np.ones(len(own), dtype=bool)
    chosen = rows_of(selection)
    others[chosen[(chosen >= rows.start) & (chosen < rows.stop)] - rows.start] = False
    covered = others & (inside >= 0)
    part = np.bincount(inside[covered], minlength=len(selection.sizes)).astype(np.float64)
    scale = float(others.sum() / covered.sum()) if covered.any() else 0.0
    measured = float(own[~others].sum())
    value = measured + scale * float(np.dot(part, mean_of_others(selection, mean)))
    if selection.design.no_interval:
        return Estimate(value, None, None, None, selection.design.no_interval)
    # With only part of the run timed, slices left out do not enter the comparison.
    truth = own[others] if np.isfinite(own).all() else scale * own[covered]
    errors = errors_of_part(
        selection, by_cluster(selection, mean), scale * part, float(truth.sum())
    )
    seen = value - measured - float(truth.sum())
    half = at_least_seen(selection, half_width(errors, confidence), seen)
    return _bounded(value, Margins(half, half), _floor(own[~others]), confidence, REDRAWN)


def estimate_ratio(
    selection: Selection, numerator: F64, denominator: F64, confidence: float = CONFIDENCE
) -> Estimate:
    """The ratio of two projected totals, from the representatives' values in their order; the
    denominator's total is positive.

    By linearisation (Cochran, section 6.4): the error is that of the projected residuals over the
    projected denominator. Residuals spread about 0 for any metric, so neither a planned sigma nor
    another cluster's applies to them: every cluster needs two representatives.
    """
    multiplier = multipliers_of(selection)
    total = float(np.dot(denominator, multiplier))
    value = float(np.dot(numerator, multiplier)) / total
    if selection.design.no_interval:
        return Estimate(value, None, None, None, selection.design.no_interval)
    samples = samples_of(selection, numerator - value * denominator)
    if only_zeros(selection, samples, numerator):
        return Estimate(value, None, None, None, ALL_ZERO)
    if (samples.open & (samples.draws < 2.0)).any():
        basis = "no interval: a ratio needs two representatives of every cluster to have one"
        return Estimate(value, None, None, None, basis)
    basis = "linearised ratio; spread among the representatives of each cluster"
    spread = Spread(samples.variance, samples.freedom, basis)
    if selection.design.strata is None:
        like = samples_of(selection, numerator).mean
        spread = with_like_slices(samples.variance, samples.freedom, like, basis)
    half = half_of(samples, spread, confidence) / total
    floor = 0.0 if (numerator >= 0.0).all() else -math.inf
    return _bounded(value, Margins(half, half), floor, confidence, basis)


def one_run_error(selection: Selection, times: F64, confidence: float = CONFIDENCE) -> float:
    """Error bound for the projection of a later run from its representatives alone, as a fraction
    of that run's total. `times`: float64[repeats, slices], at least two repeats.

    The larger of two estimates. First, each repeat's projection error varies about the mean; one
    more lies within t s sqrt(1 + 1 / n) of it. Second, the mean half-width of the single repeats'
    intervals, which also includes disturbances that have so far hit other slices.
    """
    totals = times.sum(axis=1)
    projected = times[:, rows_of(selection)] @ multipliers_of(selection)
    errors = projected / totals - 1.0
    runs = len(errors)
    quantile = student(confidence, runs - 1) * math.sqrt(1.0 + 1.0 / runs)
    seen = abs(float(errors.mean())) + quantile * float(errors.std(ddof=1))
    halves = [
        known_spread(selection, by_cluster(selection, run), value, confidence)[0]
        for run, value in zip(times, projected.tolist(), strict=True)
    ]
    return max(seen, float(np.mean(halves / totals)))


def cluster_means(
    selection: Selection, values: F64, elsewhere: bool, confidence: float = CONFIDENCE
) -> tuple[F64, F64 | str]:
    """The mean of each cluster's representatives, float64[clusters], and what it might have been:
    float64[clusters, draws], or why that is unknown.

    `values`: float64[slices], NaN where not measured. If all are known the representatives are
    drawn again; otherwise the means stray by their standard errors, all of them by so much more
    that the total's interval at `confidence` is `estimate`'s: what is made of many means strays
    like their sum, and not like the worst of them.
    """
    measured = values[rows_of(selection)]
    owner, stands_for = clusters_of(selection), represented(selection)
    projected = np.bincount(owner, multipliers_of(selection) * measured, len(stands_for))
    mean = projected / np.maximum(stands_for, 1e-300)
    rng = np.random.default_rng(selection.seed)
    drawn = np.repeat(mean[:, np.newaxis], MEANS, axis=1)
    if selection.design.no_interval:
        return mean, selection.design.no_interval
    known = by_cluster(selection, values)
    if np.isfinite(known.covered).all():
        if selection.design.how == "ranked":
            return mean, rank_means(selection, known, rng)[:MEANS].T
        for cluster, draws in draws_of(selection).items():
            own = known.of(cluster)
            errors = errors_of_total(selection.design, own, draws, rng)[:MEANS]
            drawn[cluster] = own.mean() + errors / len(own)
        return mean, drawn
    samples = samples_of(selection, measured)
    spread = sampled_spread(selection, samples, measured, confidence, elsewhere)
    if isinstance(spread, str):
        return mean, spread
    margins = margins_of(samples, spread, confidence)
    if selection.design.planned and _is_boundless(
        selection.design, samples.total, margins.above, confidence, elsewhere
    ):
        return mean, BOUNDLESS
    sigma = np.sqrt(spread.variance / samples.draws * samples.correction) / z_score(confidence)
    strayed = sigma[:, np.newaxis] * rng.standard_normal((len(sigma), MEANS))
    above = samples.stands_for @ strayed > 0.0
    error = max(samples.error(spread.variance), 1e-300)
    drawn[samples.cluster] += strayed * np.where(above, margins.above, margins.below) / error
    return mean, np.maximum(drawn, 0.0)


def _is_boundless(
    design: Design, value: float, half: float, confidence: float, elsewhere: bool
) -> bool:
    """Whether the error of planned draws may be as large as the whole; on another machine as the
    profiled times tell, since few draws there may agree by chance."""
    if value <= 0.0 or design.planned is None:
        return False
    profiled = error_bound(design.planned, z_score(confidence), replacement=design.replacement)
    return (profiled if elsewhere else half / value) >= 1.0


def _bounded(
    value: float,
    margins: Margins,
    floor: float,
    confidence: float,
    basis: str,
    *,
    relative: bool = False,
) -> Estimate:
    """An estimate with its interval, bounded below by `floor`.

    With equal margins and w = margin / value, `relative` solves |value - truth| <= w truth for the
    truth, which has no upper bound from w = 1 on.
    """
    low, high = value - margins.below, value + margins.above
    if relative and 0.0 < margins.above < value:
        low, high = value / (1.0 + margins.below / value), value / (1.0 - margins.above / value)
    # Complete measurements equal the total except for rounding.
    return Estimate(value, min(max(low, floor), value), high, confidence, basis)


def _floor(measured: F64) -> float:
    """Lower bound of a whole with the parts `measured`: their sum, or none for a metric with
    negative values."""
    return -math.inf if (measured < 0.0).any() else float(measured.sum())


def _next_run(selection: Selection, times: F64, confidence: float) -> float:
    """Half-width for the total of one more run, `times` float64[repeats, slices].

    A prediction interval, t s sqrt(1 + v / n) from n runs, where v / n is the variance of their
    typical value (the median's at most pi / 2n). Few runs give a poor standard deviation s of the
    totals, too small when a slow start coincides with fast kernels, although nothing makes the two
    compensate. Its upper bound is used instead, the sum of the standard deviations of start-up, the
    slices between and exit, which holds for any correlation. These are slices of the processes,
    however the method groups them; if only representatives are known, clusters stand for them.
    """
    runs = len(times)
    if runs < 2:
        raise InputError(
            "variation between runs needs at least two timer runs: repeat the timer run"
        )
    rows = np.flatnonzero(selection.labels >= 0)
    weight = np.full(len(rows), float(multipliers_of(selection).sum()) / len(rows))
    last = np.cumsum(selection.layout.lengths) - 1
    first = np.append(0, last[:-1] + 1)
    start, end = np.isin(rows, first), np.isin(rows, last)
    if not np.isfinite(times[:, rows]).all():
        rows, weight = rows_of(selection), multipliers_of(selection)
        owner = clusters_of(selection)
        start, end = (np.isin(owner, selection.labels[ends]) for ends in (first, last))
    parts = (start, end & ~start, ~(start | end))
    spread = sum(float((times[:, rows[p]] @ weight[p]).std(ddof=1)) for p in parts)
    centre = math.pi / (2 * runs) if runs >= ENOUGH_FOR_MEDIAN else 1.0 / runs
    return student(confidence, runs - 1) * spread * math.sqrt(1.0 + centre)
