"""One selection for many runs: the same here, on several workers, and when a worker dies."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from signature_data import process_of

from xpuprof.errors import InputError, UsageError
from xpuprof.sampling import job, methods
from xpuprof.sampling.cluster_method import Options
from xpuprof.sampling.farm import DaskFarm
from xpuprof.sampling.file import selection_text
from xpuprof.sampling.kmeans import merged
from xpuprof.timing.extrapolate import project
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
    alone = methods.select("xpu-point", process, seed=3)
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
    offset = {r: int(starts[r]) for r in range(6)}
    total = sum(times[offset[r.process] + r.slice] * r.multiplier for r in chosen.representatives)
    assert total == pytest.approx(times.sum())
    for r in chosen.representatives:
        assert 0 <= r.slice < lengths[r.process]
        assert (r.start is None) == (r.slice == 0)


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


def test_thinning_keeps_weighted_sums_in_expectation() -> None:
    """The coreset's weight and weighted mean come near the whole's."""
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(0, 1, (3000, 5)), rng.normal(6, 1, (300, 5))]).astype(np.float32)
    points = merged(x)
    run = job.Merged(points, np.ones(len(x)), 0.0, {})
    means, masses = [], []
    for seed in range(40):
        thinned, weight = job.thin(run, 0.1, seed)
        assert len(thinned) <= 330
        masses.append(weight.sum())
        means.append((thinned * weight[:, None]).sum(0) / len(x))
    assert np.mean(masses) == pytest.approx(len(x), rel=0.02)
    np.testing.assert_allclose(np.mean(means, axis=0), x.mean(0), atol=0.05)


def test_projection_over_ranks_is_a_projection() -> None:
    """`project` serves a single-run selection; a job of one rank is one."""
    chosen = job.select_job([ranks()[0]], job.Plan(seed=1), Options())
    assert project(chosen, np.ones(chosen.slices)) == pytest.approx(chosen.slices)
