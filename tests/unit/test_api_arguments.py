# SPDX-License-Identifier: Apache-2.0
"""Arguments that the command line would refuse are refused in Python too, in one sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import xpuprof
from tests.support import traces
from tests.support.runs_made_up import select_by_kernel
from xpuprof.errors import UsageError
from xpuprof.trace.run_writer import create_run
from xpuprof.validation.timed import open_timed

APP = ["true"]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with times and a selection."""
    folder = tmp_path_factory.mktemp("api") / "R"
    writer = create_run(folder, argv=["./app"])
    traces.add_execution(writer, "profile", "profile", traces.events(), traces.cpu())
    traces.add_execution(writer, "time-0", "time", traces.events(), None)
    writer.finish("complete", "")
    select_by_kernel(open_timed(folder)).write(folder / "selection.json")
    return folder


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"seed": -1}, "seed takes a whole number from 0 to 4294967295, not -1"),
        ({"method": "stem-root", "epsilon": "x"}, "epsilon takes a number, not 'x'"),
        ({"maxk": 2.5}, "maxk takes a whole number, not 2.5"),
        ({"ends": "on"}, "ends takes on or off, not 'on'"),
        ({"method": "stem-rot"}, "did you mean stem-root?"),
    ],
)
def test_select(path: Path, options: dict[str, Any], sentence: str) -> None:
    """GIVEN an option out of range or of another type THEN it is named."""
    with pytest.raises(UsageError) as refused:
        xpuprof.open(path).select(**options)
    assert sentence in str(refused.value)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"repeat": 0}, "repeat takes a whole number from 1, not 0"),
        ({"timer": "fast"}, "timer takes one of sync, async, not 'fast'"),
    ],
)
def test_executions(path: Path, tmp_path: Path, options: dict[str, Any], sentence: str) -> None:
    """GIVEN run, time or validate with an argument out of range THEN nothing is executed."""
    folder = tmp_path / "new"
    calls = (
        lambda: xpuprof.run(APP, output=folder, **options),
        lambda: xpuprof.time(APP, output=folder, **options),
        lambda: xpuprof.validate(path / "selection.json", APP, output=folder, **options),
    )
    for call in calls:
        with pytest.raises(UsageError) as refused:
            call()
        assert sentence in str(refused.value)
    assert not folder.exists()


def test_compare(path: Path) -> None:
    """GIVEN no run, a run or a method twice, or no repeat THEN the sentence says so."""
    with pytest.raises(UsageError, match="no run was given"):
        xpuprof.compare([])
    with pytest.raises(UsageError, match="is named twice"):
        xpuprof.compare([path, path])
    with pytest.raises(UsageError, match="method random is named twice"):
        xpuprof.compare(path, methods=["random", "random"])
    with pytest.raises(UsageError, match="repeats takes a whole number from 1, not 0"):
        xpuprof.compare(path, repeats=0)


def test_processes(tmp_path: Path) -> None:
    """GIVEN an unknown way to select from processes THEN the ways are named."""
    with pytest.raises(UsageError, match="processes takes one of job, each, not 'all'"):
        xpuprof.run(APP, output=tmp_path / "new", processes="all")  # type: ignore[arg-type]


def test_estimate_reads_a_selection_file(path: Path) -> None:
    """GIVEN a file name THEN it is the selection in it."""
    run = xpuprof.open(path)
    assert run.estimate(path / "selection.json") == run.estimate()


def test_an_existing_folder_names_the_argument(path: Path) -> None:
    """GIVEN a folder that exists THEN the sentence serves the command line and Python."""
    with pytest.raises(UsageError, match="force=True"):
        xpuprof.time(APP, output=path, repeat=1)
