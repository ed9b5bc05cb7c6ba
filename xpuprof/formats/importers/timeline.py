# SPDX-License-Identifier: Apache-2.0
"""From kernels on a timeline to slices, for all importers with start and end times.

Boundary i is the moment when all kernels up to i have completed: a running maximum of their ends,
in order of start on the device timeline. A slice's time is the difference of two boundaries, so
times are never negative and sum to the whole recording. The part of a slice without a running
kernel of the process is its CPU part. The slice after the last kernel ends with the recording.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from xpuprof.arrays import F64, I64
from xpuprof.formats.importers.launches import Launches, LaunchWriter
from xpuprof.inputs import Source
from xpuprof.trace.coordinates import EXIT_KERNEL
from xpuprof.trace.imported import ImportWriter


class Timeline:
    """Convert chunks of launches to slices of an ImportWriter, process by process."""

    def __init__(self, source: Source, writer: ImportWriter) -> None:
        self._source = source
        self._launches = LaunchWriter(source, writer)
        self._process = -1
        self._boundary = 0.0
        self._last: Launches | None = None
        writer.units |= {"time": "s", "gpu_time": "s", "cpu_time": "s"}

    def begin(self, origin: float) -> None:
        """Begin the next process, recorded from `origin` (seconds)."""
        self._process += 1
        self._boundary = origin

    def add(self, launches: Launches, start: F64, end: F64) -> None:
        """Append the slices that these launches end, in order of start; times in seconds."""
        if (end < start).any():
            row = int(np.flatnonzero(end < start)[0])
            self._source.refuse(
                f"is damaged: kernel {launches.kernel[row][:80]!r} ends before it starts; "
                "export it again"
            )
        ends = np.maximum(np.maximum.accumulate(end), self._boundary)
        before = np.concatenate([[self._boundary], ends[:-1]])
        self._boundary = float(ends[-1])
        time = ends - before
        times = {
            "time": time,
            "gpu_time": end - start,
            "cpu_time": np.minimum(np.maximum(start - before, 0.0), time),
            "start": start,
        }
        self._last = replace(launches, process=self._process, metrics={**times, **launches.metrics})
        self._launches.add(self._last)

    def finish(self, end: float) -> None:
        """Append the process's last slice, which ends at `end` (seconds), with the recording."""
        assert self._last is not None
        rest, start = np.array([max(end - self._boundary, 0.0)]), np.array([self._boundary])
        nothing = {name: np.zeros(1) for name in self._last.metrics}
        sizes, nowhere = np.zeros((1, 3), np.int64), np.array([-1])
        self._launches.add(
            Launches(
                kernel=[EXIT_KERNEL],
                grid=sizes,
                block=sizes,
                device=nowhere,
                stream=nowhere,
                metrics={**nothing, "time": rest, "cpu_time": rest, "start": start},
                ranges=None if self._last.ranges is None else [""],
                process=self._process,
            )
        )


class Kernels:
    """The kernels of a file that does not give them in order, as numbers. The caller interns their
    names."""

    COST = 200
    """Bytes of memory a kernel takes."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._name: list[str] = []
        self._times, self._places, self._shapes = array("d"), array("q"), array("q")

    def __len__(self) -> int:
        return len(self._name)

    def add(
        self,
        name: str,
        start: float,
        duration: float,
        *,
        device: int = 0,
        stream: int = 0,
        shape: Sequence[int] = (0, 0, 0, 0, 0, 0),
    ) -> None:
        """Append a kernel; `shape`: grid in work-items, and block."""
        self._source.hold(self.COST)
        self._name.append(name)
        self._times.extend((start, duration))
        self._places.extend((device, stream))
        self._shapes.extend(shape)

    @property
    def first(self) -> float:
        """The first start."""
        return min(self._times[::2])

    def order(self) -> I64:
        """The kernels in order of their starts."""
        return np.argsort(np.array(self._times)[::2], kind="stable")

    def write(
        self,
        writer: ImportWriter,
        first: float,
        last: float,
        unit: float,
        *,
        metrics: Mapping[str, F64] = MappingProxyType({}),
        ranges: Sequence[str] | None = None,
    ) -> None:
        """Write one process whose recording lasted from `first` to `last`, in units of `unit`
        seconds; `metrics` and `ranges` are in `order`."""
        order = self.order()
        begin, duration = np.array(self._times).reshape(-1, 2)[order].T
        start = (begin - first) * unit
        place = np.array(self._places).reshape(-1, 2)[order]
        shape = np.array(self._shapes).reshape(-1, 6)[order]
        launches = Launches(
            kernel=[self._name[i] for i in order],
            grid=shape[:, :3],
            block=shape[:, 3:],
            device=place[:, 0],
            stream=place[:, 1],
            metrics=metrics,
            ranges=ranges,
        )
        timeline = Timeline(self._source, writer)
        timeline.begin(0.0)
        timeline.add(launches, start, start + duration * unit)
        timeline.finish((last - first) * unit)
