# SPDX-License-Identifier: Apache-2.0
"""The error of a projection of which the representatives alone were measured: the spread within a
cluster is estimated from them and from the spread for which the draws were planned. On another
machine kernels speed up unequally, which no plan knows: there they alone must show it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from xpuprof.arrays import F64, I64
from xpuprof.estimation.allocation import ASSUMED_SPREAD
from xpuprof.estimation.projection import clusters_of, multipliers_of
from xpuprof.estimation.quantiles import freedom_of_sum, simulated_confidence, student
from xpuprof.selection.design import Design
from xpuprof.selection.selection import Selection

TOO_FEW = (
    "no interval: each cluster has one representative and the other slices' times are unknown; "
    "select several per cluster, or time the whole run"
)
ALL_ZERO = (
    "no interval: the metric is 0 in every representative of slices that were not measured, which "
    "tells nothing of them; choose more slices"
)
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


@dataclass(frozen=True)
class Margins:
    """How far the truth may lie below and above a value."""

    below: float
    above: float

    def beside(self, half: float) -> Margins:
        """Together with an independent error."""
        return Margins(math.hypot(self.below, half), math.hypot(self.above, half))


@dataclass(frozen=True, eq=False)
class Samples:
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

    def error(self, variance: F64) -> float:
        """Standard error of the projected total, from the variance per slice."""
        return math.sqrt(float(self.terms(variance).sum()))

    def third(self) -> float:
        """Third central moment of the projected total."""
        finite = self.correction * (2.0 * self.correction - 1.0)
        return float(np.sum(self.stands_for**3 * self.cube / self.draws**2 * finite))


def samples_of(selection: Selection, measured: F64) -> Samples:
    """`measured`: values of the representatives, in their order."""
    often = _often(selection)
    cluster, index = np.unique(clusters_of(selection), return_inverse=True)
    size = selection.sizes[cluster].astype(np.float64)
    draws = np.bincount(index, often).astype(np.float64)
    mean = np.bincount(index, often * measured) / draws
    off = measured - mean[index]
    square, cube = (np.bincount(index, often * off**power) for power in (2, 3))
    return Samples(
        cluster=cluster,
        size=size,
        draws=draws,
        mean=mean,
        variance=square / np.maximum(draws - 1.0, 1.0),
        cube=np.where(
            draws > 2.0, cube * draws / np.maximum((draws - 1.0) * (draws - 2.0), 1.0), 0.0
        ),
        stands_for=np.bincount(index, multipliers_of(selection)).astype(np.float64),
        correction=(
            np.where(_once_each(selection)[cluster] == size, 0.0, 1.0)
            if selection.design.replacement
            else 1.0 - np.minimum(draws / size, 1.0)
        ),
    )


def _often(selection: Selection) -> F64:
    """How often each representative was drawn, in their order."""
    return np.array([r.draws for r in selection.representatives], dtype=np.float64)


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
class Spread:
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


def half_of(samples: Samples, spread: Spread, confidence: float) -> float:
    """Half-width of the projected total, summed over clusters."""
    error = samples.error(spread.variance)
    return _quantile(samples, spread, confidence) * error if error else 0.0


def margins_of(samples: Samples, spread: Spread, confidence: float) -> Margins:
    """How far the whole may lie from the projected total.

    Draws without a long slice give a small total and a small spread at once, so the truth lies
    above their interval more often than below it. Johnson ("Modified t tests and confidence
    intervals for asymmetrical populations", JASA 73, 1978) corrects the mean by its skewness g: the
    quantile q becomes q + g (2 q^2 + 1) / 6 on the longer side.
    """
    half = half_of(samples, spread, confidence)
    if not spread.skewed or not half:
        return Margins(half, half)
    error = samples.error(spread.variance)
    seen = samples.third() / error**3
    assumed = SKEWNESS * error / samples.total if (samples.mean >= 0.0).all() else 0.0
    longer = error * (2.0 * (half / error) ** 2 + 1.0) / 6.0
    return Margins(half + max(-seen, 0.0) * longer, half + max(seen + assumed, 0.0) * longer)


def _quantile(samples: Samples, spread: Spread, confidence: float) -> float:
    """Half-width over standard error of the projected total, which is not 0."""
    terms, freedom = samples.terms(spread.variance), spread.freedom
    if spread.common is not None:
        terms = np.append(np.where(spread.common, 0.0, terms), terms[spread.common].sum())
        freedom = np.append(freedom, spread.common_freedom)
    return max(student(confidence, freedom_of_sum(terms, freedom)), spread.least)


def only_zeros(selection: Selection, samples: Samples, measured: F64) -> bool:
    """Whether there are slices that were not measured, and none of their clusters' representatives
    has the metric. Slices that represent only themselves, such as the start-up, tell nothing."""
    others = np.isin(clusters_of(selection), samples.cluster[samples.open])
    return bool(others.any()) and not measured[others].any()


def sampled_spread(
    selection: Selection, samples: Samples, measured: F64, confidence: float, elsewhere: bool
) -> Spread | str:
    """The spread within clusters, or why it is unknown."""
    design = selection.design
    if only_zeros(selection, samples, measured):
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
        return Spread(variance, freedom, design.basis, least=least)
    ratios = _ratios_of_draws(selection, samples, measured)
    if ratios.draws < LEAST_DRAWS - 1e-9 and samples.open.any():
        return HERE_ONLY.format(draws=ratios.draws)
    unlike = ratios.variance * (ratios.mean * _planned_mean(samples, design)) ** 2
    return Spread(
        np.maximum(variance, unlike),
        freedom,
        f"{design.basis}; spread of the strata's ratios between the machines",
        common=unlike > variance,
        common_freedom=ratios.freedom,
        least=least,
    )


def _of_unplanned(samples: Samples, design: Design) -> Spread | str:
    """Strata without profiled times show their spread by their own draws; few of these may agree by
    chance."""
    if (samples.open & (samples.draws < 2.0)).any():
        return TOO_FEW
    like = with_like_slices(samples.variance, samples.freedom, samples.mean, design.basis)
    return replace(like, freedom=samples.freedom, skewed=True)


def _of_clusters(samples: Samples) -> Spread | str:
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
    spread = with_like_slices(seen, freedom, samples.mean, basis)
    # What is borrowed is one estimate: it is wrong for all of them at once.
    common_freedom = float(spread.freedom[lone].max(initial=1.0))
    return replace(spread, common=lone, common_freedom=common_freedom, skewed=True)


def with_like_slices(seen: F64, freedom: F64, mean: F64, basis: str) -> Spread:
    """The variance that is seen, or with the spread assumed of like slices where that is larger."""
    assumed = AS_DRAWS * (ASSUMED_SPREAD * mean) ** 2
    together = (freedom * seen + assumed) / (freedom + AS_DRAWS)
    more = together > seen
    return Spread(np.maximum(seen, together), freedom + AS_DRAWS * more, basis)


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


def _ratios_of_draws(selection: Selection, samples: Samples, measured: F64) -> _Ratios:
    """How differently the strata's slices speed up on the machine of `measured`.

    One variance for all strata, from every draw's distance to the common ratio, weighted by what
    the draw adds to the variance of the total, so that a stratum with one draw also has one. It
    includes how the strata differ from each other, hence is too large rather than too small. The
    common ratio follows the draws; the divisor corrects for that (leverage).
    """
    assert selection.design.strata is not None
    mean = _planned_mean(samples, selection.design)
    index, often = np.searchsorted(samples.cluster, clusters_of(selection)), _often(selection)
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


def _planned_mean(samples: Samples, design: Design) -> F64:
    assert design.strata is not None
    return np.asarray(design.strata.mean)[samples.cluster]


def _of_strata(samples: Samples, design: Design) -> tuple[F64, F64]:
    """Variance of each stratum's slices, and its degrees of freedom.

    The largest of three sigmas: the profile's, scaled as the totals are; the profile's coefficient
    of variation times the measured mean (STEM+ROOT's proxy, section 3.2); and, from two draws on,
    the sample's, which includes effects that the profiled times miss (another metric, another
    machine).
    """
    assert design.strata is not None
    mean = _planned_mean(samples, design)
    sigma = np.asarray(design.strata.sigma)[samples.cluster]
    planned_total = float(np.dot(samples.size, mean))
    scaled = sigma * (samples.total / planned_total if planned_total > 0.0 else 0.0)
    proxy = np.divide(sigma, mean, out=np.zeros(len(mean)), where=mean > 0.0) * samples.mean
    planned = np.maximum(scaled, proxy) ** 2
    if not design.replacement:  # like the sample's, with n - 1 in place of n
        planned *= samples.size / np.maximum(samples.size - 1.0, 1.0)
    known = (planned >= samples.variance) | (samples.draws < 2.0)
    return np.maximum(planned, samples.variance), np.where(known, math.inf, samples.freedom)
