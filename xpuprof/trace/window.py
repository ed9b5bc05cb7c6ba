# SPDX-License-Identifier: Apache-2.0
"""The window of a profile: the part of a process selected by `--window` (docs/filters.md).

The streams hold every launch as a boundary, in the window or not. `clip` keeps the slices at least
partly in the window as if they were the whole program, so code that works on rows need not handle
windows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from xpuprof.trace.coordinates import WINDOW_END_KERNEL, ProcessRows, rows_in_window
from xpuprof.trace.streams import Stream
from xpuprof.trace.tables import CpuVectors, DeviceDistances, Process, StackDistances, Window

I64 = npt.NDArray[np.int64]


def find_window(events: Stream | None, outside: npt.NDArray[np.bool_]) -> Window | None:
    """The window recorded in the stream; None if the whole process was profiled.

    `outside`: bool[launches], launches made outside.
    """
    found = windows_of(events, outside)
    if found is None:
        return None
    rows = ProcessRows(np.flatnonzero(found.wanted))
    return Window(found.spec, rows, found.inside[rows], found.openings, found.stamps)


@dataclass(frozen=True)
class Windows:
    """The window as recorded: bool[launches + 1], slices at least partly in it, and slices that end
    in it; openings and stamps as in `Window`."""

    spec: str
    wanted: npt.NDArray[np.bool_]
    inside: npt.NDArray[np.bool_]
    openings: I64
    stamps: I64


def windows_of(events: Stream | None, outside: npt.NDArray[np.bool_]) -> Windows | None:
    """Like `find_window`, in a byte or two per launch."""
    spec = events.meta().get("window", "") if events else ""
    if events is None or not spec:
        return None
    openings, stamps = _openings(events, len(outside))
    openings = np.minimum(openings, len(outside))  # fewer launches than records: a killed process
    inside = np.append(~outside, len(stamps) > 0 and stamps[-1, 1] == 0)
    wanted = inside.copy()
    if "@" in spec:
        wanted[openings[:, 1]] = True  # the part between the last kernel and the closing
    return Windows(spec, wanted, inside, openings, stamps)


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


def clip(process: Process, window: Window) -> Process:
    """The process with only the window's slices."""
    rows = ProcessRows(window.rows[window.rows < len(process.slices)])
    tails = np.flatnonzero(~window.inside[: len(rows)])
    slices = process.slices.iloc[rows].reset_index(drop=True)
    slices.loc[tails, "kernel"] = WINDOW_END_KERNEL
    slices.loc[tails, "call"] = np.arange(1, len(tails) + 1)
    slices.loc[tails, "program"] = ""
    slices.loc[tails, ["gx", "gy", "gz", "lx", "ly", "lz"]] = 0
    launched = ProcessRows(rows[rows < len(process.launches)])
    gpu = process.gpu
    return replace(
        process,
        launches=process.launches.iloc[launched].reset_index(drop=True),
        slices=slices,
        cpu=None if process.cpu is None else _cpu(process.cpu, rows),
        gpu=None if gpu is None else replace(gpu, launch_grid=gpu.launch_grid[launched]),
        distances=None if process.distances is None else _distances(process.distances, rows),
        device_distances=None
        if process.device_distances is None
        else _device_distances(process.device_distances, launched),
        window=replace(window, rows=rows, inside=window.inside[: len(rows)], whole=process),
    )


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
    clipped = [
        (process, process.window, process.window.whole)
        for process in processes
        if process.window is not None and process.window.whole is not None
    ]
    if not clipped:
        return None
    return WindowFacts(
        spec=clipped[0][1].spec,
        openings=sum(len(window.openings) for _, window, _ in clipped),
        of_slices=sum(len(whole.slices) for _, _, whole in clipped),
        of_launches=sum(len(whole.launches) for _, _, whole in clipped),
        ended=any("ended" in process.meta for process, _, _ in clipped),
    )


def _cpu(cpu: CpuVectors, rows: ProcessRows) -> CpuVectors:
    """Vectors of the given slices, by row in the window."""
    sizes: I64 = np.diff(cpu.slice_start).astype(np.int64)
    wanted = np.zeros(len(sizes), bool)
    wanted[rows] = True
    keep, counts = np.repeat(wanted, sizes), sizes[rows]
    return replace(
        cpu,
        slice=np.repeat(np.arange(len(rows), dtype=np.uint32), counts),
        thread=cpu.thread[keep],
        block=cpu.block[keep],
        count=cpu.count[keep],
        slice_start=np.concatenate(([0], np.cumsum(counts))).astype(np.uint64),
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
