"""A run with a time for every slice, whoever measured it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from xpuprof.errors import InputError, TraceError
from xpuprof.sampling.identity import KIND_COLUMNS, with_kind_columns
from xpuprof.sampling.times import typical_times
from xpuprof.timing.slices import main_process, slice_times
from xpuprof.trace.imported import ImportedSlices
from xpuprof.trace.run import Run
from xpuprof.trace.tables import Execution

F64 = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Timed:
    """`slices` as `trace.tables.Process.slices`; `times` is float64[repeats, slices], seconds."""

    name: str
    slices: pd.DataFrame
    times: F64
    machine: dict[str, Any] = field(default_factory=dict)

    @property
    def mean(self) -> F64:
        """Typical time of every slice over the repeats, seconds."""
        return typical_times(self.times)


def open_timed(path: str | Path, metric: str = "time") -> Timed:
    """The timer runs of a run directory, or a time-like metric of an imported one, in its unit.

    Raises TraceError when it is no run directory or holds no times, InputError as
    `from_executions`.
    """
    folder = Path(path)
    run = Run.open(folder)
    if ImportedSlices.present(folder):
        imported = ImportedSlices(folder)
        if metric not in imported.metrics:
            raise TraceError(
                f"{folder} was imported without {metric}; it has {', '.join(imported.metrics)}"
            )
        times = np.asarray(imported.column(metric), dtype=np.float64)[None, :]
        return Timed(str(folder), imported.table(), times, dict(run.manifest["machine"]))
    if metric != "time":
        raise TraceError(f"{folder} has the metric time alone; {metric} is of imported profiles")
    if not run.times:
        raise TraceError(f"{folder} holds no timer run; make one with `xpuprof time -- ./app args`")
    return from_executions(str(folder), run.times, dict(run.manifest["machine"]))


def from_executions(name: str, executions: Sequence[Execution], machine: dict[str, Any]) -> Timed:
    """Repeats of one program. InputError when they did not launch the same sequence."""
    processes = [main_process(execution) for execution in executions]
    first = with_kind_columns(processes[0].slices)
    for execution, process in zip(executions[1:], processes[1:], strict=True):
        other = with_kind_columns(process.slices)
        if len(other) != len(first) or not (other.to_numpy() == first.to_numpy()).all():
            raise InputError(
                f"{name}: {execution.name} launched another sequence of kernels than "
                f"{executions[0].name} ({_first_difference(first, other)}), so slice times cannot "
                "be averaged; use --repeat 1"
            )
    times = np.stack(
        [
            slice_times(execution, process)
            for execution, process in zip(executions, processes, strict=True)
        ]
    )
    return Timed(name, processes[0].slices, times, machine)


def _first_difference(a: pd.DataFrame, b: pd.DataFrame) -> str:
    shorter = min(len(a), len(b))
    left, right = a.to_numpy(dtype=object)[:shorter], b.to_numpy(dtype=object)[:shorter]
    differs = left != right
    if not differs.any():
        return f"{len(a)} and {len(b)} slices"
    row, column = (int(n) for n in np.argwhere(differs)[0])
    return f"slice {row}: {KIND_COLUMNS[column]} {left[row, column]} and {right[row, column]}"
