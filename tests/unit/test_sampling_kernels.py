# SPDX-License-Identifier: Apache-2.0
"""PKA, Sieve, TBPoint, Photon and the projections inside a kernel, on made-up kernels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from tests.support.processes import with_tables
from tests.support.signature_data import process_of
from xpuprof.errors import InputError
from xpuprof.methods import one_per_cluster, photon, pka, pkp, sieve, tbpoint
from xpuprof.methods.profile import NeedsError, SliceProfile
from xpuprof.methods.recorded import from_process
from xpuprof.trace.coordinates import EXIT_KERNEL


def projected(selection: Any, times: np.ndarray) -> float:
    return float(sum(times[r.slice] * r.multiplier for r in selection.representatives))


def two_kinds(count: int = 60) -> tuple[SliceProfile, np.ndarray]:
    """Two kinds of kernel, each with its own counters and time; the last slice is the exit."""
    kind = np.arange(count) % 2
    times = np.append(np.where(kind == 0, 1.0, 4.0), 0.5)
    instructions = np.append(np.where(kind == 0, 1e6, 8e6), 0.0)
    names = [f"kernel{k}" for k in kind] + [EXIT_KERNEL]
    frame = pd.DataFrame({"kernel": names, "call": np.arange(1, count + 2)})
    for column, value in (("gx", 1024), ("gy", 1), ("gz", 1), ("lx", 128), ("ly", 1), ("lz", 1)):
        frame[column] = value
    metrics = {
        "inst_executed": instructions,
        "gld_request": instructions * 0.1,
        "gst_request": instructions * 0.05,
        "shared_load": np.append(np.where(kind == 0, 0.0, 1e5), 0.0),
    }
    return SliceProfile(frame, times, metrics), times


# ---- PKA -----------------------------------------------------------------------------------------


def test_pka_finds_the_two_groups_and_takes_the_first_of_each() -> None:
    profile, times = two_kinds()
    selection = pka.select(profile)
    assert selection.scores.own["k"] == 2
    assert [r.slice for r in selection.representatives] == [0, 1, 60]
    assert [r.multiplier for r in selection.representatives] == [30, 30, 1]
    assert projected(selection, times) == pytest.approx(times.sum())


def test_the_slice_with_the_start_up_stands_for_itself_alone() -> None:
    from dataclasses import replace

    profile, times = two_kinds()
    slow = np.array(times)
    slow[0] = 1000.0
    selection = pka.select(replace(profile, times=slow, startup=True))
    assert [r.multiplier for r in selection.representatives if r.slice == 0] == [1]
    assert projected(selection, slow) == pytest.approx(slow.sum())


def test_pka_takes_the_smallest_k_below_the_target() -> None:
    profile, _ = two_kinds()
    # One group projects 60 x 1 for 150: an error of 60 %.
    assert pka.select(profile, target=0.7).scores.own["k"] == 1
    errors = pka.select(profile, target=0.05).scores.own["errors"]
    assert isinstance(errors, dict) and errors["1"] == pytest.approx(0.6)


@pytest.mark.parametrize("choice", ["centre", "random"])
def test_pka_other_representatives(choice: str) -> None:
    profile, times = two_kinds()
    selection = pka.select(profile, choice=choice, seed=3)
    assert projected(selection, times) == pytest.approx(times.sum())


@pytest.mark.parametrize("classifier", ["sgd", "gnb", "mlp"])
def test_pka_two_levels(classifier: str) -> None:
    """The other kernels join the groups of the first 20 by name and grid alone."""
    profile, times = two_kinds()
    selection = pka.select(profile, detailed=20, classifier=classifier)
    assert projected(selection, times) == pytest.approx(times.sum())
    assert all(r.slice < 20 or r.slice == 60 for r in selection.representatives)


def test_pka_names_the_missing_counters() -> None:
    frame = pd.DataFrame({"kernel": ["a", "b"], "call": [1, 1]})
    with pytest.raises(NeedsError, match=r"#instructions.*Nsight Compute"):
        pka.select(SliceProfile(frame, np.ones(2)))


def test_pka_takes_no_thread_blocks_from_unknown_grids() -> None:
    """GIVEN an import without grids, which are 0 THEN the number of thread blocks is missing, and
    does not count as one of the least number of counters."""
    profile, times = two_kinds()
    profile.slices[["gx", "gy", "gz", "lx", "ly", "lz"]] = 0
    assert "#thread blocks" in pka.select(profile).scores.own["missing_metrics"]
    fewer = {name: profile.metrics[name] for name in list(profile.metrics)[:3]}
    with pytest.raises(NeedsError, match="#thread blocks"):
        pka.select(SliceProfile(profile.slices, times, fewer))


# ---- Sieve ---------------------------------------------------------------------------------------


def test_sieve_tiers() -> None:
    kernels = np.repeat([0, 1, 2], 100)
    rng = np.random.default_rng(0)
    instructions = np.concatenate(
        [
            np.full(100, 5e6),  # tier 1
            rng.normal(1e6, 1e5, 100),  # tier 2: 10 %
            np.concatenate([rng.normal(1e6, 1e4, 50), rng.normal(9e6, 1e4, 50)]),  # tier 3
        ]
    )
    strata, tiers = sieve.stratify(kernels, instructions, 0.4)
    assert tiers == (1, 1, 1)
    assert len(np.unique(strata)) == 4
    for stratum in np.unique(strata):
        own = instructions[strata == stratum]
        assert own.std() / own.mean() < 0.4


def test_sieve_cuts_until_every_part_is_narrow() -> None:
    """A flat density has no minimum; two-means cuts it."""
    instructions = np.linspace(1, 1000, 5000)
    strata, _ = sieve.stratify(np.zeros(5000, dtype=np.int64), instructions, 0.1)
    for stratum in np.unique(strata):
        own = instructions[strata == stratum]
        assert own.std() / own.mean() < 0.1


def test_sieve_dominant_cta_size_comes_first() -> None:
    labels = np.array([0, 0, 0, 0, 1, 1])
    cta = np.array([64, 128, 128, 64, 32, 256])
    # Stratum 0: 64 and 128 twice each, 64 first; stratum 1: once each, 32 first.
    assert sieve.dominant(labels, cta).tolist() == [0, 4]
    assert sieve.dominant(labels, np.array([64, 128, 128, 128, 32, 256])).tolist() == [1, 4]


def test_sieve_projects_by_the_weighted_harmonic_mean() -> None:
    """IPC 2 for 60 % of the instructions and 0.5 for 40 %: 1 / (0.6 / 2 + 0.4 / 0.5) = 0.909."""
    instructions = np.array([30.0, 30.0, 40.0])
    cycles = np.array([15.0, 15.0, 80.0])
    frame = pd.DataFrame({"kernel": ["a", "a", "b"], "call": [1, 2, 1]})
    selection = sieve.select(SliceProfile(frame, cycles, {"inst_executed": instructions}))
    ipc = instructions.sum() / projected(selection, cycles)
    assert ipc == pytest.approx(1 / (0.6 / 2 + 0.4 / 0.5))


def test_sieve_without_instructions() -> None:
    frame = pd.DataFrame({"kernel": ["a"], "call": [1]})
    with pytest.raises(NeedsError, match="instruction counts"):
        sieve.select(SliceProfile(frame, np.ones(1)))


# ---- TBPoint -------------------------------------------------------------------------------------


def test_tbpoint_takes_the_coarsest_threshold_below_the_target() -> None:
    profile, times = two_kinds()
    selection = tbpoint.select(profile)
    assert selection.parameters["threshold"] == max(tbpoint.THRESHOLDS)
    assert projected(selection, times) == pytest.approx(times.sum())


def test_of_a_pair_the_first_is_nearest_to_the_centre() -> None:
    """GIVEN clusters of two points, equally far from their mean but for rounding THEN the first one
    is taken."""
    rng = np.random.default_rng(0)
    points = rng.normal(size=(400, 3)) * 0.1 + 1.0
    chosen = one_per_cluster.nearest_to_centre(np.arange(400) % 200, points)
    assert chosen.tolist() == list(range(200))


def test_tbpoint_merges_points_only_when_there_are_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = np.random.default_rng(0).uniform(0.5, 1.5, (200, 2))
    assert tbpoint.merged(table)[2] == 0.0
    monkeypatch.setattr(tbpoint, "MOST_POINTS", 50)
    points, inverse, cell = tbpoint.merged(table)
    assert len(points) <= 50
    assert np.abs(points[inverse] - table).max() <= cell


# ---- Photon --------------------------------------------------------------------------------------


def vectors(rows: list[list[float]]) -> sparse.csr_matrix:
    return sparse.csr_matrix(np.array(rows))


def test_photon_matches_at_95_per_cent() -> None:
    matrix = vectors([[100, 100], [104, 96], [110, 90], [120, 80]])
    # Overlap with the first: 98 %, 95 %, 90 %; the last overlaps 95 % with the third.
    assert photon.match(matrix, np.ones(4)).tolist() == [0, 0, 0, 3]
    assert photon.match(matrix, np.ones(4), 0.99).tolist() == [0, 1, 2, 3]


def test_photon_matches_only_similar_numbers_of_warps() -> None:
    matrix = vectors([[10, 10], [10, 10], [10, 10]])
    assert photon.match(matrix, np.array([100.0, 96.0, 90.0])).tolist() == [0, 0, 2]


def test_photon_equals_comparing_with_every_earlier_leader() -> None:
    rng = np.random.default_rng(8)
    base = rng.uniform(1, 10, (12, 20))
    rows = base[rng.integers(0, 12, 700)] * rng.normal(1, 0.06, (700, 20)).clip(0.5)
    warps = rng.choice([64.0, 66.0, 128.0], 700)
    unit = rows / rows.sum(axis=1, keepdims=True)
    leaders: list[int] = []
    expected = []
    for i in range(700):
        for j in leaders:
            ratio = min(warps[i], warps[j]) / max(warps[i], warps[j])
            if ratio >= 0.95 and 1 - np.abs(unit[i] - unit[j]).sum() / 2 >= 0.95:
                expected.append(j)
                break
        else:
            leaders.append(i)
            expected.append(i)
    assert photon.match(sparse.csr_matrix(rows), warps).tolist() == expected


def test_photon_projects_by_instructions() -> None:
    matrix = vectors([[10, 10], [20, 20], [0, 9], [0, 0]])
    frame = pd.DataFrame({"kernel": ["a", "a", "b", EXIT_KERNEL], "call": [1, 2, 1, 1]})
    times = np.array([1.0, 2.0, 3.0, 0.25])
    profile = SliceProfile(frame, times, gpu_vectors=lambda: matrix)
    selection = photon.select(profile)
    assert [r.multiplier for r in selection.representatives] == [3.0, 1.0, 1.0]
    assert projected(selection, times) == pytest.approx(times.sum())
    with pytest.raises(NeedsError, match="basic-block vectors"):
        photon.select(SliceProfile(frame, times))


def test_photon_warp_stability() -> None:
    steady = photon.WarpSampling(window=64)
    assert not any(steady.add(10.0 * i, 10.0 * i + 500.0) for i in range(63))
    assert steady.add(630.0, 1130.0)
    assert steady.mean == pytest.approx(500.0)
    slowing = photon.WarpSampling(window=64)
    assert not any(slowing.add(10.0 * i, 10.0 * i + 500.0 + 2.0 * i) for i in range(200))
    assert steady.applies(np.array([96, 4]))
    assert not steady.applies(np.array([90, 10]))
    with pytest.raises(InputError, match="before it is issued"):
        steady.add(10.0, 9.0)


def test_photon_block_sampling() -> None:
    """Blocks of 10 and 40 cycles: a warp of any class takes the sum, once they are stable; a block
    whose time drifts, or that was never seen, keeps a warp from being predicted."""
    blocks = photon.BlockSampling(np.array([5, 20, 100]), window=64)
    for i in range(64):
        blocks.add(0, 7.0 * i, 7.0 * i + 10.0)
        blocks.add(1, 9.0 * i, 9.0 * i + 40.0)
        blocks.add(2, 10.0 * i, 10.0 * i + 500.0 + 2.0 * i)
    assert blocks.applies(np.array([3, 2, 0]))
    assert blocks.warp_time(np.array([3, 2, 0])) == pytest.approx(3 * 10 + 2 * 40)
    assert not blocks.applies(np.array([3, 2, 1]))
    assert not blocks.applies(np.zeros(3, int))


def test_photon_tells_warp_classes_apart() -> None:
    """GIVEN two launches with equal sums over the warps, of one class of warps and of two WHEN
    Photon selects THEN it selects both, and says when a profile has no warps."""
    process = process_of([0, 0, 0, 0])
    assert process.gpu is not None
    even, halves = [(10, 10)] * 8, [(20, 0)] * 4 + [(0, 20)] * 4
    runs = [[(0, 8)], [(1, 4), (2, 4)]]
    start = np.cumsum([0, *(len(run) for run in runs)]).astype(np.uint64)
    gpu = replace(
        process.gpu,
        launch_grid=np.array([0, 1, 0, 1]),
        grid_start=start,
        run_vector=np.array([0, 1, 2], np.uint32),
        run_length=np.array([8, 4, 4], np.uint64),
        vector_start=np.array([0, 2, 3, 4], np.uint64),
        block=np.array([0, 1, 0, 1], np.uint32),
        count=np.array([10, 10, 20, 20], np.uint64),
    )
    assert np.sum(even, axis=0).tolist() == np.sum(halves, axis=0).tolist()
    process = with_tables(process, gpu=gpu, slices=process.slices.assign(warps=8))
    profile = replace(from_process(process), startup=False)
    chosen = photon.select(profile)
    assert chosen.labels[:4].tolist() == [0, 1, 0, 1] and chosen.scores.own["left_out"] == []
    blind = photon.select(replace(profile, class_vectors=None, metrics={}))
    assert blind.labels[:4].tolist() == [0, 0, 0, 0]
    assert blind.scores.own["left_out"] == ["warp classes", "numbers of warps"]
    assert "no warp classes" in blind.design.basis


# ---- Principal Kernel Projection -----------------------------------------------------------------


def series(cycles: int, blocks: int, warm: int = 500) -> tuple[np.ndarray, np.ndarray]:
    """IPC that climbs to 2 and stays; blocks finish evenly."""
    ipc = np.minimum(np.arange(cycles) / warm, 1.0) * 2.0
    return ipc, np.arange(1, cycles + 1) * blocks // cycles


def test_pkp_stops_early_and_projects_the_whole() -> None:
    ipc, finished = series(100_000, 1000)
    found = pkp.project_series(ipc, finished, blocks=1000, wave=20)
    assert pkp.WINDOW < found.cycle < 10_000
    assert found.cycles == pytest.approx(100_000, rel=0.03)
    assert found.instructions == pytest.approx(ipc.sum(), rel=0.06)


def test_pkp_waits_for_the_wave() -> None:
    ipc, finished = series(100_000, 1000)
    found = pkp.project_series(ipc, finished, blocks=1000, wave=400)
    # Stable at about cycle 3,000 in the first wave, which ends when 400 of 1,000 blocks are done.
    assert found.cycle == pytest.approx(40_000, abs=100)


def test_pkp_a_launch_below_a_wave_ignores_it() -> None:
    ipc, finished = series(100_000, 10)
    found = pkp.project_series(ipc, finished, blocks=10, wave=400, total=float(ipc.sum()))
    assert found.cycle < 10_000


def test_pkp_below_a_wave_projects_the_remaining_instructions() -> None:
    """GIVEN blocks that all finish together WHEN the IPC is stable before any has finished THEN the
    kernel's instructions over the rolling IPC give its length."""
    ipc, _ = series(100_000, 10)
    finished = np.zeros(100_000, dtype=np.int64)
    found = pkp.project_series(ipc, finished, blocks=10, wave=400, total=float(ipc.sum()))
    assert found.cycle < 10_000
    assert found.cycles == pytest.approx(100_000, rel=0.05)  # the window holds some warm-up
    assert found.instructions == pytest.approx(ipc.sum())


def test_pkp_refuses_a_kernel_of_unknown_length() -> None:
    """GIVEN no finished block and no instruction count THEN the error says what is missing."""
    ipc, _ = series(100_000, 10)
    with pytest.raises(InputError, match="none of the 10 thread blocks had finished"):
        pkp.project_series(ipc, np.zeros(100_000, dtype=np.int64), blocks=10, wave=400)
    with pytest.raises(InputError, match="rolling IPC projects nothing"):
        online = pkp.PrincipalKernelProjection(blocks=2, wave=9, total=100.0, n=5)
        for _ in range(9):
            online.step(0.0, 0)
        online.project()


def test_pkp_unstable_ipc_is_simulated_to_the_end() -> None:
    ipc = np.tile([0.0, 4.0], 20_000)
    finished = np.arange(1, 40_001) * 100 // 40_000
    found = pkp.project_series(ipc, finished, blocks=100, wave=10)
    assert found.cycle == 40_000
    assert found.cycles == pytest.approx(40_000)


def test_pkp_rolling_deviation_is_that_of_the_window() -> None:
    rng = np.random.default_rng(0)
    ipc = rng.uniform(0, 3, 500)
    online = pkp.PrincipalKernelProjection(blocks=10, wave=1, n=100, s=1e-9)
    for i, value in enumerate(ipc):
        online.step(float(value), 0)
        window = ipc[max(0, i - 99) : i + 1]
        assert online.deviation == pytest.approx(window.std(), abs=1e-7)
        assert online.mean == pytest.approx(window.mean())


def test_pkp_bad_input() -> None:
    with pytest.raises(InputError, match="equally long"):
        pkp.project_series(np.ones(3), np.ones(2, dtype=np.int64), blocks=1, wave=1)
    online = pkp.PrincipalKernelProjection(blocks=1, wave=1)
    with pytest.raises(InputError, match="nothing to project"):
        online.project()
    with pytest.raises(InputError, match="not a finite non-negative number"):
        online.step(float("nan"), 0)
