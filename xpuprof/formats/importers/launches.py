# SPDX-License-Identifier: Apache-2.0
"""Launches by columns, on their way into a run. Every importer that has launches writes them
here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from xpuprof.arrays import F64, I64
from xpuprof.inputs import Source
from xpuprof.trace.imported import ImportWriter

GRID = ("gx", "gy", "gz")
BLOCK = ("lx", "ly", "lz")


@dataclass(frozen=True, eq=False)
class Launches:
    """A chunk of launches of one process."""

    kernel: Sequence[str]
    grid: I64
    """Work-items as in OpenCL and recorded runs, launches x 3; 0: unknown."""
    block: I64
    """Work-items a group, launches x 3; 0: unknown."""
    device: I64
    stream: I64
    metrics: Mapping[str, F64]
    ranges: Sequence[str] | None = None
    process: int = 0


def work_items(groups: I64, block: I64) -> I64:
    """The grid of launches whose tool counts work-groups (CUDA's blocks)."""
    return groups * np.maximum(block, 1)


class LaunchWriter:
    """Numbers the calls of each kernel and appends launches to an ImportWriter."""

    def __init__(self, source: Source, writer: ImportWriter) -> None:
        self._source = source
        self._writer = writer
        self._calls: dict[str, int] = {}
        self._process = 0

    def add(self, launches: Launches) -> None:
        """Append a chunk. Call numbers restart with each process."""
        if launches.process != self._process:
            self._process, self._calls = launches.process, {}
        columns: dict[str, npt.NDArray[Any]] = {
            "kernel": self._writer.codes("kernel", launches.kernel),
            "call": self._number(launches.kernel),
            "process": np.full(len(launches.kernel), launches.process, np.int32),
            "device": launches.device.astype(np.int32),
            "stream": launches.stream.astype(np.int32),
        }
        columns |= {name: launches.grid[:, i] for i, name in enumerate(GRID)}
        columns |= {name: launches.block[:, i].astype(np.int32) for i, name in enumerate(BLOCK)}
        if launches.ranges is not None:
            columns["range"] = self._writer.codes("range", launches.ranges)
        self._writer.append({**columns, **launches.metrics})

    def _number(self, kernels: Sequence[str]) -> npt.NDArray[np.int32]:
        calls = np.empty(len(kernels), dtype=np.int32)
        known = self._calls
        for i, kernel in enumerate(kernels):
            calls[i] = call = known[kernel] = known.get(kernel, 0) + 1
            if call == 1:
                self._source.hold_name(kernel)
        return calls
