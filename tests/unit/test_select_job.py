# SPDX-License-Identifier: Apache-2.0
"""One selection for many runs is the same here, on several workers, and when a worker dies."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from tests.support.signature_data import process_of, select
from xpuprof.clustering import choice, distributed, kmeans
from xpuprof.clustering.executors import DaskExecutor, Executor, LocalExecutor
from xpuprof.clustering.kmeans import merged
from xpuprof.clustering.options import Options
from xpuprof.clustering.stability import over_bootstraps, over_seeds
from xpuprof.errors import InputError, UsageError
from xpuprof.estimation.further_runs import SliceTimes
from xpuprof.estimation.projection import project
from xpuprof.methods import clustered, registry
from xpuprof.methods.block_vectors import ImportedVectors, RecordedVectors
from xpuprof.methods.profile import SliceProfile
from xpuprof.methods.recorded import from_processes
from xpuprof.selection.selection import Selection
from xpuprof.trace.coordinates import JobLayout
from xpuprof.trace.processes import slices_of as slices_of_processes
from xpuprof.trace.tables import Process
from xpuprof.workflow.select import Request, _other_k, select_subject
from xpuprof.workflow.several_runs import DistributedSlices
from xpuprof.workflow.subjects import Subject


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


def slices_of(sources: Sequence[Rank], workers: Executor | None = None) -> DistributedSlices:
    """The slices of ranks, opened by the workers."""
    layout = JobLayout(tuple(len(rank.kinds) + 1 for rank in sources))
    return DistributedSlices("ranks", sources, layout, workers or LocalExecutor())


def select_job(
    sources: Sequence[Rank],
    workers: Executor | None = None,
    times: SliceTimes | None = None,
    limit: int = distributed.MOST_POINTS,
    seed: int = 1,
    **options: Any,
) -> Selection:
    """One selection over the ranks, here or on workers."""
    slices = slices_of(sources, workers)
    if times:
        slices = replace(slices, timed=times)
    return clustered.select(slices, method="xpu-point", seed=seed, limit=limit, **options)


@pytest.fixture(scope="module")
def workers() -> Iterator[DaskExecutor]:
    """Two worker processes."""
    pytest.importorskip("distributed", reason="needs Dask: pip install 'xpuprof[dask]'")
    with DaskExecutor(2) as both:
        yield both


def test_one_run_as_a_job_is_that_run() -> None:
    """Byte for byte, with or without its table at hand."""
    process = process_of([i * i % 5 for i in range(300)])
    alone = select("xpu-point", process, seed=3)
    together = select_job([Rank("a", tuple(i * i % 5 for i in range(300)))], seed=3)
    assert together.text() == alone.text()


def test_ranks_are_clustered_together() -> None:
    """Multipliers add up to all slices; start-ups form one cluster, exits another; equal slices of
    different ranks share a cluster."""
    chosen = select_job(ranks(), per_cluster=1)
    lengths = chosen.summary.slices_by_run
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


def test_a_target_error_over_ranks(workers: DaskExecutor) -> None:
    """The times of all ranks choose k and representatives; a tighter target takes more; the error
    stays below the target on other runs too; workers choose the same."""
    known, counts = SliceTimes.of(times_of_ranks()), []
    other = SliceTimes.of(times_of_ranks(1)).typical
    for target in (0.1, 0.01):
        chosen = select_job(ranks(), times=known, target_error=target)
        for truth in (known.typical, other):
            assert project(chosen, truth) == pytest.approx(truth.sum(), rel=target)
        counts.append(len(chosen.representatives))
    assert counts[0] < counts[1]
    there = select_job(ranks(), workers, known, target_error=0.01)
    assert there.text() == chosen.text()


def test_a_budget_over_ranks_is_kept() -> None:
    """The budget covers the representatives of all ranks; without times it is refused."""
    known = SliceTimes.of(times_of_ranks())
    chosen = select_job(ranks(), times=known, budget=0.05)
    assert 0.03 < known.typical[[r.slice for r in chosen.representatives]].sum() <= 0.05
    with pytest.raises(UsageError, match="needs slice times"):
        select_job(ranks(), budget=0.05)


def test_stability_over_ranks() -> None:
    """Clear clusters over several processes do not change; projections cover all their slices."""
    vectors, options = RecordedVectors(ranks()), Options()
    known = SliceTimes.of(times_of_ranks())
    seeds = over_seeds(lambda seed: vectors.points(seed, {}), options, 1, known, repeats=2)
    samples = over_bootstraps(vectors.signatures(1, {}), options, 1, known, repeats=2)
    joint = select_job(ranks())
    assert seeds.k == samples.k == [joint.k] * 2
    assert seeds.agreement == samples.agreement == [1.0, 1.0]
    assert seeds.projected == pytest.approx([1.0, 1.0], abs=0.05)


def test_workers_choose_the_same(workers: DaskExecutor) -> None:
    """Byte for byte what one process chooses."""
    here = select_job(ranks())
    there = select_job(ranks(), workers)
    assert there.text() == here.text()


def test_a_killed_worker_loses_nothing(workers: DaskExecutor, tmp_path: Path) -> None:
    """A worker dies by SIGKILL while it reads a rank: its work is repeated."""
    deadly = ranks()
    deadly[3] = Rank(deadly[3].name, deadly[3].kinds, deadly=str(tmp_path / "died"))
    there = select_job(deadly, workers)
    assert (tmp_path / "died").exists()
    here = select_job(ranks())
    assert there.text() == here.text()


def test_errors_of_a_worker_arrive(workers: DaskExecutor) -> None:
    """Ranks that were profiled differently are refused in one sentence."""
    mixed = [ranks()[0], ranks(cpu=False)[1]]
    with pytest.raises(InputError, match="profile them alike"):
        select_job(mixed, workers)


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("foo", "'foo' is not the address of a Dask scheduler; give it as tcp://HOST:PORT"),
        ("nonsense://nowhere:1", "is not the address"),
        ("tcp://localhost:http", "is not the address"),
        ("tcp://localhost:99999", "is not the address"),
        ("tcp://localhost:1", "cannot reach a Dask scheduler at .*; start one there with"),
    ],
)
@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_a_scheduler_that_is_not_there(address: str, told: str) -> None:
    """The error names it and the remedy, without a traceback from Dask."""
    pytest.importorskip("distributed", reason="needs Dask: pip install 'xpuprof[dask]'")
    with pytest.raises(UsageError, match=told):
        DaskExecutor(scheduler=address)
    gc.collect()


@dataclass(frozen=True)
class Cloud:
    """Points made on a worker; with `deadly` the first such worker dies in the middle of k-means||,
    with its data."""

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
    """Work on data that another task left on this worker, which dies the first time."""
    if deadly and not Path(deadly).exists():
        Path(deadly).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return points


CLOUDS = [Cloud(seed) for seed in range(11)]
"""More than one step of the tree that sums are added up along."""


def found_on(workers: Executor, limit: int, deadly: str = "") -> choice.Sweep:
    places = workers.map(made, CLOUDS)
    if deadly:
        places = workers.map(step_and_die, places, [deadly] + [""] * (len(CLOUDS) - 1))
    return choice.sweep(workers, places, Options(maxk=20), 5, 0, limit)


def test_many_points_are_found_by_their_candidates() -> None:
    """k-means|| and its features find the clusters of all points."""
    whole, few = found_on(LocalExecutor(), 10**6), found_on(LocalExecutor(), 1000)
    assert not whole.swept.features and few.swept.features
    assert len(few.swept.points.x) < 600
    assert few.swept.points.weight.sum() == pytest.approx(11 * 700)
    assert few.best.k == whole.best.k == 12
    assert few.best.wcss == pytest.approx(whole.best.wcss, rel=1e-3)
    assert few.best.mass.sum() == pytest.approx(11 * 700)
    for k in (1, 12):  # features hide the scatter within them, but count it
        assert few.by_k[k].wcss == pytest.approx(whole.by_k[k].wcss, rel=0.01)


def test_candidates_are_drawn_as_the_paper_says() -> None:
    """Algorithm 2, step 4: a point is drawn with probability l w d^2 / cost, so l of them come."""
    points = CLOUDS[0].points()
    near = distributed._approach(points, None, (np.zeros((1, 8), np.float32), 0))
    cost = distributed._cost(points, near)
    assert cost == pytest.approx((points.x.astype(float) ** 2).sum())
    drawn = [len(distributed._drawn(points, near, seed, 30.0 / cost)) for seed in range(300)]
    assert np.mean(drawn) == pytest.approx(30.0, abs=4 * np.sqrt(30.0 / 300))


def test_workers_find_the_same_candidates(workers: DaskExecutor, tmp_path: Path) -> None:
    """k-means|| across workers, one of which is killed with its points, gives bit for bit the
    result of one process."""
    here = found_on(LocalExecutor(), 1000)
    there = found_on(workers, 1000, str(tmp_path / "died"))
    assert (tmp_path / "died").exists()
    assert there.best.centre.tobytes() == here.best.centre.tobytes()
    assert there.best.wcss == here.best.wcss and there.scores == here.scores


def test_a_job_of_many_points_is_the_same_on_workers(workers: DaskExecutor) -> None:
    """A complete selection with k-means||: byte-identical, and close to the result with all
    points."""
    # There are four kinds of slices; the limit forbids gathering any.
    here = select_job(ranks(), limit=-1, maxk=6)
    there = select_job(ranks(), workers, limit=-1, maxk=6)
    assert (here.scores.candidates or 0) > 0
    assert there.text() == here.text()
    together = select_job(ranks(), maxk=6)
    assert together.scores.candidates is None
    assert here.labels.tolist() == together.labels.tolist()


def test_every_method_selects_over_ranks() -> None:
    """A method that does not cluster reads the tables of all ranks; its representatives name their
    ranks like those of a clustering."""
    slices = slices_of(ranks())
    chosen = registry.select(slices, "sieve", seed=1)
    assert chosen.slices == slices.layout.slices
    assert sum(r.weight for r in chosen.representatives) == pytest.approx(1.0)
    owners = slices.owners(np.array([r.slice for r in chosen.representatives]))
    assert [r.process for r in chosen.representatives] == owners.tolist()
    ends = slices.markers(np.array([r.slice for r in chosen.representatives]))
    assert [r.end for r in chosen.representatives] == ends


def test_options_of_the_projection_serve_several_ranks() -> None:
    """All of them, including `length_weight`, which once only a single run took."""
    chosen = registry.select(slices_of(ranks()), "xpu-point", seed=1, length_weight=0.0)
    assert chosen.parameters["length_weight"] == 0.0


def test_imported_vectors_take_the_options() -> None:
    """They once ignored them; options for data that imports lack are refused."""
    kinds = np.arange(60) % 5
    frame = pd.DataFrame({"kernel": "k", "call": np.arange(1, 61)})
    blocks = sparse.csr_matrix(np.eye(5)[kinds])
    profile = SliceProfile(frame, vectors=ImportedVectors(gpu=lambda: blocks))
    assert registry.select(profile, "xpu-point", seed=1).k == 5
    assert registry.select(profile, "xpu-point", seed=1, k=3).k == 3
    assert registry.select(profile, "gpu-point", seed=1, maxk=2).k == 2
    with pytest.raises(UsageError, match="--warp-buckets is for recorded vectors"):
        registry.select(profile, "xpu-point", seed=1, warp_buckets=8)


def test_projection_over_ranks_is_a_projection() -> None:
    """`project` serves a single-run selection; a job of one rank is one."""
    chosen = select_job([ranks()[0]])
    assert project(chosen, np.ones(chosen.slices)) == pytest.approx(chosen.slices)


def test_each_program_of_a_job_has_its_own_ends() -> None:
    """GIVEN two ranks of one program and one of another THEN the first slices of the two form a
    cluster, and the other's its own; likewise the last ones. The same from tables."""
    sources = [Rank("a", (0, 1) * 20), Rank("b", (0, 2) * 30), Rank("c", (3, 1) * 20)]
    processes = [source.process() for source in sources]
    table = from_processes(slices_of_processes(processes), processes)
    for chosen in (select_job(sources), registry.select(table, "xpu-point", seed=1)):
        first, last = chosen.labels[[0, 41, 102]], chosen.labels[[40, 101, 142]]
        for own in (first.tolist(), last.tolist()):
            assert own[0] == own[1] != own[2]
        assert sorted(chosen.sizes[[first[0], first[2], last[0], last[2]]]) == [1, 1, 2, 2]
        kept = {r.cluster for r in chosen.representatives}
        assert kept >= {first[0], first[2], last[0], last[2]}


def test_the_ends_of_further_programs_do_not_count_in_k() -> None:
    """GIVEN more programs than -k has room for THEN each has its ends, the rest is clustered, and
    why there are more clusters is said."""
    sources = [Rank(str(n), (n, 5, 6) * 10) for n in range(4)]
    subject = Subject(Path("job"), slices_of(sources))
    request = Request("xpu-point", {"k": 4})
    chosen = select_subject(subject, request)
    assert chosen.k == 2 + 2 * 4
    assert _other_k(request, chosen) == [
        "-k 4 gave 10 clusters: slices with a build, the ends of further programs and extreme "
        "times stand apart"
    ]
