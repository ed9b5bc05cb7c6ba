# SPDX-License-Identifier: Apache-2.0
"""The text of `run` and `report`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from click.testing import CliRunner

from tests.support import traces
from xpuprof.cli import cli
from xpuprof.report.result import as_text
from xpuprof.trace.records import ExecutionRecord
from xpuprof.trace.run_writer import create_run
from xpuprof.trace.summary import no_launch
from xpuprof.trace.sums import Sums
from xpuprof.trace.tables import Execution
from xpuprof.workflow.evaluate import Result
from xpuprof.workflow.reopen import reopen


def result(path: Path, events: list[traces.Record], **engines: str) -> Result:
    writer = create_run(path, argv=["./app"])
    traces.add_execution(writer, "profile", "profile", events, None, **engines)
    traces.add_execution(writer, "time-0", "time", events, None)
    writer.finish("complete", "")
    line = ["select", str(path), "--method", "first-n", "--set", "n=1"]
    done = CliRunner().invoke(cli, line)
    assert done.exit_code == 0, done.output
    found = reopen(path)
    assert isinstance(found, Result)
    return found


def test_an_unreliable_error_says_why_where_it_stands(tmp_path: Path) -> None:
    """The reasons are part of the result, so -q, which silences notes, leaves them."""
    found = replace(result(tmp_path / "R", traces.events()), unreliable=("a reason", "another"))
    lines = as_text(found).splitlines()
    assert any(line.startswith("sampling error ") and "UNRELIABLE" in line for line in lines)
    assert [line.split(None, 1)[1] for line in lines if line.startswith("unreliable")] == [
        "a reason",
        "another",
    ]


def test_a_program_that_nothing_watched(tmp_path: Path) -> None:
    """GIVEN neither engine THEN the head says so, and no error is called 0 by construction."""
    found = result(tmp_path / "R", traces.events(0), cpu_engine="none", gpu_engine="none")
    text = as_text(found)
    assert "no CPU engine, no GPU engine" in text and "sampling error  none: no GPU eng" in text
    assert "0 by construction" not in text and "the whole run is one slice" in text


def test_a_window_without_a_launch_is_not_the_whole_run() -> None:
    """GIVEN a window in a program that nothing watched THEN its one slice is the window."""
    record = ExecutionRecord("profile", "profile", status="complete", gpu_engine="none")
    said = no_launch(Execution(record, []), Sums(slices=1, openings=1))
    assert said == "No GPU engine watched the program: the window is one slice."
