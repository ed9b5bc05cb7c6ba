# SPDX-License-Identifier: Apache-2.0
"""How often the program is timed, and when the user's execution is one of the repeats."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from xpuprof.estimation.typical_times import Repeats, first_stands_out, typical_times
from xpuprof.trace.run import Run
from xpuprof.workflow.repeats import NATIVE_RUNS, Repeat, enough
from xpuprof.workflow.run import Ran, run


@pytest.mark.parametrize(
    ("seconds", "repeat", "native", "ends"),
    [
        ([1.0], 2, 2, False),
        ([1.0, 9.0], 2, 3, True),
        ([1.0, 1.0], "auto", 3, False),
        ([1.0, 1.01, 1.019], "auto", 3, True),  # with the user's execution
        ([1.0, 1.01, 1.03], "auto", 3, False),
        ([1.0, 1.01, 1.03], "auto", 4, True),  # without it
        ([0.1, 0.1, 0.3], "auto", 4, False),  # a fifth takes 0.1 s
        ([0.1, 0.1, 0.3, 0.1], "auto", 5, False),  # and a sixth
        ([0.3, 0.3, 0.9, 0.3], "auto", 5, True),
        ([0.1, 0.1, 0.3, 0.1, 0.1], "auto", 6, True),
    ],
)
def test_repeats_end_when_the_spread_is_known_or_a_further_one_costs_much(
    seconds: list[float], repeat: Repeat, native: int, ends: bool
) -> None:
    """GIVEN the repeats and native runs so far THEN `auto` takes 3 that agree within 2 %, or up to
    4 native runs, or up to 5 repeats of a short program."""
    assert enough(seconds, repeat, native) is ends


def stretched(slices: np.ndarray, by: float) -> np.ndarray:
    """Three runs of 300 slices that differ by noise; the first takes longer in these slices."""
    times = 1e-3 * (1 + 0.05 * np.random.default_rng(7).normal(size=(3, 300)))
    times[0] = np.sort(times, axis=0)[1]  # between the others everywhere
    times[0, slices] += by
    return times


@pytest.mark.parametrize("slices", [np.array([17]), np.arange(300)])
def test_a_first_run_with_cold_caches_stands_out(slices: np.ndarray) -> None:
    """GIVEN a first run that takes 30 ms longer, in one slice or spread over all, THEN it stands
    out, and without the 30 ms it does not."""
    by = 0.03 / len(slices)
    assert first_stands_out(Repeats.of(stretched(slices, by)))
    assert not first_stands_out(Repeats.of(stretched(slices, 0.0)))


def test_medians_with_a_first_run_that_does_not_stand_out_are_unbiased() -> None:
    """GIVEN three runs alike WHEN the first counts, as it does twice of three times, THEN their
    median is neither higher nor lower than that of any three runs."""
    rng = np.random.default_rng(3)
    drawn = rng.gamma(9.0, 1 / 9, size=(3000, 3, 1)) * rng.gamma(9.0, 1 / 9, size=(3000, 3, 20))
    counted = np.array([not first_stands_out(Repeats.of(times)) for times in drawn])
    totals = np.array([typical_times(times).sum() for times in drawn])
    assert counted.mean() == pytest.approx(2 / 3, abs=0.03)
    error = totals.std() * np.sqrt(1 / counted.sum() + 1 / (~counted).sum())
    assert abs(totals[counted].mean() - totals[~counted].mean()) < 3 * error


SLOW_FIRST = "test -e warm || sleep 1; : > warm; exec true"
SLOW_LATER = "test -e warm && sleep 0.7; : > warm; exec true"


def ran(script: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Ran:
    monkeypatch.chdir(folder)
    return run(["sh", "-c", script], output=folder / "R", cpu="none", gpu="none")


def test_a_slow_first_run_does_not_shift_measured_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIVEN a program whose first execution takes a second longer WHEN run THEN its time is no
    repeat, and three others follow at least."""
    done = ran(SLOW_FIRST, tmp_path, monkeypatch)
    first = done.run.executions[0].record
    assert done.result is not None and (first.name, first.role) == ("first", "first")
    assert [e.name for e in done.run.times][:3] == ["time-0", "time-1", "time-2"]
    assert done.result.measured < max(done.result.totals) < first.wall_s


def test_a_first_run_like_the_others_is_a_repeat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIVEN a program whose first execution is the shortest WHEN run THEN it counts as one of the
    repeats, also when the run is opened again."""
    done = ran(SLOW_LATER, tmp_path, monkeypatch)
    assert done.result is not None
    names = [execution.name for execution in done.run.times]
    assert names == ["first", "time-0", "time-1", "time-2"] and len(names) == NATIVE_RUNS
    assert done.result.totals[0] == min(done.result.totals)
    again = Run.open(done.run.path)
    assert [execution.name for execution in again.times] == names
