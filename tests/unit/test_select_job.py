"""One selection for many runs: the same here, on several workers, and when a worker dies."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from tests.support.signature_data import process_of
from xpuprof.clustering import cluster, distributed, kmeans
from xpuprof.clustering.cluster import Known, Options
from xpuprof.clustering.executors import DaskFarm, Farm, Here
from xpuprof.clustering.kmeans import merged
from xpuprof.clustering.stability import over_bootstraps, over_seeds
from xpuprof.errors import InputError, UsageError
from xpuprof.estimation.projection import project
from xpuprof.methods import job, registry, xpu_point
from xpuprof.selection.file import selection_text
from xpuprof.trace.tables import Process


@dataclass(frozen=True)
class Rank:
    """A made-up rank; with `deadly` the first worker that opens it is killed."""

    name: str
    kinds: tuple[int, ...]
    cpu: bool = True
    deadly: str = ""

    def process(self) -> Process:
        if self.deadly and not Path(self.deadly).exists():
            Path(self.deadly).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return process_of(list(self.kinds), cpu=self.cpu)


def ranks(**more: object) -> list[Rank]:
    """Six ranks of different lengths over four kernels."""
    return [
        Rank(f"rank {r}", tuple((i * (r + 3)) % 4 for i in range(40 + 7 * r)), **more)  # type: ignore[arg-type]
        for r in range(6)
    ]


@pytest.fixture(scope="module")
def farm() -> Iterator[DaskFarm]:
    """Two worker processes."""
    pytest.importorskip("distributed", reason="needs Dask: pip install 'xpuprof[dask]'")
    with DaskFarm(2) as workers:
        yield workers


def test_one_run_as_a_job_is_that_run() -> None:
    """The same representatives and labels as the one-run path."""
    process = process_of([i * i % 5 for i in range(300)])
    alone = registry.select("xpu-point", process, seed=3)
    together = job.select_job(
        [Rank("a", tuple(i * i % 5 for i in range(300)))], job.Plan(seed=3), Options()
    )
    assert together.representatives == alone.representatives
    assert together.labels.tolist() == alone.labels.tolist()


def test_ranks_are_clustered_together() -> None:
    """Multipliers add up to all slices; start-ups are one cluster, exits another; equal slices of
    different ranks share theirs."""
    chosen = job.select_job(ranks(), job.Plan(seed=1), Options(per_cluster=1))
    lengths = chosen.summary["slices_by_run"]
    assert sum(r.multiplier for r in chosen.representatives) == sum(lengths) == chosen.slices
    assert chosen.k == 6
    starts = np.cumsum([0, *lengths])[:-1]
    assert len(set(chosen.labels[starts].tolist())) == 1
    assert len(set(chosen.labels[starts + np.array(lengths) - 1].tolist())) == 1
    times = np.arange(1.0, 7.0)[chosen.labels]
    assert project(chosen, times) == pytest.approx(times.sum())
    for r in chosen.representatives:
        assert 0 <= r.slice - starts[r.process] < lengths[r.process]
        assert (r.start is None) == (r.slice == starts[r.process])


def times_of_ranks(seed: int = 0) -> np.ndarray:
    """Three runs over all ranks: 1, 2, 4 or 8 ms by kernel, with 5 % of jitter; start and exit of
    every rank take 1 ms."""
    rng = np.random.default_rng(seed)
    typical = np.concatenate([[1.0, *(2.0 ** np.array(rank.kinds[1:])), 1.0] for rank in ranks()])
    return 1e-3 * typical * rng.normal(1.0, 0.05, (3, len(typical)))


def test_a_target_error_over_ranks(farm: DaskFarm) -> None:
    """The times of all ranks choose k and representatives: the tighter, the more; the error stays
    below on other runs, too; workers choose the same."""
    known, counts = Known.of(times_of_ranks()), []
    other = Known.of(times_of_ranks(1)).typical
    for target in (0.1, 0.01):
        asked = Options(target_error=target)
        chosen = job.select_job(ranks(), job.Plan(seed=1), asked, known=known)
        for truth in (known.typical, other):
            assert project(chosen, truth) == pytest.approx(truth.sum(), rel=target)
        counts.append(len(chosen.representatives))
    assert counts[0] < counts[1]
    there = job.select_job(ranks(), job.Plan(seed=1), asked, farm, known=known)
    assert selection_text(there) == selection_text(chosen)


def test_a_budget_over_ranks_is_kept() -> None:
    """Representatives of all ranks together; without times a budget is refused."""
    known = Known.of(times_of_ranks())
    chosen = job.select_job(ranks(), job.Plan(seed=1), Options(budget=0.05), known=known)
    assert 0.03 < known.typical[[r.slice for r in chosen.representatives]].sum() <= 0.05
    with pytest.raises(UsageError, match="needs slice times"):
        job.select_job(ranks(), job.Plan(seed=1), Options(budget=0.05))


def test_stability_over_ranks() -> None:
    """Clear clusters over several processes do not move; projections are of all their slices."""
    processes = [rank.process() for rank in ranks()]
    make, options = xpu_point.prepare(processes, "xpu-point", {})
    known = Known.of(times_of_ranks())
    seeds = over_seeds(make, options, 1, known, repeats=2)
    samples = over_bootstraps(make(1), options, 1, known, repeats=2)
    joint = job.select_job(ranks(), job.Plan(seed=1), Options())
    assert seeds.k == samples.k == [joint.k] * 2
    assert seeds.agreement == samples.agreement == [1.0, 1.0]
    assert seeds.projected == pytest.approx([1.0, 1.0], abs=0.05)


def test_workers_choose_the_same(farm: DaskFarm) -> None:
    """Byte for byte what one process chooses."""
    here = job.select_job(ranks(), job.Plan(seed=1), Options())
    there = job.select_job(ranks(), job.Plan(seed=1), Options(), farm)
    assert selection_text(there) == selection_text(here)


def test_a_killed_worker_loses_nothing(farm: DaskFarm, tmp_path: Path) -> None:
    """A worker dies by SIGKILL while it reads a rank: its work is done again."""
    deadly = ranks()
    deadly[3] = Rank(deadly[3].name, deadly[3].kinds, deadly=str(tmp_path / "died"))
    there = job.select_job(deadly, job.Plan(seed=1), Options(), farm)
    assert (tmp_path / "died").exists()
    here = job.select_job(ranks(), job.Plan(seed=1), Options())
    assert selection_text(there) == selection_text(here)


def test_errors_of_a_worker_arrive(farm: DaskFarm) -> None:
    """Ranks that were profiled differently are refused, in one sentence."""
    mixed = [ranks()[0], ranks(cpu=False)[1]]
    with pytest.raises(InputError, match="profile them alike"):
        job.select_job(mixed, job.Plan(seed=1), Options(), farm)


def test_a_scheduler_that_is_not_there() -> None:
    """Named, with no traceback of Dask's."""
    pytest.importorskip("distributed", reason="needs Dask: pip install 'xpuprof[dask]'")
    with pytest.raises(UsageError, match="cannot reach"):
        DaskFarm(scheduler="nonsense://nowhere:1")


@dataclass(frozen=True)
class Cloud:
    """Points in a place of their own: a worker makes them; with `deadly` the first that does dies
    in the middle of k-means||, with what it holds."""

    seed: int
    deadly: str = ""

    def points(self) -> kmeans.Points:
        rng = np.random.default_rng(self.seed)
        centre = np.random.default_rng(1).normal(0, 10, (12, 8))
        rows = centre[rng.integers(0, 12, 700)] + rng.normal(0, 1, (700, 8))
        return merged(rows.astype(np.float32))


def made(cloud: Cloud) -> kmeans.Points:
    return cloud.points()


def step_and_die(points: kmeans.Points, deadly: str) -> kmeans.Points:
    """Work on what another task left on this worker, which dies the first time."""
    if deadly and not Path(deadly).exists():
        Path(deadly).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return points


CLOUDS = [Cloud(seed) for seed in range(11)]
"""More than one step of the tree that sums are added up along."""


def found_on(farm: Farm, limit: int, deadly: str = "") -> cluster.Found:
    places = farm.keep(made, CLOUDS)
    if deadly:
        places = farm.keep(step_and_die, places, [deadly] + [""] * (len(CLOUDS) - 1))
    return cluster.cluster(farm, places, Options(maxk=20), 5, 0, limit)


def test_many_points_are_found_by_their_candidates() -> None:
    """k-means|| and its features find the clusters that all points together show."""
    whole, few = found_on(Here(), 10**6), found_on(Here(), 1000)
    assert not whole.brought.features and few.brought.features
    assert len(few.brought.points.x) < 600
    assert few.brought.points.weight.sum() == pytest.approx(11 * 700)
    assert few.best.k == whole.best.k == 12
    assert few.best.wcss == pytest.approx(whole.best.wcss, rel=1e-3)
    assert few.best.mass.sum() == pytest.approx(11 * 700)
    for k in (1, 12):  # features hide the scatter within them, and count it
        assert few.sweep[k].wcss == pytest.approx(whole.sweep[k].wcss, rel=0.01)


def test_candidates_are_drawn_as_the_paper_says() -> None:
    """Algorithm 2, step 4: a point is drawn with probability l w d^2 / cost, so l of them come."""
    points = CLOUDS[0].points()
    near = distributed._approach(points, None, (np.zeros((1, 8), np.float32), 0))
    cost = distributed._cost(points, near)
    assert cost == pytest.approx((points.x.astype(float) ** 2).sum())
    drawn = [len(distributed._drawn(points, near, seed, 30.0 / cost)) for seed in range(300)]
    assert np.mean(drawn) == pytest.approx(30.0, abs=4 * np.sqrt(30.0 / 300))


def test_workers_find_the_same_candidates(farm: DaskFarm, tmp_path: Path) -> None:
    """k-means|| across workers, one of which is killed with the points it holds: bit for bit what
    one process finds."""
    here = found_on(Here(), 1000)
    there = found_on(farm, 1000, str(tmp_path / "died"))
    assert (tmp_path / "died").exists()
    assert there.best.centre.tobytes() == here.best.centre.tobytes()
    assert there.best.wcss == here.best.wcss and there.scores == here.scores


def test_a_job_of_many_points_is_the_same_on_workers(farm: DaskFarm) -> None:
    """The whole way with k-means||: byte for byte, and near what all points together give."""
    # Four kinds of slices in all: fewer than none may be brought together.
    here = job.select_job(ranks(), job.Plan(seed=1), Options(maxk=6), limit=-1)
    there = job.select_job(ranks(), job.Plan(seed=1), Options(maxk=6), farm, limit=-1)
    assert here.scores["candidates"] > 0
    assert selection_text(there) == selection_text(here)
    together = job.select_job(ranks(), job.Plan(seed=1), Options(maxk=6))
    assert "candidates" not in together.scores
    assert here.labels.tolist() == together.labels.tolist()


def test_what_does_not_fit_into_memory_waits_on_disk() -> None:
    """The same selection with no room at all, and nothing left behind."""
    with Here(memory=0) as here:
        on_disk = job.select_job(ranks(), job.Plan(seed=1), Options(), here)
        folder = Path(here._folder.name)  # type: ignore[union-attr]
        assert not list(folder.iterdir())
    assert not folder.exists()
    in_memory = job.select_job(ranks(), job.Plan(seed=1), Options())
    assert selection_text(on_disk) == selection_text(in_memory)


def test_projection_over_ranks_is_a_projection() -> None:
    """`project` serves a single-run selection; a job of one rank is one."""
    chosen = job.select_job([ranks()[0]], job.Plan(seed=1), Options())
    assert project(chosen, np.ones(chosen.slices)) == pytest.approx(chosen.slices)
