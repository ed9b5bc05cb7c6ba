# SPDX-License-Identifier: Apache-2.0
"""STEM+ROOT, Allegro and xpu-stem on populations whose structure is known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from scipy import sparse

from xpuprof.cli import cli
from xpuprof.clustering.one_dimension import compress
from xpuprof.estimation.intervals import estimate
from xpuprof.methods import allegro, first_n, random_, stem_root, xpu_stem
from xpuprof.methods.block_vectors import ImportedVectors
from xpuprof.methods.profile import NeedsError, SliceProfile
from xpuprof.selection.selection import Selection


def three_peaks(count: int = 3000) -> SliceProfile:
    rng = np.random.default_rng(2)
    centre = rng.choice([1.0, 5.0, 30.0], count)
    times = centre * np.exp(rng.normal(0, 0.01, count)) * 1e-6
    frame = pd.DataFrame({"kernel": ["k"] * count, "call": np.arange(1, count + 1)})
    return SliceProfile(frame, times)


def test_root_separates_the_peaks() -> None:
    profile = three_peaks()
    selection = stem_root.select(profile)
    times = profile.times
    assert times is not None
    for cluster in range(selection.labels.max() + 1):
        own = times[selection.labels == cluster]
        assert own.max() / own.min() < 1.2
    assert selection.design.error_bound <= 0.05


def test_root_leaves_one_narrow_peak_alone() -> None:
    data = compress(np.sort(np.random.default_rng(0).normal(10, 0.05, 1000)))
    assert stem_root.root(data, 0.05, 1.96) == [(0, len(data), 1)]


@pytest.mark.parametrize("method", [stem_root, allegro, xpu_stem, random_])
def test_neither_unit_nor_names_nor_their_type_choose_slices(method: Any) -> None:
    """GIVEN times in whole microseconds, of which many cuts are equally good WHEN they are scaled
    or the kernels have other names, as strings or categories THEN the same slices are chosen."""
    rng = np.random.default_rng(2)
    kind = rng.integers(0, 5, 600)
    times = np.round(np.exp(kind * 0.7 + rng.integers(0, 3, 600) * 0.9 + rng.normal(0, 0.3, 600)))
    frame = pd.DataFrame({"kernel": [f"k{k}" for k in kind], "call": np.arange(1, 601)})

    def chosen(frame: pd.DataFrame, unit: float) -> list[tuple[int, float]]:
        selection = method.select(SliceProfile(frame, times * unit), seed=1)
        return [(r.slice, r.multiplier) for r in selection.representatives]

    expected = chosen(frame, 1e-6)
    for unit in (1e-3, 1.0 / 3.0, 7.0):
        assert chosen(frame, unit) == expected
    renamed = frame.assign(kernel=[f"k{9 - k}" for k in kind])
    for other in (
        renamed,
        frame.astype({"kernel": "category"}),
        renamed.astype({"kernel": "category"}),
    ):
        assert chosen(other, 1e-6) == expected


def test_every_cluster_is_sampled() -> None:
    """Clusters without variance must not vanish (times in whole microseconds)."""
    times = np.repeat([2.0, 3.0, 4.0, 100.0], [500, 300, 200, 10]) * 1e-6
    frame = pd.DataFrame({"kernel": ["k"] * 1010, "call": np.arange(1, 1011)})
    selection = stem_root.select(SliceProfile(frame, times))
    assert {r.cluster for r in selection.representatives} == set(selection.labels.tolist())
    total = sum(times[r.slice] * r.multiplier for r in selection.representatives)
    assert total == pytest.approx(times.sum(), rel=0.05)


def test_joint_sizes_measure_less_than_sizes_by_split() -> None:
    rng = np.random.default_rng(4)
    kernels = [f"k{i}" for i in range(10)]
    names = rng.choice(kernels, 4000)
    times = rng.lognormal(0, 0.8, 4000)
    frame = pd.DataFrame({"kernel": names, "call": np.arange(4000)})
    profile = SliceProfile(frame, times)
    split, joint = (stem_root.select(profile, sizes=how) for how in ("split", "joint"))
    assert sum(joint.design.strata.draws) < sum(split.design.strata.draws)
    assert joint.design.error_bound <= 0.05


def test_sizes_by_split_may_miss_the_bound_and_joint_sizes_keep_it() -> None:
    """The third cluster keeps its size of a joint bound, while its sibling is split further under a
    bound of its own."""
    values = [0.0184, 0.1084, 0.1273, 0.1285, 0.6206, 1.5313, 8.6472]
    times = np.repeat(values, [1, 2, 1672, 2111, 205, 42, 1])
    frame = pd.DataFrame({"kernel": ["k"] * len(times), "call": np.arange(len(times))})
    bounds = {
        how: stem_root.select(
            SliceProfile(frame, times), epsilon=0.01, **options
        ).design.error_bound
        for how, options in (("split", {"sizes": "split"}), ("default", {}))
    }
    assert bounds["split"] > 1.03 * 0.01
    assert bounds["default"] <= 0.01


def test_more_clusters_a_split() -> None:
    selection = stem_root.select(three_peaks(), k=3)
    assert selection.design.error_bound <= 0.05


def test_allegro_algorithm_1() -> None:
    """Theorem 2's floor of 30, the threshold of 50, and groups by name, grid and block."""
    assert allegro.m_min(10.0, 0.1, 0.05, 1.96) == 30
    # (1.96 x 2 / (0.05 x 10))^2 = 61.47
    assert allegro.m_min(10.0, 2.0, 0.05, 1.96) == 62
    selection = allegro.select(three_peaks())
    strata = selection.design.strata
    assert all(30 <= m <= 50 for m in strata.draws)
    assert not selection.design.replacement
    frame = pd.DataFrame({"kernel": ["k"] * 80, "call": np.arange(80), "gx": [1, 2] * 40})
    by_grid = allegro.select(SliceProfile(frame, np.ones(80)))
    assert by_grid.k == 2


def test_allegro_takes_small_groups_whole() -> None:
    frame = pd.DataFrame({"kernel": ["k"] * 5, "call": np.arange(5)})
    selection = allegro.select(SliceProfile(frame, np.array([1.0, 2.0, 3.0, 4.0, 5.0])))
    assert sum(r.multiplier for r in selection.representatives) == pytest.approx(5)
    assert selection.design.error_bound == 0.0


def test_xpu_stem_meets_the_bound_for_less_time_than_stem_root() -> None:
    rng = np.random.default_rng(9)
    names = np.array([f"k{i}" for i in rng.integers(0, 60, 5000)])
    times = rng.lognormal(0, 1, 5000)
    profile = SliceProfile(pd.DataFrame({"kernel": names, "call": np.arange(5000)}), times)

    def planned(selection: Any) -> float:
        strata = selection.design.strata
        return float(np.dot(strata.draws, strata.mean))

    ours, theirs = xpu_stem.select(profile), stem_root.select(profile, sizes="joint")
    assert ours.design.error_bound <= 0.05
    assert planned(ours) < 0.5 * planned(theirs)


def test_xpu_stem_leaves_an_exit_without_time_out_of_the_kernels() -> None:
    """GIVEN kernel times of two processes, with nothing after the last kernels THEN the exits are a
    stratum, and the multipliers of each kernel add up to its launches."""
    names = [*["a", "b", "c"] * 40, "SYS_exit"] * 2
    times = np.array([*[20.0, 200.0, 800.0] * 40, 0.0] * 2) * 1e-9
    frame = pd.DataFrame({"kernel": names, "call": np.arange(242) + 1})
    selection = xpu_stem.select(SliceProfile(frame, times, time_name="gpu_time"))
    counts: dict[str, float] = {}
    for r in selection.representatives:
        counts[r.end.kernel] = counts.get(r.end.kernel, 0.0) + r.multiplier
    assert counts == {"a": 80.0, "b": 80.0, "c": 80.0, "SYS_exit": 2.0}


def test_xpu_stem_rho_keeps_unlike_kernels_apart() -> None:
    times = np.repeat([1.0, 1.01], 500)
    frame = pd.DataFrame({"kernel": ["a"] * 500 + ["b"] * 500, "call": np.arange(1000)})
    profile = SliceProfile(frame, times)
    assert xpu_stem.select(profile, rho=0.0).k == 1
    assert xpu_stem.select(profile, rho=0.5, epsilon=0.02).k == 2


@pytest.mark.parametrize("least", [2, 3])
def test_xpu_stem_draws_at_least_so_many_of_a_stratum(least: int) -> None:
    profile = three_peaks(1000)
    strata = xpu_stem.select(profile, least=least).design.strata
    assert strata is not None
    assert all(m >= min(least, n) for m, n in zip(strata.draws, strata.size, strict=True))


def test_xpu_stem_with_times_of_zero() -> None:
    """GIVEN a time below the clock's tick, 0 THEN the others are cut as finely as without it."""
    times = np.repeat([10.0, 20.0, 30.0, 80.0, 200.0], 400)
    times *= np.random.default_rng(0).lognormal(0, 0.1, 2000)

    def strata() -> list[int]:
        pool, _ = xpu_stem.distinct(np.zeros(len(times), np.int32), times)
        root = xpu_stem.Node.of(pool, np.arange(len(pool.values)))
        leaves = xpu_stem.Intervals(root).best(1e-6, xpu_stem.Demands())
        return [leaf.node.number for leaf in leaves]

    before = strata()
    assert len(before) > 2
    times[times.argmin()] = 0.0
    assert len(strata()) >= len(before)


def test_a_bound_that_is_not_met_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN errors that no choice of strata lowers WHEN the search has given up THEN select says
    which error it predicts."""
    times = 1.0 + 0.2 * np.sin(np.arange(300))
    stubborn = 0.1 * times.sum() * 1e-6 * np.linspace(-1.0, 1.0, 4000)
    monkeypatch.setattr(xpu_stem, "simulate", lambda _: stubborn)
    rows = [f"k,{time:.6f}" for time in times]
    (tmp_path / "times.csv").write_text("\n".join(["kernel,duration_us", *rows]) + "\n")
    run = str(tmp_path / "run")
    runner = CliRunner()
    done = runner.invoke(cli, ["import", str(tmp_path / "times.csv"), "-o", run])
    assert done.exit_code == 0, done.output
    chosen = runner.invoke(cli, ["select", run, "--method", "xpu-stem"])
    assert chosen.exit_code == 0, chosen.output
    stated = Selection.read(f"{run}/selection.json").design.error_bound
    assert stated is not None and stated > 0.05
    assert f"predicts an error of {100 * stated:.2f} %" in " ".join(chosen.output.split())


def test_xpu_stem_uses_clusters_of_vectors() -> None:
    times = np.repeat([1.0, 1.0], 500)
    frame = pd.DataFrame({"kernel": ["a"] * 1000, "call": np.arange(1000)})
    labels = np.repeat([0, 1], 500).astype(np.int32)
    blocks = sparse.csr_matrix(np.eye(2)[labels])
    profile = SliceProfile(frame, times, vectors=ImportedVectors(gpu=lambda: blocks))
    selection = xpu_stem.select(profile, rho=0.5, epsilon=0.02)
    assert len(set(zip(labels.tolist(), selection.labels.tolist(), strict=True))) == 2


def test_random_and_first_n() -> None:
    profile = three_peaks(1000)
    chosen = random_.select(profile, seed=3, n=50)
    assert len({r.slice for r in chosen.representatives}) == 50
    assert sum(r.multiplier for r in chosen.representatives) == pytest.approx(1000)
    first = first_n.select(profile, n=10)
    assert [r.slice for r in first.representatives] == list(range(10))
    assert first.representatives[0].start is None
    assert first.representatives[1].start == first.representatives[0].end
    with pytest.raises(NeedsError, match="instruction counts"):
        first_n.select(profile, instructions=1e9)


def test_methods_without_times_say_so() -> None:
    frame = pd.DataFrame({"kernel": ["a"], "call": [1]})
    for method in (stem_root, allegro, xpu_stem):
        with pytest.raises(NeedsError, match="needs slice times"):
            method.select(SliceProfile(frame))


def test_equal_times_have_no_interval_made_of_rounding() -> None:
    """GIVEN equal times whose mean is rounded THEN rounding errors do not determine the simulated
    quantile, and the interval has no width."""
    times = np.full(4000, 3e-6)
    frame = pd.DataFrame({"kernel": [f"k{i % 8}" for i in range(4000)], "call": np.arange(4000)})
    selection = xpu_stem.select(SliceProfile(frame, times))
    assert selection.design.quantile == pytest.approx(1.96, abs=0.01)
    known = np.full(4000, np.nan)
    known[[r.slice for r in selection.representatives]] = 3e-6
    answer = estimate(selection, known)
    assert answer.low == pytest.approx(0.012) and answer.high == pytest.approx(0.012)


def test_a_lower_confidence_keeps_intervals_of_95_percent() -> None:
    """GIVEN few slow slices, whose error has long tails WHEN selected at a confidence of 50 % THEN
    the interval at 95 % has the simulated quantile of 95 %."""
    rng = np.random.default_rng(1)
    times = np.where(np.arange(2000) < 34, 50.0, 1.0) * rng.uniform(0.95, 1.05, 2000)
    frame = pd.DataFrame({"kernel": ["k"] * 2000, "call": np.arange(1, 2001)})
    selection = xpu_stem.select(SliceProfile(frame, times), confidence=0.5, epsilon=0.1)
    assert selection.design.quantile is not None and selection.design.quantile > 3.0
    known = np.full(2000, np.nan)
    rows = [r.slice for r in selection.representatives]
    known[rows] = times[rows]
    stated, plain = (
        estimate(replace(selection, design=replace(selection.design, quantile=q)), known)
        for q in (selection.design.quantile, None)
    )
    assert stated.half_width > 1.2 * plain.half_width
