# SPDX-License-Identifier: Apache-2.0
"""Sample sizes, draws and intervals of stratified sampling, against hand-worked cases and
simulation."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xpuprof.clustering.one_dimension import compress, k_means, two_means
from xpuprof.errors import InputError
from xpuprof.estimation.allocation import fewest
from xpuprof.estimation.estimate import Estimate
from xpuprof.estimation.intervals import cluster_means, estimate, estimate_part
from xpuprof.estimation.projection import project
from xpuprof.estimation.quantiles import freedom_of_sum, student, z_score
from xpuprof.estimation.stratified import Partition, draw, error_bound, from_labels
from xpuprof.methods import allegro, random_, ranked_set, stem_root, two_phase, xpu_stem
from xpuprof.methods.profile import SliceProfile
from xpuprof.methods.stem_root import joint_sizes, single_size
from xpuprof.selection.selection import Marker, Representative, Selection


def profile_of(times: np.ndarray, kernels: list[str] | None = None) -> SliceProfile:
    names = kernels or ["k"] * len(times)
    frame = pd.DataFrame({"kernel": names})
    frame["call"] = frame.groupby("kernel").cumcount() + 1
    return SliceProfile(frame, np.asarray(times, dtype=np.float64))


def test_z_score() -> None:
    assert z_score(0.95) == pytest.approx(1.959964, abs=1e-6)


def test_student_and_its_degrees_of_freedom() -> None:
    """Table values; a known variance has infinitely many degrees, and the sum at least one."""
    assert student(0.95, 4.0) == pytest.approx(2.776445, abs=1e-6)
    assert student(0.95, math.inf) == z_score(0.95)
    assert freedom_of_sum(np.array([2.0, 2.0]), np.array([3.0, 3.0])) == pytest.approx(6.0)
    assert freedom_of_sum(np.array([2.0, 2.0]), np.array([3.0, math.inf])) == pytest.approx(12.0)
    assert freedom_of_sum(np.array([2.0, 0.0]), np.array([math.inf, 5.0])) == math.inf


def test_sizes_with_and_without_replacement() -> None:
    """Taking all slices makes the finite-population factor vanish; of many it hardly counts."""
    size, spread, cost = np.array([10**7, 10**7]), np.array([1.0, 3.0]), np.array([1.0, 4.0])
    variance = (0.05 * 5e7 / 1.96) ** 2
    eq_6 = joint_sizes(size, cost, spread, 0.05, 1.96) @ cost
    assert eq_6 - 5.0 <= fewest(size, spread, cost, variance) @ cost <= eq_6
    small = np.array([20, 20])
    # The second is taken whole; of the first, 400 / m - 20 <= 9 from m = 14 on.
    assert fewest(small, spread, cost, 9.0).tolist() == [14, 20]
    assert (joint_sizes(small, cost, spread, 0.06 * 1.96, 1.96) > 20).all()


def test_single_slices_leave_the_others_their_variance() -> None:
    """GIVEN clusters of one slice, which are measured completely, and small ones that vary little
    THEN one of each small cluster is enough, however much the single slices vary."""
    size, cost = np.array([1, 3, 1, 2]), np.array([76.0, 0.01, 21.0, 0.02])
    spread = np.array([2.3, 0.03, 0.6, 0.03])
    counts = fewest(size, spread, cost, 1.5)
    assert counts.tolist() == [1, 1, 1, 1]
    assert float(np.sum((size * spread) ** 2 * (1 / counts - 1 / size))) < 1.5


def test_equation_3() -> None:
    # (1.96 x 2 / (0.05 x 10))^2 = 7.84^2 = 61.47 -> 62
    assert single_size(10.0, 2.0, 0.05, 1.96) == 62


def test_a_cluster_without_variance_is_sampled_once() -> None:
    assert single_size(10.0, 0.0, 0.05, 1.96) == 1
    assert joint_sizes(
        np.array([5, 7]), np.array([1.0, 2.0]), np.array([0.0, 0.0]), 0.05, 1.96
    ).tolist() == [1, 1]


def test_equation_6_by_hand() -> None:
    # a = (1, 4), sqrt(b) = (100 x 0.5, 50 x 2) = (50, 100), T = 300, c = (0.1 x 300 / 2)^2 = 225.
    # sum sqrt(a b) = 50 + 200 = 250; m = 250 / 225 x (50 / 1, 100 / 2) = (55.6, 55.6)
    sizes = joint_sizes(np.array([100, 50]), np.array([1.0, 4.0]), np.array([0.5, 2.0]), 0.1, 2.0)
    assert sizes.tolist() == [56, 56]


def test_equation_6_is_optimal() -> None:
    """No other real-valued sizes with the same bound measure less time."""
    size, mean, sigma = np.array([400, 90]), np.array([1.0, 9.0]), np.array([0.3, 4.0])
    z, epsilon = 1.96, 0.05
    c = (epsilon * float(size @ mean) / z) ** 2
    root = float(np.sqrt(mean) @ (size * sigma))
    best = root / c * size * sigma / np.sqrt(mean)
    assert (size**2 * sigma**2 / best).sum() == pytest.approx(c)
    for shift in (0.9, 0.99, 1.01, 1.1):
        first = best[0] * shift
        second = size[1] ** 2 * sigma[1] ** 2 / (c - size[0] ** 2 * sigma[0] ** 2 / first)
        assert first * mean[0] + second * mean[1] > float(best @ mean)


def test_theorem_3_1_the_union_of_bounded_sets_is_bounded() -> None:
    rng = np.random.default_rng(0)
    size, mean, sigma = rng.integers(10, 500, 40), rng.uniform(1, 9, 40), rng.uniform(0, 3, 40)
    z = z_score(0.95)
    sizes = np.concatenate(
        [
            joint_sizes(size[i : i + 4], mean[i : i + 4], sigma[i : i + 4], 0.05, z)
            for i in range(0, 40, 4)
        ]
    )
    start = np.concatenate([[0], np.cumsum(size)])
    strata = Partition(np.arange(size.sum()), start, mean, sigma)
    assert error_bound(strata.with_draws(sizes), z, replacement=True) <= 0.05


def test_finite_population_factor() -> None:
    times = np.array([1.0, 2.0, 3.0, 4.0])
    strata = from_labels(np.zeros(4, dtype=np.int32), times)
    assert error_bound(strata.with_draws(np.array([4])), 1.96, replacement=False) == 0.0
    # Var of the total of n = 2 of 4 without replacement: 16 x 1.25 / 2 x (4 - 2) / 3 = 6.667
    bound = error_bound(strata.with_draws(np.array([2])), 1.0, replacement=False)
    assert bound == pytest.approx(np.sqrt(20 / 3) / 10)
    totals = [2 * (a + b) for i, a in enumerate(times) for b in times[i + 1 :]]
    assert np.var(totals) == pytest.approx(20 / 3)


@pytest.mark.parametrize("replacement", [True, False])
def test_draws_are_unbiased(replacement: bool) -> None:
    times = np.random.default_rng(3).lognormal(0, 1, 60)
    strata = from_labels(np.repeat([0, 1, 2], 20).astype(np.int32), times)
    sizes = np.array([1, 3, 5])
    totals = []
    for seed in range(3000):
        rows, owner, draws = draw(
            strata, sizes, np.random.default_rng(seed), replacement=replacement
        )
        assert np.bincount(owner, draws).tolist() == sizes.tolist()
        totals.append(float((times[rows] * draws * 20 / sizes[owner]).sum()))
    error = np.std(totals) / np.sqrt(len(totals))
    assert abs(np.mean(totals) - times.sum()) < 4 * error


@given(st.lists(st.integers(1, 40), min_size=2, max_size=30))
@settings(max_examples=60, deadline=None)
def test_two_means_is_optimal(numbers: list[int]) -> None:
    data = compress(np.sort(np.array(numbers, dtype=np.float64)))
    if len(data) < 2:
        return
    full = np.sort(np.array(numbers, dtype=np.float64))

    def cost(cut: int) -> float:
        at = int(data.ends[cut - 1])
        return float(full[:at].var() * at + full[at:].var() * (len(full) - at))

    assert cost(two_means(data, 0, len(data))) == pytest.approx(
        min(cost(cut) for cut in range(1, len(data))), abs=1e-9
    )


def test_k_means_separates_three_peaks() -> None:
    data = compress(np.sort(np.concatenate([[1, 1.1, 1.2], [5, 5.1], [9, 9.2]])))
    cuts = k_means(data, 0, len(data), 3)
    assert [data.values[c] for c in cuts[1:-1]] == [5.0, 9.0]


SHAPES = {
    "constant": lambda rng: np.full(300, 3e-6),
    "skewed": lambda rng: rng.lognormal(0, 1, 300) * 1e-6,
    "multi-modal": lambda rng: (
        rng.choice([1.0, 4.0, 20.0], 300, p=[0.7, 0.2, 0.1])
        * np.exp(rng.normal(0, 0.05, 300))
        * 1e-6
    ),
}


def redrawn(selection: Selection, strata: Partition, seed: int) -> Selection:
    """The selection with new draws from its strata."""
    planned = selection.design.strata
    assert planned is not None
    sizes = np.array(planned.draws)
    rng = np.random.default_rng(seed)
    rows, owner, draws = draw(strata, sizes, rng, replacement=selection.design.replacement)
    multiplier = strata.size[owner] * draws / sizes[owner]
    representatives = tuple(
        Representative(int(r), Marker("k", 1), None, int(o), float(m), 0.0, int(d))
        for r, o, m, d in zip(rows, owner, multiplier, draws, strict=True)
    )
    return replace(selection, representatives=representatives)


def from_representatives(
    selection: Selection, times: np.ndarray, *, elsewhere: bool = False
) -> Estimate:
    """The estimate from the representatives' times alone."""
    known = np.full(len(times), np.nan)
    rows = [r.slice for r in selection.representatives]
    known[rows] = times[rows]
    return estimate(selection, known, elsewhere=elsewhere)


TRIALS = 2000
AT_LEAST = 0.95 - 3 * np.sqrt(0.95 * 0.05 / TRIALS)
"""95 % nominal, less three standard errors of the simulation."""


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "method", [stem_root, allegro, xpu_stem, two_phase], ids=lambda m: m.__name__[17:]
)
def test_intervals_hold_the_truth_as_often_as_they_say(method: Any, shape: Any) -> None:
    """From the representatives alone, and from the times of all slices."""
    times = SHAPES[shape](np.random.default_rng(5))
    profile = profile_of(times, [f"k{i % 3}" for i in range(len(times))])
    truth = float(times.sum())
    # The strata do not depend on the seed, so one selection serves for all draws.
    selection = method.select(profile, seed=0)
    exact = from_labels(selection.labels, times)
    with_all = estimate(selection, times)  # the width follows from the design, not the draw
    assert with_all.high is not None
    half = with_all.high - with_all.value
    held = held_by_all = errors = 0.0
    for seed in range(TRIALS):
        sampled = from_representatives(redrawn(selection, exact, seed), times)
        assert sampled.low is not None and sampled.high is not None
        held += sampled.low - 1e-12 <= truth <= sampled.high + 1e-12
        held_by_all += abs(sampled.value - truth) <= half + 1e-12
        errors += abs(sampled.value / truth - 1)
    assert held / TRIALS >= AT_LEAST
    assert held_by_all / TRIALS >= AT_LEAST
    assert errors / TRIALS <= 0.05


def other_machine(times: np.ndarray, speedups: tuple[float, ...]) -> np.ndarray:
    """The times where kernel i is `speedups[i]` times as slow and every slice strays by 10 %."""
    rng = np.random.default_rng(8)
    slower = np.array(speedups)[np.arange(len(times)) % len(speedups)]
    return times * slower * np.exp(rng.normal(0.0, 0.1, len(times)))


@pytest.mark.slow
@pytest.mark.parametrize("least", [2, 3])
@pytest.mark.parametrize("shape", ["skewed", "multi-modal"])
def test_intervals_hold_on_another_machine(shape: str, least: int) -> None:
    """GIVEN kernels that another machine speeds up unequally WHEN some slices of each stratum are
    measured there THEN the interval holds in 95 % of the draws, less three standard errors."""
    times = SHAPES[shape](np.random.default_rng(5))
    selection = xpu_stem.select(
        profile_of(times, [f"k{i % 3}" for i in range(len(times))]), least=3
    )
    exact = from_labels(selection.labels, times)
    there = other_machine(times, (0.5, 1.0, 2.0))
    held = 0
    for seed in range(TRIALS):
        answer = from_representatives(redrawn(selection, exact, seed), there, elsewhere=True)
        assert answer.low is not None and answer.high is not None
        held += answer.low <= there.sum() <= answer.high
    assert held / TRIALS >= AT_LEAST


def test_one_draw_that_carries_the_total_is_for_this_machine_only() -> None:
    times = np.random.default_rng(5).normal(1.0, 0.01, 300)
    selection = xpu_stem.select(profile_of(times))
    assert len(selection.representatives) == 1
    assert from_representatives(selection, times).high is not None
    answer = from_representatives(selection, times, elsewhere=True)
    assert answer.high is None
    assert answer.basis.startswith("this machine only")


def held_by_half_width(times: np.ndarray, draws: int, replacement: bool) -> float:
    """The share of random draws whose error is within the half-width stated for known times."""
    selection = random_.select(profile_of(times), seed=0, n=draws)
    selection = replace(selection, design=replace(selection.design, replacement=replacement))
    exact = from_labels(selection.labels, times)
    answer = estimate(selection, times)
    assert answer.high is not None
    half, held = answer.high - answer.value + 1e-12 * times.sum(), 0
    for seed in range(TRIALS):
        again = redrawn(selection, exact, seed)
        value = sum(times[r.slice] * r.multiplier for r in again.representatives)
        held += abs(value - times.sum()) <= half
    return held / TRIALS


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("draws", [5, 40])
@pytest.mark.parametrize("replacement", [True, False])
def test_known_times_give_the_width_of_the_draws(shape: Any, draws: int, replacement: bool) -> None:
    """The half-width covers exactly 95 % of the draws, for few and many draws, with and without
    replacement."""
    held = held_by_half_width(SHAPES[shape](np.random.default_rng(6)), draws, replacement)
    assert held >= AT_LEAST
    assert shape == "constant" or held <= 0.975


@pytest.mark.parametrize("draws", [29, 30, 60])
@pytest.mark.parametrize("replacement", [True, False])
def test_known_times_of_one_slice_that_takes_most(draws: int, replacement: bool) -> None:
    """GIVEN a first call that takes as long as all others WHEN a fifth of the slices are drawn THEN
    the half-width covers the draws that have it, which are more than 5 %."""
    times = np.ones(150)
    times[0] = 150.0
    assert held_by_half_width(times, draws, replacement) >= AT_LEAST


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize("slow", [20.0, 500.0])
def test_known_times_of_several_slow_slices(slow: float, replacement: bool) -> None:
    """GIVEN 34 slow slices of 2,000, none of which takes most WHEN 30 are drawn THEN the half-width
    covers draws that have two of them, which are more than 5 %."""
    times = np.random.default_rng(1).lognormal(0.0, 0.1, 2000)
    times[:34] *= slow
    assert held_by_half_width(times, 30, replacement) >= AT_LEAST


def test_random_slices_of_a_run_without_times() -> None:
    """GIVEN no profiled times THEN no error is stated, one measured slice tells no interval, and
    several tell it by their spread."""
    times = np.random.default_rng(0).lognormal(0, 0.5, 300)
    profile = replace(profile_of(times), times=None)
    held = 0
    for seed in range(400):
        one, several = (random_.select(profile, seed=seed, n=n) for n in (1, 30))
        assert one.design.error_bound is None
        assert from_representatives(one, times).basis.startswith("no interval")
        answer = from_representatives(several, times)
        assert answer.low is not None and answer.high is not None
        held += answer.low <= times.sum() <= answer.high
    assert 0.9 <= held / 400 <= 0.99


def test_two_phase_keeps_its_bound_in_small_strata() -> None:
    """GIVEN strata of a few slices, whose sample variance exceeds the population's THEN the bound
    is at most epsilon."""
    for seed, epsilon in product(range(20), (0.005, 0.02)):
        profile = profile_of(np.random.default_rng(seed).lognormal(0, 1, 24))
        bound = two_phase.select(profile, epsilon=epsilon, strata=5).design.error_bound
        assert bound is not None and bound <= epsilon * (1 + 1e-9)


@pytest.mark.slow
def test_ranked_sets_are_unbiased_and_their_intervals_hold() -> None:
    """GIVEN sets ranked by other times than those measured THEN the mean of the projections is the
    truth, and both kinds of interval hold in 95 % of the selections, less three standard errors."""
    times = SHAPES["multi-modal"](np.random.default_rng(5))
    profile, there = profile_of(times), other_machine(times, (0.8, 1.0, 1.25))
    inside = inside_all = 0
    values = []
    half = estimate(ranked_set.select(profile, seed=0), times)
    assert half.high is not None
    for seed in range(TRIALS):
        selection = ranked_set.select(profile, seed=seed)
        answer = from_representatives(selection, there, elsewhere=True)
        assert answer.low is not None and answer.high is not None
        values.append(answer.value)
        inside += answer.low <= there.sum() <= answer.high
        inside_all += abs(project(selection, times) - times.sum()) <= half.high - half.value
    assert (
        abs(np.mean(values) / there.sum() - 1) <= 3 * np.std(values) / np.sqrt(TRIALS) / there.sum()
    )
    assert inside / TRIALS >= AT_LEAST
    assert inside_all / TRIALS >= AT_LEAST


@pytest.mark.slow
def test_ranked_sets_of_parts_and_their_means() -> None:
    """GIVEN a process unlike the others THEN the interval of its share holds in 95 % of the
    selections, not in all of them; the ranks' means, of which timelines are made, stray as much as
    is said."""
    rng, many = np.random.default_rng(1), 400
    times = np.concatenate([rng.lognormal(0, 0.3, 200), rng.lognormal(1, 0.8, 400)])
    rows, held, means = slice(0, 200), 0, []
    for seed in range(many):
        selection = ranked_set.select(profile_of(times), seed=seed)
        answer = estimate_part(selection, times, rows)
        assert answer.low is not None and answer.high is not None
        held += answer.low <= times[rows].sum() <= answer.high
        mean, drawn = cluster_means(selection, times, elsewhere=False)
        means.append(mean)
    assert 0.95 - 3 * np.sqrt(0.95 * 0.05 / many) <= held / many <= 0.98
    assert not isinstance(drawn, str)
    assert drawn.std(axis=1) == pytest.approx(np.std(means, axis=0), rel=0.2)
    assert drawn.mean(axis=1) == pytest.approx(np.mean(means, axis=0), rel=0.05)


def test_ranked_sets_of_a_short_run_measure_every_slice_once() -> None:
    """GIVEN fewer slices than the method measures THEN the projection is exact."""
    times = np.random.default_rng(3).lognormal(0, 1, 21)
    selection = ranked_set.select(profile_of(times), seed=1, n=30)
    assert [r.multiplier for r in selection.representatives] == [1.0] * 21
    assert project(selection, times) == pytest.approx(times.sum())
    whole = estimate(selection, times)
    assert whole.low == pytest.approx(times.sum()) and whole.high == pytest.approx(times.sum())


@pytest.mark.slow
def test_random_interval_covers_a_normal_population() -> None:
    times = np.random.default_rng(1).normal(10, 1, 2000)
    selection = random_.select(profile_of(times), seed=0, n=30)
    exact = from_labels(selection.labels, times)
    held = 0
    for seed in range(TRIALS):
        answer = from_representatives(redrawn(selection, exact, seed), times)
        assert answer.low is not None and answer.high is not None
        held += answer.low <= times.sum() <= answer.high
    assert held / TRIALS >= AT_LEAST


def test_no_interval_begins_below_what_was_measured() -> None:
    """GIVEN a slice that takes half of the time WHEN it is among 36 of 40 drawn THEN the low end is
    the drawn slices' time."""
    times = np.ones(40)
    times[2] = 39.0
    chosen = random_.select(profile_of(times), seed=1, n=36)
    assert 2 in {r.slice for r in chosen.representatives}
    answer = from_representatives(chosen, times)
    assert answer.low is not None and answer.high is not None
    assert answer.low == pytest.approx(74.0)
    assert from_representatives(chosen, -times).low < -78.0  # type: ignore[operator]


def test_an_error_as_large_as_the_whole_bounds_nothing() -> None:
    """GIVEN a twentieth of the slices that take nine tenths of the time WHEN 30 of 2,000 are drawn
    THEN there is no interval: one draw in five has no such slice and projects a tenth."""
    times = np.where(np.arange(2000) % 20 == 0, 171.0, 1.0)
    for seed in range(20):
        selection = random_.select(profile_of(times), seed=seed, n=30)
        answer = from_representatives(selection, times, elsewhere=bool(seed % 2))
        known = np.full((3, 2000), np.nan)
        chosen = [r.slice for r in selection.representatives]
        known[:, chosen] = times[chosen]
        later = estimate(selection, known, other_runs=True)
        means = cluster_means(selection, known[0], elsewhere=bool(seed % 2))[1]
        assert means == later.basis == answer.basis
        assert (answer.low, answer.high) == (later.low, later.high) == (None, None)
        assert answer.basis.startswith("no interval: the error may be as large as the whole")


def test_same_seed_same_selection_other_seed_other_draws() -> None:
    profile = profile_of(np.random.default_rng(1).lognormal(0, 1, 500))

    def chosen(seed: int) -> list[int]:
        return [r.slice for r in stem_root.select(profile, seed=seed).representatives]

    assert chosen(1) == chosen(1)
    assert chosen(1) != chosen(2)


@pytest.mark.parametrize("method", [stem_root, allegro, xpu_stem], ids=lambda m: m.__name__[17:])
def test_odd_profiles_still_work(method: Any) -> None:
    for times in ([5.0], [2.0, 2.0, 2.0], [0.0, 1.0, 3.0]):
        profile = profile_of(np.array(times))
        selection = method.select(profile)
        total = sum(times[r.slice] * r.multiplier for r in selection.representatives)
        assert total == pytest.approx(sum(times), rel=0.6)
        assert set(selection.labels.tolist()) == {r.cluster for r in selection.representatives}


@pytest.mark.parametrize(
    ("times", "sentence"),
    [
        ([1.0, np.nan], "not a finite number"),
        ([1.0, -2.0], "negative"),
        ([0.0, 0.0], "every slice has time zero"),
        ([], "no slices"),
    ],
)
def test_bad_times(times: list[float], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        profile_of(np.array(times))
