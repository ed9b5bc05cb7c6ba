# SPDX-License-Identifier: Apache-2.0
"""tools/evidence: a program's record grows step by step, and the page shows what is in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest

from tools.evidence.measure import Failed, Record, Suite, measure
from tools.evidence.page import html, page
from tools.evidence.programs import Program

PROGRAM = Program("waves", "application", ("true",), passes="")
FACTS: Record = {
    "commit": "abc",
    "machine": "CPU OS",
    "cores": 2,
    "passes": True,
    "native_s": 6.0,
    "error": 0.02,
    "launches": 10,
    "instrumented": 10,
    "held": True,
    "code": True,
    "same_output": True,
    "report": "waves/report.html",
    "seed_errors": [0.01, 0.03],
    "seed_inner_errors": [0.02, None],
    "seed_held": [True, None],
}


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The steps taken, in order; those of the engine valgrind fail."""
    taken: list[str] = []

    def step(name: str, record: Record) -> Record:
        taken.append(name)
        if name == "engine valgrind":
            raise Failed("no memory")
        if name == "run":
            return FACTS
        known = record.get("engines", {})
        return {"engines": known | {name: {"slowdown": 3.0, "memory_mb": 1, "right": False}}}

    def steps(_: Suite, engines: Sequence[str]) -> dict[str, Callable[[Record], Record]]:
        return {name: partial(step, name) for name in ("run", *(f"engine {e}" for e in engines))}

    monkeypatch.setattr(Suite, "steps", steps)
    return taken


def test_a_record_goes_on_where_it_stopped(tmp_path: Path, done: list[str]) -> None:
    """GIVEN a record with a failed step WHEN the suite runs again, with an engine more THEN only
    that engine is measured, and the failure is kept."""
    measure(PROGRAM, tmp_path / "waves", tmp_path, ["valgrind"])
    record = measure(PROGRAM, tmp_path / "waves", tmp_path, ["valgrind", "other"])
    assert done == ["run", "engine valgrind", "engine other"]
    assert record["failed"] == {"engine valgrind": "no memory"}
    assert list(record["engines"]) == ["engine other"]


def test_an_interrupted_step_is_taken_again(
    tmp_path: Path, done: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIVEN a suite that was interrupted in its second step WHEN it runs again THEN it begins with
    that step."""
    with monkeypatch.context() as patch:
        patch.setattr(Failed, "__init__", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            measure(PROGRAM, tmp_path / "waves", tmp_path, ["valgrind"])
    measure(PROGRAM, tmp_path / "waves", tmp_path, ["valgrind"])
    assert done == ["run", "engine valgrind", "engine valgrind"]


def test_the_page_says_what_failed_and_why(tmp_path: Path, done: list[str]) -> None:
    """GIVEN a record with a failure and a wrong result WHEN the page is written THEN it has a
    column for the engine, the worst of the known errors, and every miss with its reason; in a
    browser the program leads to its report."""
    record = measure(PROGRAM, tmp_path / "waves", tmp_path, ["valgrind", "other"])
    text = page([record], {"plough": "does not start"}, "Idle.")
    assert "2 cores, CPU OS. Idle. Commit abc." in text
    assert "| program | timer | other | run, s |" in text
    assert "| 3.00 % | 2.00 % |" in text
    assert "- other: geometric mean 3.00, worst 3.00 (waves), 1 measured that" in text
    for miss in ("engine valgrind: no memory", "other: the result is not right", "plough: does"):
        assert miss in text
    shown = html(text, [record], tmp_path, tmp_path / "docs")
    assert '<a href="../waves/report.html">waves</a>' in shown
