# SPDX-License-Identifier: Apache-2.0
"""Processes made of tables, without streams."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from xpuprof.trace.records import ProcessMeta
from xpuprof.trace.sums import Sums
from xpuprof.trace.tables import CpuVectors, DeviceWork, Process, Tables


@dataclass(frozen=True, eq=False)
class MadeUp:
    """Tables of a process without stamps, whose last slice is its exit; see tables.Recording."""

    made: Tables
    cpu: CpuVectors | None

    def tables(self) -> Tables:
        return self.made

    def cpu_pieces(self) -> Iterator[CpuVectors] | None:
        return None if self.cpu is None else iter([self.cpu])

    def launches(self) -> pd.DataFrame:
        return self.made.slices.iloc[:-1]

    def launch_threads(self) -> npt.NDArray[np.uint32]:
        return np.ones(len(self.made.slices) - 1, np.uint32)

    def fill_completions(self, ticks: npt.NDArray[np.int64]) -> None:
        pass

    def device_work(self, ticks: npt.NDArray[np.float64]) -> DeviceWork:
        ticks[:] = np.nan
        return DeviceWork(np.zeros(len(ticks), np.int8), ["k"], np.empty(0, np.int64))

    def last_stamp(self) -> int:
        return 0


def process_from(
    tables: Tables,
    cpu: CpuVectors | None = None,
    name: str = "p",
    meta: ProcessMeta | None = None,
) -> Process:
    """A complete process with these tables and CPU vectors."""
    slices, launches = len(tables.slices), len(tables.slices) - 1
    counted = tables.slices.get("cpu_instructions", np.zeros(1)).sum()
    sums = Sums(
        slices=slices,
        launches=launches,
        seen=launches,
        of_slices=slices,
        of_launches=launches,
        cpu_instructions=int(counted),
    )
    return Process(name, meta or ProcessMeta(), True, sums, MadeUp(tables, cpu))


def with_tables(process: Process, **tables: Any) -> Process:
    """The process with other tables, or other CPU vectors (`cpu`)."""
    cpu = tables.pop("cpu", process.cpu)
    return process_from(replace(process.tables, **tables), cpu, process.name, process.meta)
