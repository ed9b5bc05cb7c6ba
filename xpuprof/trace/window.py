# SPDX-License-Identifier: Apache-2.0
"""The window of a profile: the part of a process selected by `--window` (docs/filters.md).

The streams hold every launch as a boundary, in the window or not. `clip` keeps the slices at least
partly in the window as if they were the whole program, so code that works on rows need not handle
windows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from xpuprof.arrays import I64
from xpuprof.trace.coordinates import WINDOW_END_KERNEL, ProcessRows, rows_in_window
from xpuprof.trace.streams import Stream
from xpuprof.trace.sums import total
from xpuprof.trace.tables import (
    DeviceDistances,
    Process,
    StackDistances,
    Tables,
    Window,
)

if TYPE_CHECKING:
    import pandas as pd


def find_window(
    events: Stream | None, outside: npt.NDArray[np.bool_], finished: int
) -> Window | None:
    """The window recorded in the stream; None if the whole process was profiled.

    `outside`: bool[launches], launches made outside; `finished`: slices of the process.
    """
    spec = events.meta().get("window", "") if events else ""
    if events is None or not spec:
        return None
    openings, stamps = _openings(events, len(outside))
    openings = np.minimum(openings, len(outside))  # fewer launches than records: a killed process
    ends = np.append(~outside, len(stamps) > 0 and stamps[-1, 1] == 0)
    wanted = ends
    if "@" in spec:
        wanted = ends.copy()
        wanted[openings[:, 1]] = True  # the part between the last kernel and the closing
    return Window(spec, wanted[:finished], ends[:finished], openings, stamps)


def _openings(events: Stream, launches: int) -> tuple[I64, I64]:
    """int64[openings, 2] each: first launch and the one after the last; stamps of opening and
    closing, 0 where the process ended first."""
    ranges: list[tuple[int, int]] = []
    stamps: list[tuple[int, int]] = []
    opened: tuple[int, int] | None = None
    for row in events["windows"]:
        launch, tsc = int(row["launch"]), int(row["tsc"])
        if row["open"] and opened is None:
            opened = (launch, tsc)
        elif not row["open"] and opened is not None:
            ranges.append((opened[0], launch))
            stamps.append((opened[1], tsc))
            opened = None
    if opened is not None:
        ranges.append((opened[0], launches))
        stamps.append((opened[1], 0))
    return (
        np.array(ranges, dtype=np.int64).reshape(-1, 2),
        np.array(stamps, dtype=np.int64).reshape(-1, 2),
    )


def never_opened(processes: Sequence[Process]) -> str:
    """The sentence for a window that no process reached; empty if one did, or without a window."""
    specs = [process.window.spec for process in processes if process.window is not None]
    if not specs or any(process.window and len(process.window.openings) for process in processes):
        return ""
    launched = sum(process.sums.of_launches for process in processes)
    return (
        f"the window {specs[0]} never opened (the program launched {launched:,} kernels); record "
        "it again with a window that the program reaches"
    )


def clip(tables: Tables, window: Window, launches: int) -> Tables:
    """The tables with only the window's slices, of a process with so many launches."""
    rows = window.rows
    tails = np.flatnonzero(~window.inside)
    slices = tables.slices.iloc[rows].reset_index(drop=True)
    for column, name in (("kernel", WINDOW_END_KERNEL), ("program", "")):
        names = slices[column].cat.categories
        slices[column] = slices[column].cat.set_categories(names.union([name], sort=False))
        slices.loc[tails, column] = name
        slices[column] = slices[column].cat.remove_unused_categories()
    slices.loc[tails, "call"] = np.arange(1, len(tails) + 1)
    slices.loc[tails, ["gx", "gy", "gz", "lx", "ly", "lz"]] = 0
    gpu, own, device = tables.gpu, tables.distances, tables.device_distances
    launched = _launched(window, launches)
    return replace(
        tables,
        slices=slices,
        gpu=gpu and replace(gpu, launch_grid=gpu.launch_grid[launched]),
        distances=own and _distances(own, rows),
        device_distances=device and _device_distances(device, launched),
    )


def clip_launches(launches: pd.DataFrame, window: Window) -> pd.DataFrame:
    """The launches that end the window's slices."""
    return launches.iloc[_launched(window, len(launches))].reset_index(drop=True)


def _launched(window: Window, launches: int) -> ProcessRows:
    """The window's slices but for the one that the process's exit ends."""
    return ProcessRows(window.rows[window.rows < launches])


@dataclass(frozen=True)
class WindowFacts:
    """The window that the tables cover and its share of the whole, summed over processes, each of
    which counts for itself."""

    spec: str
    openings: int
    of_slices: int
    of_launches: int
    ended: bool
    """Whether a process was terminated after its window."""


def window_facts(processes: Sequence[Process]) -> WindowFacts | None:
    """The window of these processes; None for whole processes."""
    clipped = [process for process in processes if process.window is not None]
    if not clipped:
        return None
    sums = total(process.sums for process in clipped)
    return WindowFacts(
        spec=clipped[0].meta["window"],
        openings=sums.openings,
        of_slices=sums.of_slices,
        of_launches=sums.of_launches,
        ended=any("ended" in process.meta for process in clipped),
    )


def _distances(distances: StackDistances, rows: ProcessRows) -> StackDistances:
    at, keep = rows_in_window(distances.slice, rows)
    return StackDistances(at.astype(np.uint32), distances.thread[keep], distances.count[keep])


def _device_distances(distances: DeviceDistances, launched: ProcessRows) -> DeviceDistances:
    at, keep = rows_in_window(distances.launch, launched)
    columns = {name: values[keep] for name, values in vars(distances).items()}
    return DeviceDistances(**{**columns, "launch": at.astype(np.uint32)})


def ticks_in(window: Window, marks: I64) -> I64:
    """int64[slices of the window]: ticks of each slice in the window.

    `marks`: int64[slices of the process + 1], its boundaries. A window by launches opens and closes
    at boundaries. A window by markers opens at the marker, but not before all earlier launches have
    completed, and closes at the marker, but not before its own launches have.
    """
    if not window.by_marker:
        return (marks[window.rows + 1] - marks[window.rows]).astype(np.int64)
    total = np.zeros(len(marks), np.int64)
    openings = np.minimum(window.openings, len(marks) - 1)
    for (first, end), (opened, closed) in zip(openings, window.stamps, strict=True):
        begin = max(int(opened), int(marks[first]))
        last = max(int(closed), int(marks[end]), begin) if closed else int(marks[-1])
        edges = np.clip(np.append(marks[first : end + 1], last), begin, last)
        total[first : end + 1] += np.diff(edges)
    return total[window.rows]
