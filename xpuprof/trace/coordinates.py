# SPDX-License-Identifier: Apache-2.0
"""The meanings of a slice number, and every conversion between them.

    LaunchIndex  a launch of a process, from 0, in a window or not
    ProcessRow   a slice of a process, from 0: launch i ends row i, the last row ends with the exit
    WindowRow    a row of `Process.slices`: the slices in the process's window, from 0; without a
                 window the same number as its ProcessRow
    JobRow       a row of `Job.slices` and of a Selection: the WindowRows of the job's processes one
                 after the other
    OtherRow     a JobRow of another run, which a selection is compared with (validation/)

Arrays of them are int64. All are 0-based; users see 1-based calls, launches and regions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NewType, TypeVar

import numpy as np
import numpy.typing as npt

from xpuprof.arrays import I64

LaunchIndex = NewType("LaunchIndex", int)
ProcessRow = NewType("ProcessRow", int)
WindowRow = NewType("WindowRow", int)
JobRow = NewType("JobRow", int)
OtherRow = NewType("OtherRow", int)

ProcessRows = NewType("ProcessRows", I64)
WindowRows = NewType("WindowRows", I64)
JobRows = NewType("JobRows", I64)
OtherRows = NewType("OtherRows", I64)
"""One per JobRow; -1 if the other run has none."""

EXIT_KERNEL = "SYS_exit"
"""`kernel` of the slice that ends with the program."""
WINDOW_END_KERNEL = "xpuprof_window_end"
"""`kernel` of a slice that ends where a marker call closed the window; its call number counts the
closings."""
NO_KERNELS = {EXIT_KERNEL: "program exit", WINDOW_END_KERNEL: "window's end"}
"""Descriptions of slice ends that are not launches."""

_Array = TypeVar("_Array", bound=npt.NDArray[Any])


# ---- launch and slice of a process ---------------------------------------------------------------


def launch_ending(row: ProcessRow) -> LaunchIndex:
    """The launch that ends the slice, which must not end with the exit or with a window."""
    return LaunchIndex(row)


# ---- window and process --------------------------------------------------------------------------


@dataclass(frozen=True)
class Stretches:
    """Slices of a process in a window, as ascending [first, end) pairs of ProcessRow, which a
    selection stores. If empty, the window is the whole process."""

    pairs: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, rows: ProcessRows) -> Stretches:
        """From ascending rows."""
        parts = np.split(rows, np.flatnonzero(np.diff(rows) != 1) + 1)
        return cls(tuple((int(part[0]), int(part[-1]) + 1) for part in parts if len(part)))

    @classmethod
    def from_json(cls, pairs: Iterable[Sequence[int]]) -> Stretches:
        """From pairs of numbers."""
        return cls(tuple((int(first), int(end)) for first, end in pairs))

    def as_json(self) -> list[list[int]]:
        """Pairs of numbers for JSON."""
        return [list(pair) for pair in self.pairs]

    def process_row(self, row: WindowRow) -> ProcessRow:
        """The slice of the process."""
        left = int(row)
        for first, end in self.pairs:
            if left < end - first:
                return ProcessRow(first + left)
            left -= end - first
        return ProcessRow(left)


def rows_in_window(
    wanted: npt.NDArray[Any], rows: ProcessRows
) -> tuple[WindowRows, npt.NDArray[np.bool_]]:
    """Convert process rows to window rows. `rows`: the window's rows. Returns the WindowRow of each
    wanted row in the window, and which of `wanted` are in it."""
    found = np.isin(wanted, rows)
    return WindowRows(np.searchsorted(rows, wanted[found]).astype(np.int64)), found


# ---- another run ---------------------------------------------------------------------------------


def as_own(row: OtherRow) -> JobRow:
    """A row of the other run, as a row of a selection transferred to that run."""
    return JobRow(row)


# ---- process and job -----------------------------------------------------------------------------


@dataclass(frozen=True)
class JobLayout:
    """Number of slices of each process of a job, in order."""

    lengths: tuple[int, ...]

    @property
    def slices(self) -> int:
        """Slices of all processes."""
        return sum(self.lengths)

    def first(self, process: int) -> JobRow:
        """The first row of a process."""
        return JobRow(sum(self.lengths[:process]))

    def job_row(self, process: int, row: WindowRow) -> JobRow:
        """The job's row of a process's row."""
        return JobRow(self.first(process) + row)

    def window_row(self, process: int, row: JobRow) -> WindowRow:
        """The process's row of the job's row."""
        return WindowRow(row - self.first(process))

    def holds(self, process: int, row: JobRow) -> bool:
        """Whether the job's row is one of the process."""
        return 0 <= self.window_row(process, row) < self.lengths[process]

    def split(self, values: _Array, axis: int = 0) -> list[_Array]:
        """Split an array with one entry per row by process."""
        return np.split(values, np.cumsum(self.lengths)[:-1], axis=axis)  # type: ignore[return-value]

    def rows(self, process: int) -> JobRows:
        """All rows of a process."""
        first = self.first(process)
        return JobRows(np.arange(first, first + self.lengths[process]))

    def owners(self) -> I64:
        """The process of every row."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths)
