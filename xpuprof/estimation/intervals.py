# SPDX-License-Identifier: Apache-2.0
"""Projected totals of a whole run with their intervals; nothing else computes them.

The theory is stratified sampling (Cochran, Sampling Techniques, chapter 5): cluster c has N slices,
m of them are measured, the projected total is the sum over clusters of N x mean. The interval
follows from the selection's `Design` and the known times:

- Every slice was timed: the error of any choice of representatives is known. The choice is
  repeated DRAWS times by the design, and the interval holds the stated share of the draws.
- Only the representatives were measured: the spread within a cluster is estimated from them and
  from the spread for which the draws were planned. On another machine kernels speed up unequally,
  which no plan knows: there the representatives alone must show it.

docs/intervals.md gives the reasons.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from xpuprof.arrays import F64, I64
from xpuprof.errors import InputError
from xpuprof.estimation.allocation import ASSUMED_SPREAD
from xpuprof.estimation.estimate import Estimate
from xpuprof.estimation.measured import ByCluster, Measured, by_cluster
from xpuprof.estimation.projection import project
from xpuprof.estimation.quantiles import (
    CONFIDENCE,
    freedom_of_sum,
    simulated_confidence,
    student,
    z_score,
)
from xpuprof.estimation.redrawing import DRAWS, errors_of_total, ranked_means
from xpuprof.estimation.stratified import error_bound
from xpuprof.estimation.typical_times import ENOUGH_FOR_MEDIAN, typical_times
from xpuprof.selection.design import Design
from xpuprof.selection.selection import Selection

REDRAWN = "spread of the measured times within the clusters, by drawing other representatives"
TOO_FEW = (
    "no interval: each cluster has one representative and the other slices' times are unknown; "
    "select several per cluster, or time the whole run"
)
ALL_ZERO = (
    "no interval: the metric is 0 in every representative of slices that were not measured, which "
    "tells nothing of them; choose more slices"
)
BOUNDLESS = (
    "no interval: the error may be as large as the whole; choose more slices, or a method "
    "that forms strata by times"
)
MEANS = 2000
"""Draws of the clusters' means, for what does not add up."""
LEAST_DRAWS = 2.0
"""Effective draws that an interval for another machine needs."""
STRAYS = 0.08
"""How far slices of one stratum stray from each other on another machine, a coefficient of
variation: the most that was seen on half of the public programs (docs/results/transfer.md). A few
draws that agree prove less, so it counts as AS_DRAWS more of them."""
AS_DRAWS = 2.0
SKEWNESS = 3.0
"""Skewness of the values within a cluster that is assumed beside the one seen, over their
coefficient of variation: that of a log-normal distribution. Few draws seldom show the rare long
slices of which it tells."""
HERE_ONLY = (
    "this machine only, and its times: {draws:.1f} effective draws; another machine or metric "
    f"needs {LEAST_DRAWS:g}; draw more from each stratum"
)


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
    measured = mean[_rows(selection)]
    if not np.isfinite(measured).all():
        missing = int(_rows(selection)[~np.isfinite(measured)][0])
        raise InputError(f"slice {missing} is a representative, but its time was not measured")
    value = project(selection, mean)
    design = selection.design
    if design.no_interval:
        return Estimate(value, None, None, None, design.no_interval)
    known = by_cluster(selection, mean)
    all_known = bool(np.isfinite(known.covered).all())
    if all_known:
        half, basis = _known_spread(selection, known, value, confidence)
        margins = _Margins(half, half)
    else:
        samples = _samples(selection, measured)
        spread = _sampled_spread(selection, samples, measured, confidence, elsewhere)
        if isinstance(spread, str):
            return Estimate(value, None, None, None, spread)
        margins, basis = _margins(samples, spread, confidence), spread.basis
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
    half, basis = _known_spread(selection, known, value, confidence)
    floor = _floor(np.array([measured.of[r.slice] for r in selection.representatives]))
    return _bounded(value, _Margins(half, half), floor, confidence, basis)


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
    chosen = _rows(selection)
    others[chosen[(chosen >= rows.start) & (chosen < rows.stop)] - rows.start] = False
    covered = others & (inside >= 0)
    part = np.bincount(inside[covered], minlength=len(selection.sizes)).astype(np.float64)
    scale = float(others.sum() / covered.sum()) if covered.any() else 0.0
    measured = float(own[~others].sum())
    value = measured + scale * float(np.dot(part, _mean_of_others(selection, mean)))
    if selection.design.no_interval:
        return Estimate(value, None, None, None, selection.design.no_interval)
    # With only part of the run timed, slices left out do not enter the comparison.
    truth = own[others] if np.isfinite(own).all() else scale * own[covered]
    errors = _errors(selection, by_cluster(selection, mean), scale * part, float(truth.sum()))
    seen = value - measured - float(truth.sum())
    half = _at_least_seen(selection, half_width(errors, confidence), seen)
    return _bounded(value, _Margins(half, half), _floor(own[~others]), confidence, REDRAWN)


def estimate_ratio(
    selection: Selection, numerator: F64, denominator: F64, confidence: float = CONFIDENCE
) -> Estimate:
    """The ratio of two projected totals, from the representatives' values in their order; the
    denominator's total is positive.

    By linearisation (Cochran, section 6.4): the error is that of the projected residuals over the
    projected denominator. Residuals spread about 0 for any metric, so neither a planned sigma nor
    another cluster's applies to them: every cluster needs two representatives.
    """
    multiplier = _multipliers(selection)
    total = float(np.dot(denominator, multiplier))
    value = float(np.dot(numerator, multiplier)) / total
    if selection.design.no_interval:
        return Estimate(value, None, None, None, selection.design.no_interval)
    samples = _samples(selection, numerator - value * denominator)
    if _only_zeros(selection, samples, numerator):
        return Estimate(value, None, None, None, ALL_ZERO)
    if (samples.open & (samples.draws < 2.0)).any():
        basis = "no interval: a ratio needs two representatives of every cluster to have one"
        return Estimate(value, None, None, None, basis)
    basis = "linearised ratio; spread among the representatives of each cluster"
    spread = _Spread(samples.variance, samples.freedom, basis)
    if selection.design.strata is None:
        like = _samples(selection, numerator).mean
        spread = _with_like_slices(samples.variance, samples.freedom, like, basis)
    half = _half(samples, spread, confidence) / total
    floor = 0.0 if (numerator >= 0.0).all() else -math.inf
    return _bounded(value, _Margins(half, half), floor, confidence, basis)


def one_run_error(selection: Selection, times: F64, confidence: float = CONFIDENCE) -> float:
    """Error bound for the projection of a later run from its representatives alone, as a fraction
    of that run's total. `times`: float64[repeats, slices], at least two repeats.

    The larger of two estimates. First, each repeat's projection error varies about the mean; one
    more lies within t s sqrt(1 + 1 / n) of it. Second, the mean half-width of the single repeats'
    intervals, which also includes disturbances that have so far hit other slices.
    """
    totals = times.sum(axis=1)
    projected = times[:, _rows(selection)] @ _multipliers(selection)
    errors = projected / totals - 1.0
    runs = len(errors)
    quantile = student(confidence, runs - 1) * math.sqrt(1.0 + 1.0 / runs)
    seen = abs(float(errors.mean())) + quantile * float(errors.std(ddof=1))
    halves = [
        _known_spread(selection, by_cluster(selection, run), value, confidence)[0]
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
    measured = values[_rows(selection)]
    owner, stands_for = [r.cluster for r in selection.representatives], _stands_for(selection)
    projected = np.bincount(owner, _multipliers(selection) * measured, len(stands_for))
    mean = projected / np.maximum(stands_for, 1e-300)
    rng = np.random.default_rng(selection.seed)
    drawn = np.repeat(mean[:, np.newaxis], MEANS, axis=1)
    if selection.design.no_interval:
        return mean, selection.design.no_interval
    known = by_cluster(selection, values)
    if np.isfinite(known.covered).all():
        if selection.design.how == "ranked":
            return mean, _rank_means(selection, known, rng)[:MEANS].T
        for cluster, draws in _draws(selection).items():
            own = known.of(cluster)
            errors = errors_of_total(selection.design, own, draws, rng)[:MEANS]
            drawn[cluster] = own.mean() + errors / len(own)
        return mean, drawn
    samples = _samples(selection, measured)
    spread = _sampled_spread(selection, samples, measured, confidence, elsewhere)
    if isinstance(spread, str):
        return mean, spread
    margins = _margins(samples, spread, confidence)
    if selection.design.planned and _is_boundless(
        selection.design, samples.total, margins.above, confidence, elsewhere
    ):
        return mean, BOUNDLESS
    sigma = np.sqrt(spread.variance / samples.draws * samples.correction) / z_score(confidence)
    strayed = sigma[:, np.newaxis] * rng.standard_normal((len(sigma), MEANS))
    above = samples.stands_for @ strayed > 0.0
    error = max(math.sqrt(float(samples.terms(spread.variance).sum())), 1e-300)
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


def half_width(errors: F64, confidence: float) -> float:
    """The half-width that contains the share `confidence` of drawn errors."""
    rank = min(math.ceil(confidence * (len(errors) + 1)), len(errors)) - 1
    return float(np.sort(np.abs(errors))[rank])


@dataclass(frozen=True)
class _Margins:
    """How far the truth may lie below and above a value."""

    below: float
    above: float

    def beside(self, half: float) -> _Margins:
        """Together with an independent error."""
        return _Margins(math.hypot(self.below, half), math.hypot(self.above, half))


def _bounded(
    value: float,
    margins: _Margins,
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


def _rows(selection: Selection) -> I64:
    return np.array([r.slice for r in selection.representatives], dtype=np.int64)


def _multipliers(selection: Selection) -> F64:
    return np.array([r.multiplier for r in selection.representatives])


# ---- every slice's time is known ---------------------------------------------------------------


def _known_spread(
    selection: Selection, known: ByCluster, value: float, confidence: float
) -> tuple[float, str]:
    """Half-width of the projection `value` when every slice of the covered clusters was timed. If
    the uncovered slices were timed too, it includes their difference from the others."""
    stands_for, timed = _stands_for(selection), bool(np.isfinite(known.left_out).all())
    # With only part of the run timed, slices left out do not enter the comparison.
    truth = float(known.values.sum()) if timed else _total_of(selection, known, stands_for)
    errors = _errors(selection, known, stands_for, truth)
    half = _at_least_seen(selection, half_width(errors, confidence), value - truth)
    if selection.sizes.sum() == selection.slices:
        return half, REDRAWN
    return half, REDRAWN + (
        ", and the measured times of the slices left out"
        if timed
        else f"; holds for the {100 * selection.covered:.1f} % of slices that are covered"
    )


def _at_least_seen(selection: Selection, half: float, error: float) -> float:
    """A half-width, or the `error` that was seen where it is larger and the choice a rule: a slice
    that is unlike its cluster is chosen again next time, a random one is not."""
    return max(half, abs(error)) if selection.design.how == "nearest" else half


def _stands_for(selection: Selection) -> F64:
    """How many slices the representatives of each cluster stand for, uncovered ones included,
    float64[clusters]."""
    owner = [r.cluster for r in selection.representatives]
    return np.bincount(owner, _multipliers(selection), len(selection.sizes)).astype(np.float64)


def _total_of(selection: Selection, known: ByCluster, stands_for: F64) -> float:
    """Total of `stands_for` slices of each cluster, each at its cluster's mean."""
    clusters = np.flatnonzero(selection.sizes).tolist()
    return sum(float(stands_for[cluster] * known.of(cluster).mean()) for cluster in clusters)


def _errors(selection: Selection, known: ByCluster, stands_for: F64, truth: float) -> F64:
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
        return _rank_means(selection, known, rng) @ weight - truth
    for cluster, draws in _draws(selection).items():
        values = known.of(cluster)
        share = float(stands_for[cluster]) / len(values)
        if share:
            errors += share * errors_of_total(selection.design, values, draws, rng)
            expected += share * float(values.sum())
    return errors + (expected - truth)


def _rank_means(selection: Selection, known: ByCluster, rng: np.random.Generator) -> F64:
    """The means of a ranked selection's clusters, float64[DRAWS, clusters], drawn again."""
    draws = _draws(selection)
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


def _draws(selection: Selection) -> dict[int, int]:
    """Draws from each cluster."""
    draws: dict[int, int] = {}
    for r in selection.representatives:
        draws[r.cluster] = draws.get(r.cluster, 0) + r.draws
    return draws


def _mean_of_others(selection: Selection, mean: F64) -> F64:
    """What each cluster's unmeasured slices cost on average, float64[clusters]: a representative
    stands for itself and for as many others as its multiplier tells. `mean`: float64[slices]."""
    owner, multiplier = [r.cluster for r in selection.representatives], _multipliers(selection)
    # Above 0, so that a cluster whose representatives stand for themselves alone has a mean, too.
    others, measured = np.maximum(multiplier - 1.0, 1e-9), mean[_rows(selection)]
    stands_for = np.bincount(owner, others, len(selection.sizes))
    projected = np.bincount(owner, others * measured, len(selection.sizes))
    return np.divide(projected, stands_for, out=np.zeros(len(stands_for)), where=stands_for > 0.0)


# ---- only the representatives' values are known -------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Samples:
    """The measured values of each cluster that has representatives; columns of equal length.

    `size` slices, `draws` of them chosen (a slice drawn twice counts twice) with `mean`, sample
    `variance` (0 for one draw) and third central moment `cube` (0 for two); `stands_for`: the sum
    of the multipliers; `correction`: the finite-population factor.
    """

    cluster: I64
    size: F64
    draws: F64
    mean: F64
    variance: F64
    cube: F64
    stands_for: F64
    correction: F64

    @property
    def open(self) -> npt.NDArray[np.bool_]:
        """Whether the cluster has unmeasured slices."""
        return self.correction * (self.size - 1.0) > 0.0

    @property
    def freedom(self) -> F64:
        """Degrees of freedom of `variance`, at least 1."""
        return np.maximum(self.draws - 1.0, 1.0)

    @property
    def total(self) -> float:
        """The projected total."""
        return float(np.dot(self.stands_for, self.mean))

    def terms(self, variance: F64) -> F64:
        """Variance of each cluster's projected total, from the variance per slice."""
        return self.stands_for**2 * variance / self.draws * self.correction

    def third(self) -> float:
        """Third central moment of the projected total."""
        finite = self.correction * (2.0 * self.correction - 1.0)
        return float(np.sum(self.stands_for**3 * self.cube / self.draws**2 * finite))


def _samples(selection: Selection, measured: F64) -> _Samples:
    """`measured`: values of the representatives, in their order."""
    owner = np.array([r.cluster for r in selection.representatives])
    often = np.array([r.draws for r in selection.representatives], dtype=np.float64)
    cluster, index = np.unique(owner, return_inverse=True)
    size = selection.sizes[cluster].astype(np.float64)
    draws = np.bincount(index, often).astype(np.float64)
    mean = np.bincount(index, often * measured) / draws
    off = measured - mean[index]
    square, cube = (np.bincount(index, often * off**power) for power in (2, 3))
    return _Samples(
        cluster=cluster,
        size=size,
        draws=draws,
        mean=mean,
        variance=square / np.maximum(draws - 1.0, 1.0),
        cube=np.where(
            draws > 2.0, cube * draws / np.maximum((draws - 1.0) * (draws - 2.0), 1.0), 0.0
        ),
        stands_for=np.bincount(index, _multipliers(selection)).astype(np.float64),
        correction=(
            np.where(_once_each(selection)[cluster] == size, 0.0, 1.0)
            if selection.design.replacement
            else 1.0 - np.minimum(draws / size, 1.0)
        ),
    )


def _once_each(selection: Selection) -> I64:
    """How many of each cluster's own slices were drawn just once, int64[clusters]: if all were, its
    total is known, though it was drawn with replacement."""
    own = [
        r.cluster
        for r in selection.representatives
        if r.draws == 1 and selection.labels[r.slice] == r.cluster
    ]
    return np.bincount(np.array(own, dtype=np.int64), minlength=len(selection.sizes))


@dataclass(frozen=True, eq=False)
class _Spread:
    """Variance per slice of each cluster with its degrees of freedom. Clusters in `common` share
    one estimate, with `common_freedom`. The quantile is at least `least`. `skewed`: the draws alone
    tell it, so it follows them."""

    variance: F64
    freedom: F64
    basis: str
    common: npt.NDArray[np.bool_] | None = None
    common_freedom: float = math.inf
    least: float = 0.0
    skewed: bool = False


def _half(samples: _Samples, spread: _Spread, confidence: float) -> float:
    """Half-width of the projected total, summed over clusters."""
    total = float(samples.terms(spread.variance).sum())
    return _quantile(samples, spread, confidence) * math.sqrt(total) if total else 0.0


def _margins(samples: _Samples, spread: _Spread, confidence: float) -> _Margins:
    """How far the whole may lie from the projected total.

    Draws without a long slice give a small total and a small spread at once, so the truth lies
    above their interval more often than below it. Johnson ("Modified t tests and confidence
    intervals for asymmetrical populations", JASA 73, 1978) corrects the mean by its skewness g: the
    quantile q becomes q + g (2 q^2 + 1) / 6 on the longer side.
    """
    half = _half(samples, spread, confidence)
    if not spread.skewed or not half:
        return _Margins(half, half)
    error = math.sqrt(float(samples.terms(spread.variance).sum()))
    seen = samples.third() / error**3
    assumed = SKEWNESS * error / samples.total if (samples.mean >= 0.0).all() else 0.0
    longer = error * (2.0 * (half / error) ** 2 + 1.0) / 6.0
    return _Margins(half + max(-seen, 0.0) * longer, half + max(seen + assumed, 0.0) * longer)


def _quantile(samples: _Samples, spread: _Spread, confidence: float) -> float:
    """Half-width over standard error of the projected total, which is not 0."""
    terms, freedom = samples.terms(spread.variance), spread.freedom
    if spread.common is not None:
        terms = np.append(np.where(spread.common, 0.0, terms), terms[spread.common].sum())
        freedom = np.append(freedom, spread.common_freedom)
    return max(student(confidence, freedom_of_sum(terms, freedom)), spread.least)


def _only_zeros(selection: Selection, samples: _Samples, measured: F64) -> bool:
    """Whether there are slices that were not measured, and none of their clusters' representatives
    has the metric. Slices that represent only themselves, such as the start-up, tell nothing."""
    owner = [r.cluster for r in selection.representatives]
    others = np.isin(owner, samples.cluster[samples.open])
    return bool(others.any()) and not measured[others].any()


def _sampled_spread(
    selection: Selection, samples: _Samples, measured: F64, confidence: float, elsewhere: bool
) -> _Spread | str:
    """The spread within clusters, or why it is unknown."""
    design = selection.design
    if _only_zeros(selection, samples, measured):
        return ALL_ZERO
    if design.strata is None:
        return _of_clusters(samples)
    if design.planned is None:
        return _of_unplanned(samples, design)
    variance, freedom = _of_strata(samples, design)
    # A quantile that was simulated holds for any higher confidence, too.
    simulated = simulated_confidence(design.confidence or 1.0)
    least = (design.quantile or 0.0) if simulated <= confidence else 0.0
    if not elsewhere:
        return _Spread(variance, freedom, design.basis, least=least)
    ratios = _ratios_of_draws(selection, samples, measured)
    if ratios.draws < LEAST_DRAWS - 1e-9 and samples.open.any():
        return HERE_ONLY.format(draws=ratios.draws)
    unlike = ratios.variance * (ratios.mean * _planned_mean(samples, design)) ** 2
    return _Spread(
        np.maximum(variance, unlike),
        freedom,
        f"{design.basis}; spread of the strata's ratios between the machines",
        common=unlike > variance,
        common_freedom=ratios.freedom,
        least=least,
    )


def _of_unplanned(samples: _Samples, design: Design) -> _Spread | str:
    """Strata without profiled times show their spread by their own draws; few of these may agree by
    chance."""
    if (samples.open & (samples.draws < 2.0)).any():
        return TOO_FEW
    like = _with_like_slices(samples.variance, samples.freedom, samples.mean, design.basis)
    return replace(like, freedom=samples.freedom, skewed=True)


def _of_clusters(samples: _Samples) -> _Spread | str:
    """Clusters show their spread by their own representatives; one with a single representative
    borrows the others' coefficient of variation.

    Those nearest to one centroid are more alike than random members, and few may agree by chance.
    So the spread assumed of like slices counts as AS_DRAWS more where it is the larger.
    """
    lone = samples.open & (samples.draws < 2.0)
    several = samples.draws > 1.0
    pooled = float((samples.draws[several] - 1.0).sum())
    if lone.any() and not pooled:
        return TOO_FEW
    seen, freedom = samples.variance.copy(), np.where(several, samples.draws - 1.0, pooled)
    if lone.any():
        with np.errstate(divide="ignore", invalid="ignore"):
            relative = np.where(samples.mean > 0.0, seen / samples.mean**2, 0.0)
        share = float(np.dot(relative[several], samples.draws[several] - 1.0)) / pooled
        seen[lone] = share * samples.mean[lone] ** 2
    basis = "spread among the representatives of each cluster, and that of like slices elsewhere"
    spread = _with_like_slices(seen, freedom, samples.mean, basis)
    # What is borrowed is one estimate: it is wrong for all of them at once.
    common_freedom = float(spread.freedom[lone].max(initial=1.0))
    return replace(spread, common=lone, common_freedom=common_freedom, skewed=True)


def _with_like_slices(seen: F64, freedom: F64, mean: F64, basis: str) -> _Spread:
    """The variance that is seen, or with the spread assumed of like slices where that is larger."""
    assumed = AS_DRAWS * (ASSUMED_SPREAD * mean) ** 2
    together = (freedom * seen + assumed) / (freedom + AS_DRAWS)
    more = together > seen
    return _Spread(np.maximum(seen, together), freedom + AS_DRAWS * more, basis)


@dataclass(frozen=True)
class _Ratios:
    """Ratios of measured to profiled time: their `mean`, how they vary from draw to draw (`seen`,
    relative to the mean, squared), and the effective number of `draws` behind that."""

    mean: float
    seen: float
    draws: float

    @property
    def freedom(self) -> float:
        """Degrees of freedom of `variance`."""
        return max(self.draws - 1.0, 0.0) + AS_DRAWS

    @property
    def variance(self) -> float:
        """What is seen together with what is known of other programs."""
        known = AS_DRAWS * STRAYS**2
        return ((self.freedom - AS_DRAWS) * self.seen + known) / self.freedom


def _ratios_of_draws(selection: Selection, samples: _Samples, measured: F64) -> _Ratios:
    """How differently the strata's slices speed up on the machine of `measured`.

    One variance for all strata, from every draw's distance to the common ratio, weighted by what
    the draw adds to the variance of the total, so that a stratum with one draw also has one. It
    includes how the strata differ from each other, hence is too large rather than too small. The
    common ratio follows the draws; the divisor corrects for that (leverage).
    """
    assert selection.design.strata is not None
    mean = _planned_mean(samples, selection.design)
    index = np.searchsorted(samples.cluster, [r.cluster for r in selection.representatives])
    often = np.array([r.draws for r in selection.representatives], dtype=np.float64)
    time = samples.size * mean
    part = time / samples.draws
    common = float(np.dot(samples.size, samples.mean)) / max(float(time.sum()), 1e-300)
    profiled = mean[index] * common
    distance = np.divide(measured, profiled, out=np.ones(len(index)), where=profiled > 0.0) - 1.0
    weight = often * np.where(samples.open, part, 0.0)[index] ** 2
    if not weight.any():
        return _Ratios(common, 0.0, 0.0)
    own = part[index] / time.sum()
    corrected = float(np.dot(weight, 1.0 - 2.0 * own + float(np.dot(often, own**2))))
    draws = float(weight.sum()) ** 2 / float(np.dot(weight / often, weight))
    return _Ratios(common, float(np.dot(weight, distance**2)) / max(corrected, 1e-300), draws)


def _planned_mean(samples: _Samples, design: Design) -> F64:
    assert design.strata is not None
    return np.asarray(design.strata.mean)[samples.cluster]


def _of_strata(samples: _Samples, design: Design) -> tuple[F64, F64]:
    """Variance of each stratum's slices, and its degrees of freedom.

    The largest of three sigmas: the profile's, scaled as the totals are; the profile's coefficient
    of variation times the measured mean (STEM+ROOT's proxy, section 3.2); and, from two draws on,
    the sample's, which includes effects that the profiled times miss (another metric, another
    machine).
    """
    assert design.strata is not None
    mean = _planned_mean(samples, design)
    sigma = np.asarray(design.strata.sigma)[samples.cluster]
    total = float(np.dot(samples.stands_for, samples.mean))
    planned_total = float(np.dot(samples.size, mean))
    scaled = sigma * (total / planned_total if planned_total > 0.0 else 0.0)
    proxy = np.divide(sigma, mean, out=np.zeros(len(mean)), where=mean > 0.0) * samples.mean
    planned = np.maximum(scaled, proxy) ** 2
    if not design.replacement:  # like the sample's, with n - 1 in place of n
        planned *= samples.size / np.maximum(samples.size - 1.0, 1.0)
    known = (planned >= samples.variance) | (samples.draws < 2.0)
    return np.maximum(planned, samples.variance), np.where(known, math.inf, samples.freedom)


# ---- later runs --------------------------------------------------------------------------------


def _next_run(selection: Selection, times: F64, confidence: float) -> float:
    """Half-width for the total of one more run, `times` float64[repeats, slices].

    A prediction interval, t s sqrt(1 + v / n) from n runs, where v / n is the variance of their
    typical value (the median's at most pi / 2n). Few runs give a poor standard deviation s of the
    totals, too small when a slow start coincides with fast kernels, although nothing makes the two
    compensate. Its upper bound is used instead, the sum of the standard deviations of start-up, the
    slices between and exit, which holds for any correlation.
    """
    runs = len(times)
    if runs < 2:
        raise InputError(
            "variation between runs needs at least two timer runs: repeat the timer run"
        )
    rows = np.flatnonzero(selection.labels >= 0)
    weight = np.full(len(rows), float(_multipliers(selection).sum()) / len(rows))
    if not np.isfinite(times[:, rows]).all():
        rows, weight = _rows(selection), _multipliers(selection)
    label = selection.labels[rows]
    start, end = label == selection.labels[0], label == selection.labels[-1]
    parts = (start, end & ~start, ~(start | end))
    spread = sum(float((times[:, rows[p]] @ weight[p]).std(ddof=1)) for p in parts)
    centre = math.pi / (2 * runs) if runs >= ENOUGH_FOR_MEDIAN else 1.0 / runs
    return student(confidence, runs - 1) * spread * math.sqrt(1.0 + centre)
