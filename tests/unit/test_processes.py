# SPDX-License-Identifier: Apache-2.0
"""Processes of an execution: which have slices, in which order, and how they match another's."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.support.processes import process_from
from tests.support.signature_data import process_of
from xpuprof.errors import TraceError
from xpuprof.trace.kinds import Key
from xpuprof.trace.processes import job_of, labels_of, matched
from xpuprof.trace.records import ExecutionRecord, process_meta
from xpuprof.trace.tables import Execution, Process


def process(kinds: list[int], name: str = "vm-1", **meta: str) -> Process:
    """A made-up process that launches these kernels."""
    made = process_of(kinds or [0]).tables
    if not kinds:
        exit_alone = made.slices.iloc[-1:].reset_index(drop=True)
        made = replace(made, slices=exit_alone)
    return process_from(made, name=name, meta=process_meta(meta, name))


def execution(*processes: Process, only: str = "") -> Execution:
    """An execution of one second with a clock of 1 kHz. `only`: the value of --process."""
    record = ExecutionRecord("time-0", "time", tsc_start=1000, tsc_end=2000, tsc_hz=1000.0)
    filters = {"processes": [only]} if only else {}
    return Execution(replace(record, filters=filters), list(processes))


def key(digest: str, rank: int | None = None) -> Key:
    """A process identified by its launches."""
    return Key("", rank, digest, 1)


def test_parents_without_device_work_are_left_out() -> None:
    """GIVEN a launcher and two ranks THEN the job is the ranks, in order."""
    found = job_of(
        execution(
            process([], "vm-1"), process([1, 2], "vm-2", rank="1"), process([0], "vm-3", rank="0")
        )
    )
    assert [key.label for key in found.keys] == ["rank0", "rank1"]
    assert found.slices["process"].tolist() == [0, 0, 1, 1, 1]
    assert found.slices["slice"].tolist() == [0, 1, 2, 3, 4]


def test_without_device_work_the_busiest_is_the_job() -> None:
    """GIVEN processes without launches THEN the busiest is taken."""
    assert not job_of(execution(process([]), process([]))).several


def test_order_of_creation_in_the_tree() -> None:
    """GIVEN children whose process ids wrapped around THEN start times order them within each
    parent."""
    first = process([0], "vm-900", ancestry="900:50 700:20 1:1")
    second = process([1], "vm-30", ancestry="30:51 700:20 1:1")
    of_other = process([2], "vm-800", ancestry="800:40 710:30 1:1")
    found = job_of(execution(of_other, second, first))
    assert [p.name for p in found.processes] == ["vm-900", "vm-30", "vm-800"]


@pytest.mark.parametrize(
    ("wanted", "found", "pairs"),
    [
        ([key("a", 0), key("b", 1)], [key("b", 1), key("a", 0)], [1, 0]),
        ([key("a", 0), key("b", 1)], [key("x", 0), key("y", 1)], [0, 1]),
        ([key("a"), key("b"), key("c")], [key("c"), key("a"), key("b")], [1, 2, 0]),
        ([key("a"), key("a"), key("b")], [key("a"), key("b"), key("a")], [0, 2, 1]),
        ([key("a"), key("b")], [key("x"), key("a")], [1, 0]),
        ([key("a", 0), key("b", 1)], [key("a", 0)], [0, None]),
        ([key("a", 3)], [key("b")], [0]),
    ],
)
def test_the_same_processes_again(
    wanted: list[Key], found: list[Key], pairs: list[int | None]
) -> None:
    """By rank; otherwise by launches, with equal and remaining ones in order."""
    assert matched(wanted, found) == pairs


def test_another_number_of_processes_is_said() -> None:
    """GIVEN a job of two ranks WHEN three run THEN the sentence names both."""
    two = job_of(execution(process([0], rank="0"), process([1], rank="1")))
    three = execution(*(process([0], rank=str(r)) for r in range(3)))
    with pytest.raises(TraceError, match=r"rank0, rank1, rank2, but rank0, rank1 had it"):
        job_of(three, two.keys)


def test_labels() -> None:
    """Names are unique."""
    assert labels_of([0, 1, 1, None]) == ["rank0", "rank1-0", "rank1-1", "process3"]


def test_each_process_has_its_own_time() -> None:
    """GIVEN processes that lived for a part of the execution THEN their slices add up to their
    lifetimes; a single one has the whole execution, unless --process chose it among others."""
    early = process([0], rank="0", tsc_load="1200", age_ns=str(100_000_000), tsc_exit="1500")
    late = process([0], rank="1", tsc_load="1600", age_ns=str(10**9), tsc_exit="1900")
    times = job_of(execution(early, late)).times()
    assert times[:2].sum() == pytest.approx(0.4)
    assert times[2:].sum() == pytest.approx(0.9)  # not before the execution
    assert job_of(execution(early)).times().sum() == pytest.approx(1.0)
    assert job_of(execution(early, only="app")).times().sum() == pytest.approx(0.4)
    assert np.all(times >= 0)
