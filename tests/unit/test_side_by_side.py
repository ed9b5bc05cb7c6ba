# SPDX-License-Identifier: Apache-2.0
"""Work on several items at a time."""

from __future__ import annotations

import threading

import pytest

from xpuprof.trace.side_by_side import side_by_side


@pytest.fixture(params=["threads", "no further thread", "one processor"])
def threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    if request.param == "no further thread":
        monkeypatch.setattr(threading.Thread, "start", refuse)
    processors = 1 if request.param == "one processor" else 4
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(processors)))


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("number", [0, 1, 2, 9])
def test_results_are_in_order(number: int) -> None:
    assert side_by_side(str, range(number)) == [str(item) for item in range(number)]


@pytest.mark.usefixtures("threads")
def test_the_first_error_in_order_is_raised() -> None:
    with pytest.raises(ValueError, match="'a'"):
        side_by_side(int, ["1", "a", "2", "b"])


def test_items_are_worked_on_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN two processors THEN two items meet."""
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    both = threading.Barrier(2, timeout=60)
    assert sorted(side_by_side(lambda _: both.wait(), range(2))) == [0, 1]


def test_an_interrupt_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN an interrupt of this thread's work THEN it is raised, and no further item is begun."""
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0})
    begun = []

    def interrupted(item: int) -> None:
        begun.append(item)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        side_by_side(interrupted, range(5))
    assert begun == [0]
