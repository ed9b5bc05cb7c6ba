# SPDX-License-Identifier: Apache-2.0
"""From kernels on a timeline to slices, for all importers with start and end times.

Boundary i is the moment when all kernels up to i have completed: a running maximum of their ends,
in order of start on the device timeline. A slice's time is the difference of two boundaries, so
times are never negative and sum to the whole recording. The part of a slice without a running
kernel of the process is its CPU part. The slice after the last kernel ends with the recording.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from xpuprof.formats.importers.table import NAME_COST
from xpuprof.inputs import Source
from xpuprof.trace.coordinates import EXIT_KERNEL
from xpuprof.trace.imported import ImportWriter

GRID = ("gx", "gy", "gz")
BLOCK = ("lx", "ly", "lz")


@dataclass(eq=False)
class Launches:
    """A chunk of kernels of one process, by start time. Times in seconds."""

    kernel: list[str]
    start: npt.NDArray[np.float64]
    end: npt.NDArray[np.float64]
    device: npt.NDArray[np.int32]
    stream: npt.NDArray[np.int32]
    grid: npt.NDArray[np.int64]
    """Work-groups, launches x 3."""
    block: npt.NDArray[np.int64]
    """Work-items a group, launches x 3."""
    metrics: Mapping[str, npt.NDArray[np.float64]]
    ranges: list[str] | None = None


class Timeline:
    """Convert chunks of launches to slices of an ImportWriter, process by process."""

    def __init__(self, source: Source, writer: ImportWriter) -> None:
        self._source = source
        self._writer = writer
        self._calls: dict[str, int] = {}
        self._process = -1
        self._boundary = 0.0
        self._extra: dict[str, npt.DTypeLike] = {}
        self._ranges = False
        writer.units |= {"time": "s", "gpu_time": "s", "cpu_time": "s"}

    def begin(self, origin: float) -> None:
        """Begin the next process, recorded from `origin` (seconds)."""
        self._process += 1
        self._boundary = origin
        self._calls = {}

    def add(self, launches: Launches) -> None:
        """Append the slices ended by these launches."""
        if (launches.end < launches.start).any():
            row = int(np.flatnonzero(launches.end < launches.start)[0])
            self._source.refuse(
                f"is damaged: kernel {launches.kernel[row][:80]!r} ends before it starts; "
                "export it again"
            )
        ends = np.maximum(np.maximum.accumulate(launches.end), self._boundary)
        before = np.concatenate([[self._boundary], ends[:-1]])
        self._boundary = float(ends[-1])
        time = ends - before
        self._extra = {name: values.dtype for name, values in launches.metrics.items()}
        self._ranges = launches.ranges is not None
        self._write(
            launches.kernel,
            self._number(launches.kernel),
            device=launches.device,
            stream=launches.stream,
            # Work-items, as in OpenCL and recorded runs.
            grid=launches.grid * launches.block,
            block=launches.block,
            metrics={
                "time": time,
                "gpu_time": launches.end - launches.start,
                "cpu_time": np.minimum(np.maximum(launches.start - before, 0.0), time),
                **launches.metrics,
            },
            ranges=launches.ranges,
        )

    def finish(self, end: float) -> None:
        """Append the process's last slice, which ends at `end` (seconds), with the recording."""
        rest = max(end - self._boundary, 0.0)
        zeros = np.zeros((1, 3), dtype=np.int64)
        metrics = {name: np.zeros(1, dtype) for name, dtype in self._extra.items()}
        self._write(
            [EXIT_KERNEL],
            np.ones(1, dtype=np.int32),
            device=np.full(1, -1, dtype=np.int32),
            stream=np.full(1, -1, dtype=np.int32),
            grid=zeros,
            block=zeros,
            metrics={
                "time": np.array([rest]),
                "gpu_time": np.zeros(1),
                "cpu_time": np.array([rest]),
                **metrics,
            },
            ranges=[""] if self._ranges else None,
        )

    def _number(self, kernels: list[str]) -> npt.NDArray[np.int32]:
        calls = np.empty(len(kernels), dtype=np.int32)
        known = self._calls
        for i, kernel in enumerate(kernels):
            calls[i] = call = known[kernel] = known.get(kernel, 0) + 1
            if call == 1:
                self._source.hold(NAME_COST + 4 * len(kernel))
        return calls

    def _write(
        self,
        kernel: list[str],
        call: npt.NDArray[np.int32],
        *,
        device: npt.NDArray[np.int32],
        stream: npt.NDArray[np.int32],
        grid: npt.NDArray[np.int64],
        block: npt.NDArray[np.int64],
        metrics: Mapping[str, npt.NDArray[np.float64]],
        ranges: list[str] | None,
    ) -> None:
        columns: dict[str, npt.NDArray[Any]] = {
            "kernel": self._writer.codes("kernel", kernel),
            "call": call,
            "process": np.full(len(kernel), self._process, dtype=np.int32),
            "device": device,
            "stream": stream,
        }
        columns |= {name: grid[:, i] for i, name in enumerate(GRID)}
        columns |= {name: block[:, i].astype(np.int32) for i, name in enumerate(BLOCK)}
        if ranges is not None:
            columns["range"] = self._writer.codes("range", ranges)
        self._writer.append({**columns, **metrics})
