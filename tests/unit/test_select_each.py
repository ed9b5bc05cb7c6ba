# SPDX-License-Identifier: Apache-2.0
"""A selection for each process of a job: its draws, its interval, and the processes of imports."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix, save_npz

import xpuprof
from tests.support.processes import process_from
from tests.support.profiles import PID, nsight
from tests.support.run import xpuprof as command
from tests.support.signature_data import process_of
from xpuprof.arrays import F64
from xpuprof.estimation.intervals import estimate
from xpuprof.estimation.projection import project
from xpuprof.methods.recorded import from_processes
from xpuprof.selection import parts
from xpuprof.selection.identity import Identity
from xpuprof.selection.selection import Selection
from xpuprof.trace.coordinates import JobLayout
from xpuprof.trace.processes import Job, job_of
from xpuprof.trace.records import ExecutionRecord, process_meta
from xpuprof.trace.tables import Execution
from xpuprof.workflow.select import Request, select_subject
from xpuprof.workflow.subjects import Subject, open_subject


def job(slices: Sequence[int]) -> Job:
    """Ranks that launch one kernel, with these numbers of slices."""
    made = [
        process_from(
            process_of([0] * (n - 1)).tables,
            name=f"r{r}",
            meta=process_meta({"rank": str(r)}, ""),
        )
        for r, n in enumerate(slices)
    ]
    return job_of(Execution(ExecutionRecord("profile", "profile"), made))


def subject_of(times: Sequence[F64] | F64) -> Subject:
    """A job with the times of each rank's slices."""
    made, flat = job([len(own) for own in times]), np.concatenate(times)[None, :]
    slices = from_processes(made.slices, made.processes, flat, "job")
    return Subject(
        Path("job"), slices, flat, keys=made.keys, identity=Identity(processes=made.keys), job=made
    )


def each(subject: Subject, method: str, seed: int = 1, **options: Any) -> Selection:
    """One selection for each process, joined."""
    return select_subject(subject, Request(method, options, seed, "each"))


@pytest.mark.parametrize(("method", "options"), [("random", {"n": 30}), ("stem-root", {})])
def test_ranks_of_like_times_draw_differently(method: str, options: dict[str, Any]) -> None:
    """GIVEN eight ranks of nearly equal times THEN the interval of the joined selections holds."""
    rng = np.random.default_rng(3)
    times = rng.exponential(1.0, 300) * rng.normal(1.0, 0.01, (8, 300))
    subject, total, draws = subject_of(times), float(times.sum()), 100
    answer = estimate(each(subject, method, **options), times.ravel())
    assert answer.high is not None
    half = answer.high - answer.value
    errors = [
        project(each(subject, method, seed, **options), times.ravel()) - total
        for seed in range(draws)
    ]
    assert np.mean(np.abs(errors) <= half) >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / draws)


def test_a_part_states_the_seed_of_its_draws() -> None:
    """GIVEN a part of joined selections THEN its seed selects the same from that process alone; the
    first process has the job's."""
    subject = subject_of(np.ones((3, 20)))
    chosen = each(subject, "random", 7, n=4)
    own = [parts.part(chosen, number) for number in range(3)]
    assert own[0].seed == 7 and len({part.seed for part in own}) == 3
    for alone, part in zip(subject.by_process(), own, strict=True):
        again = select_subject(alone, Request("random", {"n": 4}, part.seed))
        assert [r.slice for r in again.representatives] == [r.slice for r in part.representatives]


@pytest.fixture
def two_pids(tmp_path: Path) -> Path:
    """An import of two processes that launch different kernels, with block vectors."""
    first = [(100 * i, 100 * i + 20, 0, 7, 1, PID) for i in range(1, 41)]
    second = [(100 * i, 100 * i + 80, 0, 7, 2, 2 * PID) for i in range(1, 21)]
    run = tmp_path / "run"
    xpuprof.import_(nsight(tmp_path / "r.sqlite", first + second), run)
    kinds = np.repeat([0, 1, 2, 3], [40, 1, 20, 1])
    save_npz(run / "imported" / "gpu-vectors.npz", csr_matrix(np.eye(4)[kinds]))
    return run


@pytest.mark.parametrize("method", ["random", "stem-root", "xpu-stem", "gpu-point"])
def test_processes_of_an_import_have_their_own_selections(two_pids: Path, method: str) -> None:
    """GIVEN an import of two processes THEN no cluster spans both, and each part projects its
    process alone."""
    subject = open_subject(two_pids)
    chosen = each(subject, method)
    assert chosen.parameters["processes"] == "each"
    for number, slices in enumerate((41, 21)):
        part = parts.part(chosen, number)
        assert part.slices == slices and part.labels.min() == 0
        assert sum(r.multiplier for r in part.representatives) == pytest.approx(slices)
        assert {r.end.kernel for r in part.representatives} <= {("add", "mul")[number], "SYS_exit"}


def test_the_command_writes_parts_of_an_import(two_pids: Path) -> None:
    """GIVEN an import of two processes THEN select --processes each writes a file for each."""
    command("select", two_pids, "--processes", "each", check=True)
    labels = [Selection.read(two_pids / f"selection-process{i}.json").slices for i in range(2)]
    assert labels == [41, 21]


def test_a_new_selection_removes_the_parts_of_the_one_it_replaces(two_pids: Path) -> None:
    """GIVEN a selection for each process WHEN one for the whole job replaces it THEN no part of the
    former stays beside it; other files do."""
    kept = two_pids / "selection-old.json"
    kept.write_text("mine")
    command("select", two_pids, "--processes", "each", check=True)
    command("select", two_pids, "--force", check=True)
    assert sorted(two_pids.glob("selection*.json")) == [kept, two_pids / "selection.json"]


def test_nothing_is_written_beside_an_existing_part(two_pids: Path) -> None:
    """GIVEN a file at the place of one part WHEN selecting for each process without --force THEN
    that is refused, and no other file is written."""
    part = two_pids / "selection-process1.json"
    part.write_text("mine")
    done = command("select", two_pids, "--processes", "each")
    assert done.returncode == 2 and b"selection-process1.json exists" in done.stderr
    assert list(two_pids.glob("selection*.json")) == [part] and part.read_text() == "mine"


def test_ranks_are_drawn_again_from_each_process() -> None:
    """GIVEN two processes of constant but unlike times THEN ranked sets of each project exactly,
    and the interval says so, with all times known or only the representatives'."""
    times = np.repeat([[1.0], [10.0]], 200, axis=1)
    chosen = each(subject_of(times), "ranked-set")
    assert project(chosen, times.ravel()) == pytest.approx(times.sum())
    sparse = np.full(times.size, np.nan)
    rows = [r.slice for r in chosen.representatives]
    sparse[rows] = times.ravel()[rows]
    for known in (times.ravel(), sparse):
        answer = estimate(chosen, known)
        assert (answer.low, answer.high) == pytest.approx((times.sum(), times.sum()))


def test_intervals_of_ranked_sets_of_each_process_hold() -> None:
    """GIVEN four processes, one of which is measured whole THEN the interval of all holds, is that
    of the ranked ones alone, and outlives the file."""
    rng, draws = np.random.default_rng(2), 150
    lengths = (300, 300, 20, 300)
    subject = subject_of([rng.exponential(10.0**p, n) for p, n in enumerate((300, 300, 20, 300))])
    assert subject.times is not None
    times, total = subject.times[0], float(subject.times.sum())
    selections = [each(subject, "ranked-set", seed) for seed in range(draws)]
    chosen = Selection.parse(selections[0].text(), "s")
    assert chosen == selections[0] and chosen.design == selections[0].design
    half = estimate(chosen, times).half_width * estimate(chosen, times).value
    held = [abs(project(one, times) - total) <= half for one in selections]
    assert np.mean(held) >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / draws)
    alone = [
        (own.high - own.low) / 2
        for number, known in enumerate(JobLayout(lengths).split(times))
        if (own := estimate(parts.part(chosen, number), known)).high is not None
        and own.low is not None
    ]
    assert alone[2] == pytest.approx(0.0)
    assert half == pytest.approx(np.linalg.norm(alone), rel=0.1)
