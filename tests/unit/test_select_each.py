# SPDX-License-Identifier: Apache-2.0
"""A selection for each process of a job: its draws, its interval, and the processes of imports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.processes import process_from
from tests.support.signature_data import process_of
from xpuprof.arrays import F64
from xpuprof.estimation.intervals import estimate
from xpuprof.estimation.projection import project
from xpuprof.methods.recorded import from_processes
from xpuprof.selection import parts
from xpuprof.selection.identity import Identity
from xpuprof.selection.selection import Selection
from xpuprof.trace.processes import Job, job_of
from xpuprof.trace.records import ExecutionRecord, process_meta
from xpuprof.trace.tables import Execution
from xpuprof.workflow.select import Request, select_subject
from xpuprof.workflow.subjects import Subject


def job(ranks: int, slices: int) -> Job:
    """Ranks that launch one kernel alike."""
    tables = process_of([0] * (slices - 1)).tables
    made = [process_from(tables, f"r{r}", process_meta({"rank": str(r)}, "")) for r in range(ranks)]
    return job_of(Execution(ExecutionRecord("profile", "profile"), made))


def subject_of(times: F64) -> Subject:
    """A job with the times of its slices, float64[ranks, slices]."""
    made, flat = job(*times.shape), times.reshape(1, -1)
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
