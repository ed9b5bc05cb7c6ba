# SPDX-License-Identifier: Apache-2.0
"""The functions behind the commands: the same parameters, with values as results."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xpuprof.engines.filters import EVERYTHING, Filters
from xpuprof.errors import EngineError, UsageError
from xpuprof.estimation.estimate import Estimate
from xpuprof.launch import execute
from xpuprof.launch.ending import Ending
from xpuprof.methods import registry
from xpuprof.selection.selection import Selection
from xpuprof.trace.run import Run
from xpuprof.workflow.profile import profile
from xpuprof.workflow.run import run
from xpuprof.workflow.time import time
from xpuprof.workflow.validate import validate

FAILS = ["sh", "-c", "echo out; exit 3"]
WORKS = ["sh", "-c", "echo out"]


@pytest.mark.parametrize("name", ["run", "profile", "time", "validate"])
def test_functions_have_the_commands_defaults(name: str) -> None:
    """GIVEN a command and its function THEN every option is a parameter with the same default."""
    function = getattr(importlib.import_module(f"xpuprof.workflow.{name}"), name)
    command = importlib.import_module(f"xpuprof.cli.{name}").command
    parameters = inspect.signature(function).parameters
    given = command.make_context(name, ["x"], resilient_parsing=True).params
    not_passed = {"as_json", "quiet", "selection", "argv"}
    for option, default in given.items():
        if option in not_passed or option.startswith("filter_"):
            continue
        parameter = parameters[option]
        assert parameter.kind is inspect.Parameter.KEYWORD_ONLY
        assert parameter.default == default, option
    if name != "validate":  # taken from its selection
        assert parameters["filters"].default is EVERYTHING


def test_profile(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """GIVEN a program that fails WHEN profiled from Python THEN its output is unchanged, its exit
    code is returned, and nothing is printed."""
    done = profile(FAILS, output=tmp_path / "run", cpu="none", gpu="none")
    assert capfd.readouterr() == ("out\n", "")
    assert (done.run.status, done.ending.exit_code, len(done.job.slices)) == ("complete", 3, 1)
    assert done.notes == () and "exit code 3" in done.doubts[0]


def test_time(tmp_path: Path) -> None:
    """GIVEN three native runs THEN each is timed, and the measured time is their median."""
    done = time(WORKS, output=str(tmp_path / "run"), gpu="none", repeat=3)
    assert len(done.seconds) == 3 and done.slices == 1
    assert done.measured == pytest.approx(float(np.median(done.seconds)))
    assert done.regions is None and done.ending.exit_code == 0
    assert [execution.name for execution in done.run.times] == ["time-0", "time-1", "time-2"]


def test_run(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """GIVEN a program WHEN run from Python THEN the result matches the files, and a command's notes
    are kept and passed on."""
    said: list[str] = []
    window = Filters(window="@never")
    done = run(
        WORKS, output=tmp_path / "run", cpu="none", gpu="none", repeat=1, seed=5, say=said.append
    )
    assert capfd.readouterr() == ("out\n", "")
    assert done.result is not None and done.selection is not None
    kept = Selection.read(tmp_path / "run" / "selection.json")
    assert kept.representatives == done.selection.representatives
    assert (kept.method, kept.seed) == (registry.default(), 5)
    assert done.notes == tuple(said) and said[-1].startswith("native run done")
    told = time(WORKS, output=tmp_path / "w", gpu="none", filters=window, repeat=1).notes
    assert told == ("only the window @never counts",)


def test_what_cannot_be_done_is_refused_before_anything_runs(tmp_path: Path) -> None:
    """GIVEN impossible requests THEN one error each, and no folder is created."""
    folder = tmp_path / "run"
    with pytest.raises(UsageError, match="does not exist"):
        profile(["./absent"], output=folder)
    with pytest.raises(EngineError, match="no GPU engine 'vulkan'"):
        time(WORKS, output=folder, gpu="vulkan")
    with pytest.raises(UsageError, match="no method 'best'"):
        run(WORKS, output=folder, method="best")
    with pytest.raises(UsageError, match="--memory-weight requires stack distances"):
        run(WORKS, output=folder, memory_weight=0.5)
    done = run(WORKS, output=tmp_path / "other", cpu="none", gpu="none", repeat=1)
    assert done.selection is not None
    with pytest.raises(UsageError, match="no GPU engine is usable"):
        validate(done.selection, WORKS, output=folder, gpu="none")
    assert not folder.exists()


@pytest.mark.parametrize("wrapped", [False, True])
def test_an_interrupt_between_executions_keeps_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrapped: bool
) -> None:
    """GIVEN an interrupt after the first of two timer runs, also one that Python hands on as the
    cause of another error THEN the run is partial and keeps it, and the interrupt names the
    folder."""
    first = execute.time

    def one_only(*given: Any, **named: Any) -> Ending:
        if given[4] and wrapped:
            raise RuntimeError("Error calling __set_name__") from KeyboardInterrupt()
        if given[4]:
            raise KeyboardInterrupt
        return first(*given, **named)

    monkeypatch.setattr(execute, "time", one_only)
    with pytest.raises(KeyboardInterrupt, match="R keeps what was recorded"):
        time(["true"], output=tmp_path / "R", gpu="none", repeat=2)
    kept = Run.open(tmp_path / "R")
    assert kept.status == "partial" and "stopped before" in kept.reason
    assert [execution.name for execution in kept.executions] == ["time-0"]


def test_an_estimate_is_a_table_in_a_notebook() -> None:
    """GIVEN an estimate WHEN a notebook shows it THEN it is a table, and its basis is escaped."""
    shown = Estimate(2.0, 1.5, 2.5, 0.95, "a < b")._repr_html_()
    assert "<td>1.5</td>" in shown and "95 % interval: a &lt; b" in shown
    assert "low" not in Estimate(2.0, None, None, None, "none")._repr_html_()


def test_a_profile_without_engines_says_that_it_is_empty(tmp_path: Path) -> None:
    """GIVEN neither engine nor GPU tool THEN the profile does not succeed without a word."""
    found = profile(["true"], output=tmp_path / "R", cpu="none", gpu="none")
    assert any("no engine watched the program" in doubt for doubt in found.doubts)
