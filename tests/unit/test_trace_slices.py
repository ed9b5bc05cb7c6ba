# SPDX-License-Identifier: Apache-2.0
"""Slice boundaries and times."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import xpuprof
from tests.support import traces
from xpuprof.errors import TraceError
from xpuprof.trace.boundaries import boundaries
from xpuprof.trace.slice_times import main_process, slice_times
from xpuprof.trace.tables import Execution


def timer_run(path: Path, rows: list[tuple[int, int, int]], **result: object) -> Execution:
    """Launches as (launched, seen by the host, end on the device); 0: unknown."""
    records = [traces.program(0), traces.kernel(0, 0, "k", [], reason="timer")]
    for i, (launched, host, device) in enumerate(rows):
        records += [traces.launch(i, 0, launched)]
        if host or device:
            records += [traces.complete(i, host, max(device - 5, 0), device)]
    closed = result.get("status", "complete") == "complete"
    records += [traces.end(len(rows), len(rows))] if closed else []
    run = traces.write_run(path, records, None, role="time", **result)  # type: ignore[arg-type]
    (execution,) = xpuprof.open(run).executions
    return execution


def ticks(execution: Execution) -> list[int]:
    marks = boundaries(main_process(execution), traces.START, execution.record.tsc_end)
    return [int(n) for n in np.diff(marks)]


def test_the_device_decides_then_the_host_then_the_launch(tmp_path: Path) -> None:
    rows = [(2000, 2900, 2500), (3000, 3600, 0), (4000, 0, 0)]
    assert ticks(timer_run(tmp_path / "r", rows)) == [1500, 1100, 400, 96_000]


def test_a_kernel_that_overtakes_makes_an_empty_slice(tmp_path: Path) -> None:
    """GIVEN launch 1 done before launch 0 THEN boundary 1 is boundary 0."""
    rows = [(2000, 0, 9000), (2100, 0, 5000), (2200, 0, 9500)]
    assert ticks(timer_run(tmp_path / "r", rows)) == [8000, 0, 500, 90_500]


def test_a_device_clock_that_is_off_stays_within_the_run(tmp_path: Path) -> None:
    rows = [(2000, 0, 500), (3000, 0, traces.END + 7)]
    assert ticks(timer_run(tmp_path / "r", rows)) == [0, 99_000, 0]


stamps = st.integers(0, 2 * traces.END)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(stamps, stamps, stamps), max_size=8))
def test_times_are_never_negative_and_add_up(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, int, int]]
) -> None:
    """For any stamps: exactly in ticks, up to rounding in seconds."""
    execution = timer_run(tmp_path_factory.mktemp("t") / "r", rows)
    found = ticks(execution)
    assert min(found) >= 0
    assert sum(found) == traces.END - traces.START
    times = slice_times(execution, main_process(execution))
    assert times.dtype == np.float64
    assert len(times) == len(rows) + 1
    whole = (traces.END - traces.START) / execution.record.tsc_hz
    assert times.sum() == pytest.approx(whole, rel=1e-12)


def test_a_run_that_was_killed_has_times_of_finished_slices(tmp_path: Path) -> None:
    rows = [(2000, 0, 2500), (3000, 0, 3500)]
    execution = timer_run(tmp_path / "r", rows, status="partial", tsc_end=None)
    times = slice_times(execution, main_process(execution))
    assert (times * execution.record.tsc_hz).round().tolist() == [1500, 1000]


def test_without_a_start_there_are_no_times(tmp_path: Path) -> None:
    execution = timer_run(tmp_path / "r", [(2000, 0, 2500)], tsc_start=None)
    with pytest.raises(TraceError, match="no stamp of its start"):
        slice_times(execution, main_process(execution))


def test_the_process_with_device_work_is_the_main_one(tmp_path: Path) -> None:
    run = traces.write_run(tmp_path / "run", traces.events(), traces.cpu())
    traces.write_process(run / "profile/h-5", None, traces.cpu(1))
    execution = xpuprof.open(run).profile
    assert execution is not None
    assert [p.name for p in execution.processes] == ["h-5", "h-77"]
    assert main_process(execution).name == "h-77"
    assert slice_times(execution, execution.processes[0]).shape == (1,)
