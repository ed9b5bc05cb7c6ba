"""Stratified random sampling: sample sizes, draws, the Selection they make, and its interval.

Shared by stem-root, allegro, random and xpu-stem, which differ in how they make the strata.

Notation as in STEM+ROOT (section 3.3): stratum i has N_i slices with mean mu_i and standard
deviation sigma_i; m_i of them are drawn; the estimate of the whole is sum N_i * mean_i (Eq. 4),
whose variance is sum N_i^2 sigma_i^2 / m_i.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

from xpuprof.errors import InputError
from xpuprof.estimation.estimate import Estimate
from xpuprof.methods.profile import SliceProfile
from xpuprof.selection.selection import Selection
from xpuprof.trace.coordinates import JobRow

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]
Rows = npt.NDArray[np.int64] | npt.NDArray[np.int32]


def z_score(confidence: float) -> float:
    """z_{1 - alpha/2}: 1.96 at a confidence of 0.95."""
    if not 0.0 < confidence < 1.0:
        raise InputError(f"confidence must lie between 0 and 1, not {confidence:g}")
    return NormalDist().inv_cdf(0.5 + confidence / 2.0)


def check_bound(epsilon: float) -> None:
    """InputError unless the error bound is a positive fraction."""
    if not 0.0 < epsilon < 1.0:
        raise InputError(f"the error bound must lie between 0 and 1 (0.05 is 5 %), not {epsilon:g}")


@dataclass(frozen=True, eq=False)
class Strata:
    """A partition of the slices. `order[start[i]:start[i + 1]]` are the slices of stratum i.

    `mean` and `sigma` (population standard deviation) are of the slice times, in seconds.
    """

    order: Rows
    start: I64
    mean: F64
    sigma: F64

    @property
    def size(self) -> I64:
        """N_i."""
        return np.diff(self.start)

    def labels(self) -> I32:
        """Stratum of each slice."""
        result = np.empty(len(self.order), dtype=np.int32)
        result[self.order] = np.repeat(np.arange(len(self.mean), dtype=np.int32), self.size)
        return result


def from_labels(labels: I32, times: F64) -> Strata:
    """Strata of given labels (dense from 0)."""
    order = np.argsort(labels, kind="stable")
    size = np.bincount(labels)
    start = np.concatenate([[0], np.cumsum(size)])
    mean = np.bincount(labels, weights=times) / size
    variance = np.bincount(labels, weights=(times - mean[labels]) ** 2) / size
    return Strata(order, start, mean, np.sqrt(variance))


def single_size(mean: float, sigma: float, epsilon: float, z: float) -> int:
    """Eq. 3 (Allegro, Theorem 2 without its floor): m = ceil((z sigma / (epsilon mu))^2).

    At least 1: a stratum that is not sampled vanishes from the estimate.
    """
    if mean <= 0.0 or sigma == 0.0:
        return 1
    return max(1, int(np.ceil((z * sigma / (epsilon * mean)) ** 2)))


def joint_sizes(size: I64, mean: F64, sigma: F64, epsilon: float, z: float) -> I64:
    """Eq. 6, the KKT solution of Problem 1, as int64[strata], each at least 1.

    Least measured time sum m_i mu_i such that sum N_i^2 sigma_i^2 / m_i <= (epsilon T / z)^2, where
    T = sum N_i mu_i: m_i = ceil(sum_j sqrt(a_j b_j) / c * sqrt(b_i / a_i)) with a_i = mu_i,
    b_i = N_i^2 sigma_i^2, c = (epsilon T / z)^2. (The paper prints sqrt(sum a_j b_j); its own
    derivation, section 8.1, and the constraint give the sum of the square roots.)
    """
    a = mean
    root_b = size * sigma
    c = (epsilon * float(np.dot(size, mean)) / z) ** 2
    total = float(np.dot(np.sqrt(a), root_b))
    if not total:
        return np.ones(len(mean), dtype=np.int64)
    with np.errstate(divide="ignore", invalid="ignore"):
        wanted = total / c * root_b / np.sqrt(a)
    wanted[(root_b == 0.0) | (a <= 0.0)] = 0.0
    return np.maximum(np.ceil(wanted), 1.0).astype(np.int64)


def error_bound(strata: Strata, sizes: I64, z: float, *, replacement: bool) -> float:
    """Predicted relative error at the confidence of z: z sqrt(sum N_i^2 sigma_i^2 / m_i) / T.

    Without replacement each term carries the finite-population factor (N_i - m_i) / (N_i - 1)
    (Cochran, Sampling Techniques, section 5.3).
    """
    size = strata.size.astype(np.float64)
    variance = size**2 * strata.sigma**2 / sizes
    if not replacement:
        variance *= (size - np.minimum(sizes, size)) / np.maximum(size - 1.0, 1.0)
    return float(z * np.sqrt(variance.sum()) / np.dot(size, strata.mean))


def draw(
    strata: Strata, sizes: I64, rng: np.random.Generator, *, replacement: bool
) -> tuple[I64, I64, I64]:
    """Random slices of each stratum: (slice rows, their strata, how often each was drawn)."""
    size = strata.size
    if replacement:
        of_draw = np.repeat(np.arange(len(sizes)), sizes)
        within = (rng.random(len(of_draw)) * size[of_draw]).astype(np.int64)
        position, draws = np.unique(strata.start[of_draw] + within, return_counts=True)
    else:
        parts = [
            np.arange(n) if m >= n else np.sort(rng.choice(n, m, replace=False, shuffle=False))
            for n, m in zip(size.tolist(), sizes.tolist(), strict=True)
        ]
        position = np.concatenate([s + p for s, p in zip(strata.start, parts, strict=False)])
        draws = np.ones(len(position), dtype=np.int64)
    places = np.asarray(position, dtype=np.int64)
    owner = np.asarray(np.searchsorted(strata.start, places, side="right") - 1, dtype=np.int64)
    return strata.order[places].astype(np.int64), owner, draws


def select(
    profile: SliceProfile,
    strata: Strata,
    sizes: I64,
    *,
    method: str,
    parameters: Mapping[str, Any],
    seed: int,
    replacement: bool,
    basis: str,
    confidence: float = 0.95,
    scores: Mapping[str, Any] | None = None,
) -> Selection:
    """Draw `sizes[i]` slices of stratum i and give each the multiplier N_i draws / m_i."""
    if not replacement:
        sizes = np.minimum(sizes, strata.size)
    rng = np.random.default_rng(seed)
    rows, owner, draws = draw(strata, sizes, rng, replacement=replacement)
    multiplier = strata.size[owner] * draws / sizes[owner]
    stated = {
        "error_bound": error_bound(strata, sizes, z_score(confidence), replacement=replacement),
        "confidence": confidence,
        "basis": basis,
        "strata": {
            "size": strata.size.tolist(),
            "draws": sizes.tolist(),
            "mean": strata.mean.tolist(),
            "sigma": strata.sigma.tolist(),
            "replacement": replacement,
        },
        **(scores or {}),
    }
    return Selection(
        method=method,
        parameters=dict(parameters),
        seed=seed,
        representatives=profile.representatives(
            rows, owner, multiplier, multiplier / len(profile), draws
        ),
        labels=strata.labels(),
        scores=stated,
        summary=profile.summary(),
    )


def estimate(selection: Selection, values: Mapping[JobRow, float], confidence: float) -> Estimate:
    """Projected total with its interval, from the representatives' values alone.

    `values[slice]` is the metric of a measured slice. The variance is Eq. 4's with the largest of
    three sigma_i: the profile's, scaled as the totals are; the profile's coefficient of variation
    times the measured mean (the paper's proxy, section 3.2); and, where a stratum has two samples
    or more, their standard deviation, which sees what the profiled times cannot (another metric,
    another machine). The quantile is the selection's own when it simulated one, else the normal
    one, widened to Student's t by Satterthwaite's degrees of freedom where samples give sigma.

    With w the relative half-width, |estimate - truth| <= w truth is solved for the truth: the
    interval is [estimate / (1 + w), estimate / (1 - w)], or estimate +- half-width where that is
    more than the estimate; its low end never lies below what the representatives took themselves.
    """
    value = sum(values[r.slice] * r.multiplier for r in selection.representatives)
    strata = selection.scores.get("strata")
    if strata is None:
        basis = str(selection.scores.get("basis", f"{selection.method} has no theory of its error"))
        return Estimate(value, None, None, None, basis)
    size = np.asarray(strata["size"], dtype=np.float64)
    draws = np.asarray(strata["draws"], dtype=np.float64)
    planned_mean = np.asarray(strata["mean"], dtype=np.float64)
    planned_sigma = np.asarray(strata["sigma"], dtype=np.float64)
    owner = np.array([r.cluster for r in selection.representatives])
    times = np.array([r.draws for r in selection.representatives], dtype=np.float64)
    metric = np.array([values[r.slice] for r in selection.representatives], dtype=np.float64)
    mean = np.bincount(owner, times * metric, len(size)) / draws
    spread = np.bincount(owner, times * (metric - mean[owner]) ** 2, len(size))
    with np.errstate(divide="ignore", invalid="ignore"):
        scaled = planned_sigma * value / float(np.dot(size, planned_mean))
        proxy = np.where(planned_mean > 0.0, planned_sigma / planned_mean, 0.0) * mean
        measured = np.where(draws > 1.0, np.sqrt(spread / (draws - 1.0)), 0.0)
    planned = np.maximum(scaled, proxy)
    sigma = np.maximum(planned, measured)
    variance = size**2 * sigma**2 / draws
    if not strata["replacement"]:
        variance *= 1.0 - np.minimum(draws / size, 1.0)
    quantile = _quantile(variance, draws, planned >= measured, confidence)
    if confidence == selection.scores.get("confidence"):
        quantile = max(quantile, float(selection.scores.get("quantile", 0.0)))
    half = quantile * float(variance.sum()) ** 0.5
    low, high = value - half, value + half
    if 0.0 < half < value:
        low, high = value / (1.0 + half / value), value / (1.0 - half / value)
    if not (metric < 0.0).any():
        low = min(max(low, float(metric.sum())), value)  # all measured: but for rounding
    return Estimate(value, low, high, confidence, str(selection.scores["basis"]))


def _quantile(variance: F64, draws: F64, known: npt.NDArray[np.bool_], confidence: float) -> float:
    """Student's t at Satterthwaite's degrees of freedom; a stratum of known sigma has infinitely
    many."""
    weights = np.where(known | (draws < 2.0), 0.0, variance**2 / np.maximum(draws - 1.0, 1.0))
    if not weights.any():
        return z_score(confidence)
    freedom = float(variance.sum() ** 2 / weights.sum())
    return float(stats.t.ppf(0.5 + confidence / 2.0, max(freedom, 1.0)))
