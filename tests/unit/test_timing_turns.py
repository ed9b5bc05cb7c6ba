# SPDX-License-Identifier: Apache-2.0
"""Programs whose threads launch the same kernels in another order in each run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.support import traces
from xpuprof.trace.processes import job_of
from xpuprof.trace.run import Run
from xpuprof.trace.run_writer import create_run
from xpuprof.validation.native_times import different_sequences, native_times


def events(threads: Sequence[int]) -> list[traces.Record]:
    """Launches of `a` and `b` in turn by these threads."""
    made = traces.events(len(threads))
    for number, thread in enumerate(threads):
        tsc = traces.START + 1_000 * (number + 1)
        plain = traces.launch(number, number % 2, tsc)
        made[made.index(plain)] = traces.launch(number, number % 2, tsc, thread=thread)
    return made


def doubts(folder: Path, profiled: Sequence[int], native: Sequence[int]) -> list[str]:
    """What is said of a run whose launches come from these threads."""
    writer = create_run(folder, argv=["./app"])
    for role, threads in (("profile", profiled), ("time", native)):
        traces.add_execution(writer, role, role, events(threads), None, status="complete")
    writer.finish("complete", "")
    run = Run.open(folder)
    assert run.profile is not None
    found = list(native_times(job_of(run.profile), run.times))
    assert [own.times is not None for own in found] == [True]
    return different_sequences([own.mismatch for own in found])


@pytest.mark.parametrize("threads", [[1] * 200, [1, 2] * 100, [2, 1, 3, 1] * 50])
def test_equal_turns(tmp_path: Path, threads: list[int]) -> None:
    """GIVEN the same threads in the same order THEN nothing is said."""
    assert doubts(tmp_path / "run", threads, threads) == []


def test_a_few_other_turns_do_not_matter(tmp_path: Path) -> None:
    """GIVEN two of 400 launches by other threads THEN nothing is said."""
    other = [1, 2] * 200
    other[10:12] = [2, 1]
    assert doubts(tmp_path / "run", [1, 2] * 200, other) == []


def test_other_turns(tmp_path: Path) -> None:
    """GIVEN threads that race THEN the share of the slices is named that another one ended."""
    rng = np.random.default_rng(1)
    one, other = (rng.integers(1, 3, 200) for _ in range(2))
    share = 100 * np.mean(one != other)
    (said,) = doubts(tmp_path / "run", one.tolist(), other.tolist())
    assert f"another thread than in the profile ended {share:.0f} % of the slices" in said
