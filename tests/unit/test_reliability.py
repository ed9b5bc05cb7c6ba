# SPDX-License-Identifier: Apache-2.0
"""When a sampling error does not say how good a selection is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.support import traces
from tests.support.run import xpuprof
from tests.support.runs_made_up import made_up_run, select_by_kernel
from xpuprof.estimation.estimate import Estimate
from xpuprof.estimation.measured import by_cluster
from xpuprof.estimation.typical_times import typical_times
from xpuprof.trace.run_writer import create_run
from xpuprof.validation.reliability import unlike_their_cluster, usable

SELECTION = select_by_kernel(made_up_run(["k/64"] * 20))


def times(**slow: float) -> np.ndarray:
    """Five runs in which every slice takes a second, but for those given."""
    each = np.ones((5, SELECTION.slices))
    for name, seconds in slow.items():
        each[:, int(name.removeprefix("s"))] = seconds
    return each * np.linspace(0.9, 1.1, 5)[:, None]


def unlike(runs: np.ndarray) -> list[str]:
    """What is said of these runs."""
    known = by_cluster(SELECTION, typical_times(runs))
    return unlike_their_cluster(SELECTION, known, len(runs))


def test_slices_much_longer_than_others_of_their_cluster() -> None:
    """GIVEN a cluster with two slices that take 30 times as long THEN they are named, with their
    share of the time."""
    (sentence,) = unlike(times(s7=30, s9=30))
    assert sentence.startswith("73 % of the time is in slices that take much longer than others")
    assert "others of their cluster: " in sentence
    assert "2 of the 20 slices of cluster" in sentence and "ends with k" in sentence


def test_slices_most_of_which_take_no_time() -> None:
    """GIVEN a cluster most of whose slices take no time (only the profile has them) THEN no factor
    is stated."""
    (sentence,) = unlike(times(**{f"s{i}": 0 for i in range(3, 20)}))
    assert "take time, most none" in sentence and "inf" not in sentence


@pytest.mark.parametrize("slow", [{}, {"s7": 2.5}, {"s7": 1.9, "s9": 0.01}])
def test_an_ordinary_spread_is_not_reported(slow: dict[str, float]) -> None:
    """GIVEN slices of similar times, or short ones, THEN nothing is said."""
    assert unlike(times(**slow)) == []


def test_too_few_runs_to_tell_from_noise() -> None:
    """GIVEN one run with a long slice THEN nothing is said: it may be the machine's."""
    assert unlike(times(s7=30)[:1]) == []


def timed_run(folder: Path, launches: int = 6, program: str = "./app") -> Path:
    """A profile of four launches, and two timer runs of `launches`."""
    writer = create_run(folder, argv=[program])
    traces.add_execution(writer, "profile", "profile", traces.events(4), traces.cpu(5))
    for name in ("time-0", "time-1"):
        traces.add_execution(writer, name, "time", traces.events(launches), None)
    writer.finish("complete")
    return folder


@pytest.mark.parametrize("command", ["select", "compare"])
def test_what_states_an_error_says_that_launches_differ(tmp_path: Path, command: str) -> None:
    """GIVEN timer runs that launched more kernels than the profile THEN commands that state errors
    by their times say so, as `run` and `report` do."""
    said = xpuprof(command, timed_run(tmp_path / "run"))
    assert said.returncode == 0, said.stderr
    assert "launches other kernels under the profile than natively" in said.stderr.decode()
    assert (
        "launches other kernels"
        not in xpuprof(command, timed_run(tmp_path / "b", 4)).stderr.decode()
    )


def test_one_selection_over_different_programs(tmp_path: Path) -> None:
    """GIVEN runs of two programs THEN a selection over both says what it stands for."""
    runs = [timed_run(tmp_path / name, 4, f"./{name}") for name in ("one", "two")]
    said = xpuprof("select", *runs, "-o", tmp_path / "out")
    assert said.returncode == 0, said.stderr
    assert (
        "is a run of one" in said.stderr.decode()
        and "of two: the selection stands" in said.stderr.decode()
    )
    alike = [timed_run(tmp_path / name, 4) for name in ("three", "four")]
    said = xpuprof("select", *alike, "-o", tmp_path / "more")
    assert "is a run of" not in said.stderr.decode()


def test_intervals_that_are_not_usable() -> None:
    """GIVEN an interval over a factor of 18, or down to 0, THEN it is called not usable."""

    def of(low: float | None, high: float | None) -> list[str]:
        return usable(Estimate(2.0, low, high, 0.95, "made up"))

    assert of(1.0, 3.0) == of(None, None) == []
    assert "spans a factor of 18" in of(0.5, 9.0)[0]
    assert "spans down to 0" in of(0.0, 3.0)[0]
