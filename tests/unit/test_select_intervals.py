# SPDX-License-Identifier: Apache-2.0
"""Intervals of cluster selections cover the truth at least as often as stated."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from xpuprof.errors import InputError
from xpuprof.estimation.intervals import (
    cluster_means,
    estimate,
    estimate_part,
    estimate_ratio,
    one_run_error,
)
from xpuprof.estimation.typical_times import typical_times
from xpuprof.selection.design import Design
from xpuprof.selection.selection import Marker, Representative, Selection


def random_selection(sizes: Any, counts: Any, rng: Any) -> Any:
    """Clusters of given sizes, with `counts[c]` random slices of each, one per equal part."""
    labels = np.repeat(np.arange(len(sizes)), sizes).astype(np.int32)
    representatives = []
    start = 0
    for cluster, (size, count) in enumerate(zip(sizes, counts, strict=True)):
        cuts = np.arange(count + 1) * size // count
        for begin, end in pairwise(cuts.tolist()):
            row = int(start + rng.integers(begin, end))
            representatives.append(
                Representative(row, Marker("k", row + 1), None, cluster, float(end - begin), 0.0)
            )
        start += size
    return Selection("xpu-point", {}, int(rng.integers(1 << 30)), tuple(representatives), labels)


DISTRIBUTIONS = {
    "normal": lambda rng, n: rng.normal(10, 1, n),
    "skewed": lambda rng, n: rng.lognormal(0, 1, n),
    "two humps": lambda rng, n: np.where(rng.random(n) < 0.3, 10.0, 1.0) + rng.random(n),
    "rare and huge": lambda rng, n: np.where(rng.random(n) < 0.02, 50.0, 1.0),
    "constant": lambda rng, n: np.full(n, 3.0),
}


@pytest.mark.parametrize("left_out", [0.5, 1.0, 3.0])
def test_the_interval_covers_what_is_left_out(left_out: float) -> None:
    """GIVEN an uncovered cluster whose slices take `left_out` times as long as the others THEN the
    interval covers the whole run's time, also for a process of a job."""
    rng = np.random.default_rng(5)
    chosen = random_selection((40, 60), (2, 2), rng)
    labels = np.concatenate([chosen.labels, np.full(100, -1, np.int32)])
    raised = tuple(replace(r, multiplier=2.0 * r.multiplier) for r in chosen.representatives)
    times = np.concatenate([rng.normal(10.0, 0.1, 100), rng.normal(10.0 * left_out, 0.1, 100)])
    selection = replace(chosen, labels=labels, representatives=raised, covered=0.5)
    for answer in (estimate(selection, times), estimate_part(selection, times, slice(0, 200))):
        assert answer.low <= times.sum() <= answer.high
        gap = abs(answer.value - times.sum())
        assert answer.high - answer.value < gap + 0.05 * times.sum()


def test_a_rule_that_erred_has_an_interval_that_says_so() -> None:
    """GIVEN clusters whose first slices, which were chosen, take twice as long as the others THEN
    the interval of the whole run and of a part holds the time that was measured."""
    times = np.ones(200)
    times[[0, 100]] = 2.0
    chosen = tuple(
        Representative(row, Marker("k", row + 1), None, row // 100, 100.0, 0.0) for row in (0, 100)
    )
    labels = np.repeat([0, 1], 100).astype(np.int32)
    selection = Selection("xpu-point", {}, 1, chosen, labels)
    for answer, truth in (
        (estimate(selection, times), 202.0),
        (estimate_part(selection, times, slice(0, 100)), 101.0),
    ):
        assert answer.value > 1.9 * truth and answer.low <= truth


def test_a_processs_measured_slices_are_its_own() -> None:
    """GIVEN two processes whose start-ups, one cluster, were both measured THEN each process has
    its own start-up's time, the shares add up to the whole, and the others' interval holds in 95 %
    of the selections."""
    rng, many, held = np.random.default_rng(5), 400, 0
    times = rng.lognormal(0, 0.05, 202)
    times[100], times[201] = 70.0, 50.0
    order = np.argsort(np.arange(202) % 101 == 100, kind="stable")  # start-ups last
    for _ in range(many):
        chosen = random_selection((200, 2), (10, 2), rng)
        labels = np.empty(202, np.int32)
        labels[order] = chosen.labels
        placed = tuple(replace(r, slice=int(order[r.slice])) for r in chosen.representatives)
        selection = replace(chosen, labels=labels, representatives=placed)
        parts = [estimate_part(selection, times, slice(a, a + 101)) for a in (0, 101)]
        whole = estimate(selection, times)
        assert sum(part.value for part in parts) == pytest.approx(whole.value)
        assert abs(parts[0].value - times[:101].sum()) < 8.0
        held += parts[0].low <= times[:101].sum() <= parts[0].high
    assert held / many >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / many)


@pytest.mark.parametrize("name", DISTRIBUTIONS)
@pytest.mark.parametrize("counts", [(1, 1, 1), (5, 8, 1)])
def test_coverage_when_all_slices_are_timed(name: str, counts: Any) -> None:
    """In 2,000 random choices of representatives the measured total is inside at least 95 % of the
    time (less three standard errors of this check)."""
    rng = np.random.default_rng(1)
    sizes = (300, 100, 1)
    times = DISTRIBUTIONS[name](rng, sum(sizes))
    hits, draws = 0, 2000
    answer = None
    for _ in range(draws):
        chosen = random_selection(sizes, counts, rng)
        if answer is None:  # the half-width depends only on the design, not on the choice
            answer = estimate(chosen, times)
            half = answer.high - answer.value
        value = sum(times[r.slice] * r.multiplier for r in chosen.representatives)
        hits += abs(value - times.sum()) <= half + 1e-9
    assert hits / draws >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / draws)


SKEWED = {
    "gamma": lambda rng, n: rng.gamma(0.5, 1.0, n),
    "log-normal": lambda rng, n: rng.lognormal(0.0, 0.6, n),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SKEWED)
def test_coverage_of_skewed_values_of_representatives_alone(name: str) -> None:
    """GIVEN clusters of skewed times, one of which takes most of the run WHEN ten of each are known
    THEN the interval holds the truth in 95 % of the choices, less a point and the check's three
    standard errors."""
    rng = np.random.default_rng(2)
    sizes, held, draws = (500, 500, 500), 0, 1000
    times = SKEWED[name](rng, sum(sizes)) * np.repeat([10.0, 3.0, 1.0], 500)
    for _ in range(draws):
        chosen = random_selection(sizes, (10, 10, 10), rng)
        known = np.full(len(times), np.nan)
        rows = [r.slice for r in chosen.representatives]
        known[rows] = times[rows]
        answer = estimate(chosen, known)
        held += answer.low <= times.sum() <= answer.high
    assert held / draws >= 0.94 - 3 * np.sqrt(0.95 * 0.05 / draws)


def test_the_interval_of_like_slices_is_hardly_wider_above() -> None:
    """GIVEN clusters whose slices differ by 2 % THEN the interval is nearly symmetric; GIVEN
    representatives one of which is long THEN it reaches much farther up than down."""
    rng = np.random.default_rng(2)
    chosen = random_selection((300, 200), (10, 10), rng)
    known = np.full(500, np.nan)
    rows = [r.slice for r in chosen.representatives]
    known[rows] = rng.normal(10.0, 0.2, len(rows))
    alike = estimate(chosen, known)
    assert alike.high - alike.value < 1.1 * (alike.value - alike.low)
    known[rows[3]] = 60.0
    skewed = estimate(chosen, known)
    assert skewed.high - skewed.value > 1.5 * (skewed.value - skewed.low)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["normal", "two humps", "constant"])
def test_coverage_when_only_representatives_are_timed(name: str) -> None:
    """Ten per cluster, nothing else known: Student's t over the clusters."""
    rng = np.random.default_rng(2)
    sizes, hits, draws = (300, 200), 0, 2000
    times = DISTRIBUTIONS[name](rng, sum(sizes))
    for _ in range(draws):
        chosen = random_selection(sizes, (10, 10), rng)
        known = np.full(len(times), np.nan)
        rows = [r.slice for r in chosen.representatives]
        known[rows] = times[rows]
        answer = estimate(chosen, known)
        hits += answer.low - 1e-9 <= times.sum() <= answer.high + 1e-9
    assert hits / draws >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / draws)


@pytest.mark.slow
def test_coverage_when_those_nearest_to_the_centroid_agree() -> None:
    """GIVEN times that grow more than in proportion with the distance from the centroid WHEN only
    the three slices nearest to it are known of each cluster THEN the intervals of the whole and of
    a rate still hold: that they agree is no proof that all do."""
    rng = np.random.default_rng(4)
    sizes, hits, rates, draws = (90, 60, 30), 0, 0, 2000
    labels = np.repeat(np.arange(3), sizes).astype(np.int32)
    for _ in range(draws):
        offset = rng.normal(0.0, 1.0, sum(sizes))
        times = 10.0 * np.exp(0.2 * offset)
        chosen = []
        for cluster, size in enumerate(sizes):
            parts = np.array_split(np.flatnonzero(labels == cluster), 3)
            nearest = [int(part[np.argmin(np.abs(offset[part]))]) for part in parts]
            chosen += [
                Representative(row, Marker("k", row + 1), None, cluster, size / 3, 0.0)
                for row in nearest
            ]
        selection = Selection("xpu-point", {}, 1, tuple(chosen), labels)
        known = np.full(len(times), np.nan)
        known[[r.slice for r in chosen]] = times[[r.slice for r in chosen]]
        answer = estimate(selection, known)
        hits += answer.low <= times.sum() <= answer.high
        rows = [r.slice for r in chosen]
        rate = estimate_ratio(selection, times[rows], np.ones(len(rows)))
        rates += rate.low <= times.mean() <= rate.high
    assert min(hits, rates) / draws >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / draws)


def whole(rng: Any, runs: Any) -> Any:
    """Each run is slow or fast as a whole."""
    return np.repeat(rng.normal(1.0, 0.05, (runs, 1)), 302, axis=1)


def apart(rng: Any, runs: Any) -> Any:
    """Start-up, kernels and exit vary independently."""
    start, kernels, end = rng.normal(1.0, 0.05, (3, runs, 1))
    return np.hstack([start, np.repeat(kernels, 300, axis=1), end])


def skewed(rng: Any, runs: Any) -> Any:
    """Disturbances make runs slower, never faster."""
    return np.repeat(rng.lognormal(0.0, 0.1, (runs, 1)), 302, axis=1)


def only_slices(rng: Any, runs: Any) -> Any:
    """Runs differ only by the noise of their slices."""
    return np.ones((runs, 302))


@pytest.mark.slow
@pytest.mark.parametrize("repeats", [2, 3, 8])
@pytest.mark.parametrize("differ", [whole, apart, skewed, only_slices])
@pytest.mark.parametrize("all_timed", [True, False])
def test_coverage_of_one_more_run_and_of_what_is_typical(
    differ: Any, repeats: int, all_timed: bool
) -> None:
    """Start-up and exit are as long as 300 and 60 of the slices between; slices vary by a fifth.
    The interval from a few runs covers the total of the next run, and the typical total of the next
    five, at least 95 times in 100 (less three standard errors of this check)."""
    rng = np.random.default_rng(3)
    next_run, typical, draws = 0, 0, 200
    truth = np.concatenate([[300.0], np.full(200, 1.0), np.full(100, 5.0), [60.0]])
    for _ in range(draws):
        runs = truth * differ(rng, repeats + 5) * rng.lognormal(0, 0.2, (repeats + 5, 302))
        chosen = random_selection((1, 200, 100, 1), (1, 10, 10, 1), rng)
        known = runs[:repeats].copy()
        if not all_timed:
            rows = [r.slice for r in chosen.representatives]
            known[:, np.delete(np.arange(302), rows)] = np.nan
        answer = estimate(chosen, known, other_runs=True)
        next_run += answer.low <= runs[repeats].sum() <= answer.high
        typical += answer.low <= typical_times(runs[repeats:]).sum() <= answer.high
    assert min(next_run, typical) / draws >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / draws)


@pytest.mark.slow
@pytest.mark.parametrize("repeats", [2, 3, 8])
def test_the_error_told_for_a_single_run_holds(repeats: int) -> None:
    """For one more run, whose slices vary by two fifths, some of them a hundredfold."""
    rng = np.random.default_rng(9)
    hits, draws = 0, 300
    for _ in range(draws):
        runs = rng.lognormal(0, 0.4, (repeats + 1, 402))
        runs[rng.random(runs.shape) < 0.002] *= 100.0
        chosen = random_selection((1, 300, 100, 1), (1, 8, 8, 1), rng)
        projected = sum(runs[-1][r.slice] * r.multiplier for r in chosen.representatives)
        error = abs(projected / runs[-1].sum() - 1.0)
        hits += error <= one_run_error(chosen, runs[:-1])
    assert hits / draws >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / draws)


@pytest.mark.parametrize("sizes", [(1, 20, 1), (22,), (11, 11), (2, 20)])
def test_a_slow_start_does_not_make_up_for_fast_kernels(sizes: tuple[int, ...]) -> None:
    """Totals that agree by chance hide no differences: start-up and kernels differ by 20 % each,
    whether or not the strata keep them apart."""
    chosen = random_selection(sizes, sizes, np.random.default_rng(7))
    runs = np.ones((3, 22))
    runs[:, 0] = 24.0, 20.0, 16.0
    runs[:, 1:21] = np.array([[0.8], [1.0], [1.2]])
    assert np.ptp(runs.sum(axis=1)) == pytest.approx(0.0)
    answer = estimate(chosen, runs, other_runs=True)
    half = 4.3027 * (4.0 + 4.0) * np.sqrt(1.0 + np.pi / 6.0)
    assert answer.high - answer.value == pytest.approx(half, rel=1e-4)
    assert answer.low == 0.0


def test_the_low_end_is_no_less_than_what_was_measured() -> None:
    """A whole is at least its parts, except for a metric with negative values."""
    chosen = random_selection((1000, 1), (1, 1), np.random.default_rng(8))
    times = np.ones(1001)
    (one, _) = (r.slice for r in chosen.representatives)
    times[one], times[(one + 1) % 1000] = 2.0, 3000.0
    answer = estimate(chosen, times)
    assert answer.low == 3.0
    assert estimate(chosen, times, other_runs=False).high > 4000.0
    times[one] = -2.0
    assert estimate(chosen, times).low < -1000.0


def test_wider_at_higher_confidence_and_deterministic() -> None:
    """99 % is wider than 90 %; the same call gives the same numbers."""
    rng = np.random.default_rng(4)
    times = rng.lognormal(0, 1, 400)
    chosen = random_selection((300, 100), (3, 3), rng)
    narrow, wide = estimate(chosen, times, 0.90), estimate(chosen, times, 0.99)
    assert wide.high - wide.low > narrow.high - narrow.low
    assert estimate(chosen, times, 0.99) == wide


def test_one_each_and_nothing_else_known_has_no_interval() -> None:
    """Without a measured spread there is no interval, and a note says so."""
    rng = np.random.default_rng(5)
    chosen = random_selection((30, 10), (1, 1), rng)
    known = np.full(40, np.nan)
    known[[r.slice for r in chosen.representatives]] = 1.0
    answer = estimate(chosen, known)
    assert answer.value == 40.0
    assert answer.low is None
    assert "no interval" in answer.basis


def test_a_metric_that_no_representative_has() -> None:
    """GIVEN 0 in every representative THEN the total is 0 with an interval only where no slice is
    unknown; the same for a ratio."""
    chosen = random_selection((30, 10), (2, 2), np.random.default_rng(7))
    known = np.full(40, np.nan)
    known[[r.slice for r in chosen.representatives]] = 0.0
    answers = [estimate(chosen, known), estimate_ratio(chosen, np.zeros(4), np.ones(4))]
    assert [(a.value, a.low, a.high) for a in answers] == [(0.0, None, None)] * 2
    assert all("0 in every representative" in a.basis for a in answers)
    whole = estimate(chosen, np.zeros(40))
    assert (whole.low, whole.high) == (0.0, 0.0)


def test_a_metric_that_only_the_start_up_has() -> None:
    """GIVEN a metric of the first slice alone, which represents itself THEN the others' zeros bound
    nothing: no interval, for a sum and for a ratio."""
    chosen = random_selection((1, 30, 10), (1, 2, 2), np.random.default_rng(7))
    known = np.full(41, np.nan)
    values = np.array([900.0, 0.0, 0.0, 0.0, 0.0])
    known[[r.slice for r in chosen.representatives]] = values
    answers = [estimate(chosen, known), estimate_ratio(chosen, values, np.ones(5))]
    assert [(a.low, a.high) for a in answers] == [(None, None)] * 2
    assert answers[0].value == 900.0


def test_a_choice_by_rule_has_no_interval() -> None:
    """GIVEN several representatives of a cluster, picked by a rule THEN neither a sum nor a ratio
    has an interval, and both say why."""
    rng = np.random.default_rng(7)
    chosen = replace(
        random_selection((30, 10), (3, 2), rng), design=Design.picked("the first ones")
    )
    known, values = np.full(40, np.nan), rng.normal(10.0, 1.0, 5)
    known[[r.slice for r in chosen.representatives]] = values
    answers = [estimate(chosen, known), estimate_ratio(chosen, values, np.ones(5))]
    assert [(a.low, a.high, a.basis) for a in answers] == [(None, None, "the first ones")] * 2


def test_means_of_clusters_stray_as_their_sum_does() -> None:
    """GIVEN many clusters with two representatives each THEN what is added up from their means
    strays by the total's half-width: wide single intervals do not add up."""
    rng = np.random.default_rng(3)
    chosen = random_selection((30,) * 20, (2,) * 20, rng)
    known = np.full(600, np.nan)
    rows = [r.slice for r in chosen.representatives]
    known[rows] = rng.lognormal(0.0, 0.3, len(rows))
    answer, (mean, drawn) = estimate(chosen, known), cluster_means(chosen, known, elsewhere=False)
    assert answer.high is not None and not isinstance(drawn, str)
    totals = chosen.sizes @ drawn
    assert chosen.sizes @ mean == pytest.approx(answer.value)
    half = np.quantile(np.abs(totals - answer.value), 0.95)
    assert half == pytest.approx(answer.high - answer.value, rel=0.1)


def test_a_representative_without_time_is_an_error() -> None:
    """The error names its slice."""
    chosen = random_selection((3,), (1,), np.random.default_rng(6))
    with pytest.raises(InputError, match=f"slice {chosen.representatives[0].slice} "):
        estimate(chosen, np.full(3, np.nan))
    with pytest.raises(InputError, match="4 slice times"):
        estimate(chosen, np.ones(4))
