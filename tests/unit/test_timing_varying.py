# SPDX-License-Identifier: Apache-2.0
"""Programs that launch another number of kernels in each run: every command says so, and none
fails."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.support import traces
from xpuprof.cli import cli
from xpuprof.trace.processes import job_of
from xpuprof.trace.run import Run
from xpuprof.trace.run_writer import create_run
from xpuprof.validation.timed import open_timed
from xpuprof.workflow.time import _varying

SAID = "the program launches other kernels in each run"


def recorded(folder: Path, launches: Sequence[int], profiled: int = 0) -> Run:
    """A run with timer runs of so many launches, and a profile, if asked for."""
    writer = create_run(folder, argv=["./app"])
    if profiled:
        traces.add_execution(writer, "profile", "profile", traces.events(profiled), None)
    for number, own in enumerate(launches):
        traces.add_execution(writer, f"time-{number}", "time", traces.events(own), None)
    writer.finish("complete", "")
    return Run.open(folder)


@pytest.mark.parametrize(
    ("launches", "slices", "taken"),
    [
        ([3, 3, 3], 4, ""),
        ([3, 5, 5], 6, "time-1 and time-2"),
        ([3, 5], 4, "time-0"),
        ([5, 3, 4], 6, "time-0"),
    ],
)
def test_the_most_common_sequence_counts(
    tmp_path: Path, launches: list[int], slices: int, taken: str
) -> None:
    """GIVEN timer runs WHEN some launched another sequence THEN the most common one's times count,
    the first of several, and a sentence says whose they are."""
    recorded(tmp_path / "R", launches)
    timed = open_timed(tmp_path / "R")
    assert timed.times.shape == (taken.count("time-") or len(launches), slices)
    assert len(timed.slices) == slices
    assert len(timed.doubts) == bool(taken)
    for sentence in timed.doubts:
        assert sentence.startswith(SAID) and f"those of {taken} alone; fix its" in sentence


def test_transfer_says_which_runs_count(tmp_path: Path) -> None:
    """GIVEN a run whose timer runs differ THEN transfer compares with those alike."""
    recorded(tmp_path / "R", [4, 6, 6], profiled=6)
    for line in (
        ["select", str(tmp_path / "R"), "--method", "first-n", "--set", "n=1"],
        ["transfer", str(tmp_path / "R/selection.json"), str(tmp_path / "R")],
    ):
        done = CliRunner().invoke(cli, line)
        assert done.exit_code == 0, done.output
    assert f"doubtful: {SAID} (slice 4: kernel a and program exit)" in done.output
    assert "those of time-1 and time-2 alone" in done.output


@pytest.mark.parametrize(
    ("launches", "said"), [([4, 4], []), ([4, 6], [f"{SAID} (5 to 7 slices), so"])]
)
def test_time_says_that_runs_differ(tmp_path: Path, launches: list[int], said: list[str]) -> None:
    """GIVEN timer runs THEN `time` says whether they launched the same."""
    found = _varying([job_of(own) for own in recorded(tmp_path / "R", launches).times])
    assert [sentence[: len(said[0])] for sentence in found] == said


def test_what_no_timer_run_had_is_not_timed(tmp_path: Path) -> None:
    """GIVEN a representative that no timer run launched THEN `run` and `report` say that it was
    not timed."""
    recorded(tmp_path / "R", [3, 3, 3], profiled=6)
    line = ["select", str(tmp_path / "R"), "--method", "first-n", "--set", "n=6"]
    assert CliRunner().invoke(cli, line).exit_code == 0
    done = CliRunner().invoke(cli, ["report", str(tmp_path / "R")])
    assert done.exit_code == 0, done.output
    assert done.output.count("not timed") == 3
