# SPDX-License-Identifier: Apache-2.0
"""The meanings of a slice number, and conversions between them."""

from __future__ import annotations

import numpy as np
import pytest

from xpuprof.trace.coordinates import (
    JobLayout,
    JobRow,
    ProcessRow,
    ProcessRows,
    Stretches,
    WindowRow,
    launch_ending,
    rows_in_window,
)

ROWS = ProcessRows(np.array([3, 4, 5, 9, 12, 13]))


def test_stretches_of_a_window_number_the_slices_of_the_process() -> None:
    stretches = Stretches.of(ROWS)
    assert stretches.as_json() == [[3, 6], [9, 10], [12, 14]]
    assert Stretches.from_json(stretches.as_json()) == stretches
    found = [stretches.process_row(WindowRow(row)) for row in range(len(ROWS))]
    assert found == ROWS.tolist()


def test_without_a_window_both_numbers_are_the_same() -> None:
    row = Stretches().process_row(WindowRow(7))
    assert row == launch_ending(row) == 7


def test_rows_of_the_process_are_found_in_its_window() -> None:
    at, found = rows_in_window(np.array([2, 3, 9, 9, 11, 13]), ROWS)
    assert at.tolist() == [0, 3, 3, 5]
    assert found.tolist() == [False, True, True, True, False, True]


@pytest.mark.parametrize("lengths", [(5,), (2, 1, 4)])
def test_rows_of_a_job_belong_to_one_process_each(lengths: tuple[int, ...]) -> None:
    layout = JobLayout(lengths)
    for row, owner in enumerate(layout.owners().tolist()):
        own = layout.window_row(owner, JobRow(row))
        assert layout.job_row(owner, own) == row and 0 <= own < lengths[owner]
        assert [layout.holds(p, JobRow(row)) for p in range(len(lengths))].count(True) == 1
    rows = [layout.rows(process) for process in range(len(lengths))]
    assert np.concatenate(rows).tolist() == list(range(layout.slices))
    parts = layout.split(np.arange(2 * layout.slices).reshape(2, -1), axis=1)
    assert [part.shape for part in parts] == [(2, length) for length in lengths]


def test_the_process_row_is_the_launch_that_ends_it() -> None:
    assert launch_ending(ProcessRow(4)) == 4
