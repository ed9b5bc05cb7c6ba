# SPDX-License-Identifier: Apache-2.0
"""CPU phases that device vectors do not show."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.support import traces
from tests.support.runs_made_up import made_up_run, select_by_kernel
from tests.unit.test_trace_slices import timer_run
from xpuprof.methods.registry import by_measured_times
from xpuprof.selection.design import Design, Strata
from xpuprof.selection.selection import Selection
from xpuprof.validation.phases import phase_share, unseen_phases


def chosen(design: Design) -> Selection:
    """A selection with this design, in which slices represent others."""
    return replace(select_by_kernel(made_up_run(["k/64"] * 20)), design=design)


DRAWN = Design("random", "draws", Strata((21,), (3,), (1.0,), (0.1,)))


def rows(gaps: list[int]) -> list[tuple[int, int, int]]:
    """A launch after each gap; its kernel takes 5 ticks and ends the slice."""
    found, now = [], 1000
    for gap in gaps:
        now += gap + 5
        found.append((now - 5, 0, now))
    return found


WHOLE = traces.END - traces.START
"""Ticks of a timer run."""


def test_phases_are_what_exceeds_the_usual_gap(tmp_path: Path) -> None:
    """GIVEN 100 ticks before every kernel, and 19,900 more in two of twenty slices, THEN these are
    the phases; those of the first and the last slice are ignored."""
    gaps = [7000, *[100] * 8, 20_000, *[100] * 9, 20_000]
    execution = timer_run(tmp_path / "r", rows(gaps))
    assert phase_share([execution]) == pytest.approx(2 * 19_900 / WHOLE)
    (sentence,) = unseen_phases(execution.processes, [execution], chosen(Design()))
    assert sentence.startswith("40 % of the time is CPU work between kernels")
    assert sentence.endswith(f"--method with one of {', '.join(by_measured_times())})")
    assert unseen_phases(execution.processes, [execution], chosen(DRAWN)) == []


def test_phases_that_start_up_dwarfs_are_not_reported(tmp_path: Path) -> None:
    """GIVEN phases of half the time between start-up and exit, which take nearly all of the run,
    THEN they are a small share of the time, and nothing is said."""
    execution = timer_run(tmp_path / "r", rows([80_000, *[100] * 8, 1000, *[100] * 9, 1000]))
    assert phase_share([execution]) == pytest.approx(2 * 900 / WHOLE)
    assert unseen_phases(execution.processes, [execution], chosen(Design())) == []


def test_even_gaps_are_not_phases(tmp_path: Path) -> None:
    """GIVEN the same gap before every kernel, however long, THEN there are no phases."""
    execution = timer_run(tmp_path / "r", rows([3000] * 20))
    assert phase_share([execution]) == 0.0
    assert unseen_phases(execution.processes, [execution], chosen(Design())) == []


def test_without_stamps_of_the_device_nothing_is_said(tmp_path: Path) -> None:
    """GIVEN a synchronous timer or none THEN the share is 0."""
    synchronous = [(launched, end, 0) for launched, _, end in rows([100] * 9 + [5000] * 3)]
    assert phase_share([timer_run(tmp_path / "r", synchronous)]) == 0.0
    assert phase_share([]) == 0.0
