"""Projected time of a whole run from a cluster selection, with its interval.

Stratified sampling (Cochran, Sampling Techniques, chapter 5): cluster c has N slices, m of them are
measured, the projected total is sum over clusters of N x mean. When every slice was timed, how far
a choice of m slices out of N can lie from the truth is known: it is drawn, many times, and the
interval holds the stated share of the draws. When only the representatives are known, the spread
within a cluster comes from its own representatives.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from xpuprof.errors import InputError
from xpuprof.estimation.estimate import Estimate
from xpuprof.estimation.typical_times import ENOUGH_FOR_MEDIAN, typical_times
from xpuprof.selection.selection import Selection

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]

DRAWS = 4000


def estimate(
    selection: Selection,
    slice_times: F64,
    confidence: float = 0.95,
    *,
    other_runs: bool = False,
) -> Estimate:
    """Projected total of the run.

    `slice_times`: float64[repeats, slices] (or one repeat: float64[slices]), any unit of an
    extensive metric; NaN where a slice was not measured. Each slice enters with its typical time
    over the repeats (`typical_times`). The interval is for the sum of the typical times of these
    runs, what measuring every slice would have given: it covers the choice of representatives, and
    its low end is never below what the representatives took themselves. With `other_runs` it is for
    the total of any one later run, too (a prediction interval; two repeats at least), and so for
    what is typical of them. A method that has no theory of its error gets no interval. Raises
    InputError when a representative was not measured.
    """
    if not 0.0 < confidence < 1.0:
        raise InputError(f"the confidence must lie between 0 and 1, not {confidence:g}")
    times = np.atleast_2d(np.asarray(slice_times, dtype=np.float64))
    if times.shape[1] != selection.slices:
        raise InputError(
            f"{times.shape[1]} slice times for a selection of {selection.slices} slices: "
            "they are of different runs"
        )
    chosen = np.array([r.slice for r in selection.representatives], dtype=np.int64)
    multiplier = np.array([r.multiplier for r in selection.representatives])
    mean = typical_times(times)
    if not np.isfinite(mean[chosen]).all():
        missing = int(chosen[~np.isfinite(mean[chosen])][0])
        raise InputError(f"slice {missing} is a representative, but its time was not measured")
    value = float(np.dot(mean[chosen], multiplier))
    if selection.no_interval:
        return Estimate(value, None, None, None, selection.no_interval)
    if np.isfinite(mean[selection.labels >= 0]).all():
        half, basis = _known_spread(selection, mean, confidence)
    else:
        answer = _sampled_spread(selection, mean[chosen], confidence)
        if answer is None:
            return Estimate(
                value, None, None, None,
                "no interval: each cluster has one representative and the other slices' times are "
                "not known; select with several a cluster, or time the whole run",
            )  # fmt: skip
        half, basis = answer
    floor = floor_of(mean[chosen])
    if other_runs:
        half = math.hypot(half, _next_run(selection, times, confidence))
        floor = min(floor, 0.0)  # a later run may take less than this one's representatives did
        basis += f"; runs differ: Student's t over {len(times)} repeats, for one more run"
    # What measures all of it adds up to itself but for rounding.
    low = min(max(value - half, floor), value)
    return Estimate(value, low, value + half, confidence, basis)


def floor_of(measured: F64) -> float:
    """Least that the whole can be, of which `measured` are parts: their sum, unless a metric has
    negative values, which bound nothing."""
    return -math.inf if (measured < 0.0).any() else float(measured.sum())


def one_run_error(selection: Selection, times: F64, confidence: float = 0.95) -> float:
    """How far the projection from the representatives of one later run alone may lie from that
    run's total, a fraction of it. `times`: float64[repeats, slices], two repeats at least.

    The larger of two estimates. The repeats' own errors, each of its representatives against its
    total, vary about their mean; one more lies within t s sqrt(1 + 1 / n) of it. And the mean
    half-width of the single repeats' intervals, which also counts in disturbances that have hit
    other slices so far.
    """
    multiplier = np.array([r.multiplier for r in selection.representatives])
    chosen = [r.slice for r in selection.representatives]
    totals = times.sum(axis=1)
    errors = times[:, chosen] @ multiplier / totals - 1.0
    runs = len(errors)
    quantile = _student(confidence, runs - 1) * math.sqrt(1.0 + 1.0 / runs)
    seen = abs(float(errors.mean())) + quantile * float(errors.std(ddof=1))
    halves = [_known_spread(selection, run, confidence)[0] for run in times]
    return max(seen, float(np.mean(halves / totals)))


def estimate_part(
    selection: Selection, slice_times: F64, rows: slice, confidence: float = 0.95
) -> Estimate:
    """Projected total of the slices `rows` alone (one process of a job): each of them costs what
    the representatives of its cluster cost in the mean, wherever these lie.

    The interval covers the choice of representatives as `estimate`'s does, and how far the part's
    slices of a cluster differ from the cluster (a domain estimate, Cochran, section 5A.13). All
    slices must have been timed; slices that are not covered are taken to be like the part's others,
    and the interval covers by how much they are not.
    """
    mean = typical_times(slice_times)
    inside = selection.labels[rows]
    own = mean[rows]
    rng = np.random.default_rng(selection.seed)
    value, drawn = 0.0, np.zeros(DRAWS)
    for cluster, count in _counts(selection).items():
        n = int(np.count_nonzero(inside == cluster))
        if not n:
            continue
        chosen = [r for r in selection.representatives if r.cluster == cluster]
        weight = np.array([r.multiplier for r in chosen])
        value += n * float(np.average(mean[[r.slice for r in chosen]], weights=weight))
        times = mean[selection.labels == cluster]
        error = _errors_of_means(times, count, rng) if len(times) > count else 0.0
        drawn += n * (error + times.mean())
    covered = float(np.mean(inside >= 0))
    if not covered:
        return Estimate(value, None, None, None, "no interval: nothing of it is covered")
    value /= covered
    if selection.no_interval:
        return Estimate(value, None, None, None, selection.no_interval)
    half = _quantile(drawn / covered - own.sum(), confidence)
    basis = "spread of the measured times within the clusters, by drawing other representatives"
    here = [r.slice for r in selection.representatives if rows.start <= r.slice < rows.stop]
    low = min(max(value - half, floor_of(mean[here])), value)
    return Estimate(value, low, value + half, confidence, basis)


def _quantile(error: F64, confidence: float) -> float:
    """The half-width that holds the share `confidence` of the drawn errors."""
    rank = min(math.ceil(confidence * (DRAWS + 1)), DRAWS) - 1
    return float(np.sort(np.abs(error))[rank])


def _student(confidence: float, freedom: float) -> float:
    """Two-sided quantile of Student's t."""
    from scipy import special  # its import takes longer than the rest

    return float(special.stdtrit(freedom, 0.5 + confidence / 2.0))


def _next_run(selection: Selection, times: F64, confidence: float) -> float:
    """Half-width for the total of one more run, `times` float64[repeats, slices].

    A prediction interval, t s sqrt(1 + v / n) from n runs, v / n the variance of what is typical of
    them (the median's at most pi / 2n). The standard deviation s of the totals is badly known from
    few runs, and too small where a slow start happened to meet fast kernels: no mechanism makes up
    for one with the other. So it is bounded by the sum of the standard deviations of start-up, of
    what lies between and of exit, which holds whatever their correlation.
    """
    runs = len(times)
    if runs < 2:
        raise InputError("how far runs differ shows from two runs on: repeat the timer run")
    rows = np.flatnonzero(selection.labels >= 0)
    weight = np.full(len(rows), _scale(selection))
    if not np.isfinite(times[:, rows]).all():
        rows = np.array([r.slice for r in selection.representatives])
        weight = np.array([r.multiplier for r in selection.representatives])
    label = selection.labels[rows]
    start, end = label == selection.labels[0], label == selection.labels[-1]
    parts = (start, end & ~start, ~(start | end))
    spread = sum(float((times[:, rows[p]] @ weight[p]).std(ddof=1)) for p in parts)
    centre = math.pi / (2 * runs) if runs >= ENOUGH_FOR_MEDIAN else 1.0 / runs
    return _student(confidence, runs - 1) * spread * math.sqrt(1.0 + centre)


def _known_spread(selection: Selection, mean: F64, confidence: float) -> tuple[float, str]:
    """Every slice of the covered clusters was timed: the error of a random choice of
    representatives is drawn DRAWS times, and the half-width is its quantile. Where the slices that
    are not covered were timed, too, the error counts by how much they are not like the others."""
    rng = np.random.default_rng(selection.seed)
    labels = selection.labels
    scale = _scale(selection)
    covered = labels >= 0
    all_known = bool(np.isfinite(mean).all())
    error = np.zeros(DRAWS)
    if all_known and not covered.all():
        error += scale * float(mean[covered].sum()) - float(mean.sum())
    for cluster, count in _counts(selection).items():
        times = mean[labels == cluster]
        if len(times) <= count or np.ptp(times) == 0.0:
            continue
        error += scale * len(times) * _errors_of_means(times, count, rng)
    half = _quantile(error, confidence)
    basis = "spread of the measured times within the clusters, by drawing other representatives"
    if not covered.all():
        basis += (
            ", and what the slices that are left out really took"
            if all_known
            else f"; holds for the {selection.covered:.1%} of slices that are covered"
        )
    return half, basis


def _errors_of_means(times: F64, count: int, rng: np.random.Generator) -> F64:
    """Mean of `count` of the times, drawn one from each of `count` runs of equal size as the
    representatives are, less the mean of all; DRAWS of them."""
    cuts = np.arange(count + 1) * len(times) // count
    width = np.diff(cuts)
    drawn = np.zeros(DRAWS)
    for begin, size in zip(cuts.tolist(), width.tolist(), strict=False):
        drawn += size * times[begin + (rng.random(DRAWS) * size).astype(np.int64)]
    return drawn / len(times) - float(times.mean())


def _sampled_spread(
    selection: Selection, measured: F64, confidence: float
) -> tuple[float, str] | None:
    """Only representatives were timed: their own variance, Student's t at Satterthwaite's degrees
    of freedom; a lone representative borrows the pooled coefficient of variation."""
    owner = np.array([r.cluster for r in selection.representatives])
    clusters, index, count = np.unique(owner, return_inverse=True, return_counts=True)
    size = np.array([np.count_nonzero(selection.labels == c) for c in clusters], dtype=np.float64)
    centre = np.bincount(index, measured) / count
    square = np.bincount(index, (measured - centre[index]) ** 2)
    several = count > 1
    freedom = float(np.sum(count[several] - 1))
    lone = (count == 1) & (size > 1)
    if not freedom and lone.any():
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = np.where(several, square / np.maximum(count - 1, 1), 0.0)
        relative = np.where(centre > 0.0, square / centre**2, 0.0)
    if freedom:
        variance[lone] = float(relative[several].sum()) / freedom * centre[lone] ** 2
    terms = _scale(selection) ** 2 * size**2 * variance / count * (1.0 - count / size)
    total = float(terms.sum())
    if total == 0.0:
        return 0.0, "the representatives of each cluster agree"
    degrees = np.where(several, count - 1.0, max(freedom, 1.0))
    weight = float(np.sum(terms**2 / degrees))
    quantile = _student(confidence, max(total**2 / weight, 1.0))
    return quantile * math.sqrt(total), "spread among the representatives of each cluster"


def _counts(selection: Selection) -> dict[int, int]:
    counts: dict[int, int] = {}
    for representative in selection.representatives:
        counts[representative.cluster] = counts.get(representative.cluster, 0) + 1
    return counts


def _scale(selection: Selection) -> float:
    """By how much the multipliers were raised for what is not covered."""
    covered = np.count_nonzero(selection.labels >= 0)
    return sum(r.multiplier for r in selection.representatives) / covered
