# SPDX-License-Identifier: Apache-2.0
"""A run directory in the Python API: tables, selections, estimates."""

from __future__ import annotations

import html
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from xpuprof.arrays import F64
from xpuprof.errors import InputError, XpuprofError
from xpuprof.estimation import intervals
from xpuprof.estimation.estimate import Estimate
from xpuprof.estimation.typical_times import typical_times
from xpuprof.methods import registry
from xpuprof.selection.origin import require_origin
from xpuprof.selection.selection import Selection
from xpuprof.trace import run as trace
from xpuprof.trace.coordinates import NO_KERNELS
from xpuprof.trace.device_times import device_times
from xpuprof.trace.imported import ImportedSlices
from xpuprof.workflow.select import Request, select_subject
from xpuprof.workflow.subjects import Subject, open_subject

_SHOWN = 20
"""Kernels that a notebook shows."""


class Run(trace.Run):
    """A run directory, recorded or imported; `xpuprof.open` returns one.

    Tables are decoded on first use. docs/run-directory.md describes `status`, `reason`, `manifest`,
    `profile` and `times`.
    """

    @property
    def imported(self) -> bool:
        """Whether the profile comes from another tool."""
        return ImportedSlices.present(self.path)

    @cached_property
    def subject(self) -> Subject:
        """What methods select from. Raises InputError if the run holds no profile."""
        return open_subject(self)

    @property
    def metric(self) -> str:
        """The metric of `slice_times`: `time`, or the time-like metric of an import."""
        return self.subject.metric

    @property
    def slice_times(self) -> F64 | None:
        """float64[repeats, slices], seconds (cycles for an import without times); None without
        timer runs of these slices."""
        return self.subject.times

    @cached_property
    def slices(self) -> pd.DataFrame:
        """One row per slice: kernel, call (1-based), grid, instructions, and `time` if timed: the
        median of the timer runs, scaled so that all slices add up to the median run's time,
        seconds. Imports have their metrics as columns.

        Raises InputError if the run holds no profile.
        """
        profile = self.subject.profile
        if self.imported:
            return profile.slices.assign(**profile.metrics)
        if self.slice_times is None:
            return profile.slices
        return profile.slices.assign(time=typical_times(self.slice_times))

    @cached_property
    def kernels(self) -> pd.DataFrame:
        """One row per kernel, by decreasing share: calls, time of its slices (of a recording that
        includes the CPU's work before each launch), time on the device if it was stamped, the share
        of the device's time or else of the slices', instructions if known."""
        stamped = None if self.imported else device_times(self.executions)
        return kernel_table(self.slices, self.metric, stamped.seconds if stamped else None)

    @property
    def selection(self) -> Selection | None:
        """The selection in the run directory's `selection.json`, or None."""
        path = self.path / "selection.json"
        return Selection.read(path) if path.exists() else None

    def select(self, method: str | None = None, *, seed: int = 1, **options: Any) -> Selection:
        """Choose representatives; `options` are the method's own (docs/sampling.md).

        Nothing is written; use `Selection.write`. Raises UsageError for an unknown method or
        option, InputError if the run lacks what the method needs.
        """
        method = method or registry.fitting(self.subject.profile)[0]
        request = Request(method, options, seed)
        return select_subject(self.subject, request)

    def estimate(
        self, selection: Selection | str | Path | None = None, confidence: float = 0.95
    ) -> Estimate:
        """The run's total time as `selection` projects it, with its interval.

        `selection`: one, or its file; the default is the run directory's. Raises InputError if
        there is none, it is another run's, or there is no timer run.
        """
        if isinstance(selection, str | Path):
            selection = Selection.read(selection)
        chosen = selection or self.selection
        if chosen is None:
            raise InputError(f"{self.path} holds no selection; make one with run.select(...)")
        if selection is not None:
            require_origin(chosen, self)
        if self.slice_times is None:
            raise InputError(f"{self.path} holds no timer run; make one with xpuprof.time(...)")
        return intervals.estimate(chosen, self.slice_times, confidence)

    def __repr__(self) -> str:
        kind = "imported" if self.imported else f"of {' '.join(map(str, self.manifest['argv']))}"
        why = f" ({self.reason})" if self.reason else ""
        return f"<xpuprof.Run {self.path}: {self.status}{why}, {kind}>"

    def _repr_html_(self) -> str:
        said = f"<p>{html.escape(repr(self))}</p>"
        try:
            kernels = self.kernels.rename(index=NO_KERNELS)
        except XpuprofError as error:  # timer runs alone, or nothing finished
            return f"{said}<p>{html.escape(str(error))}</p>"
        if "share" in kernels:
            kernels["share"] = [f"{100 * share:.2f} %" for share in kernels["share"]]
        return said + kernels.to_html(max_rows=_SHOWN)


def kernel_table(
    slices: pd.DataFrame, metric: str, device_time: Mapping[str, float] | None = None
) -> pd.DataFrame:
    """Slices summed by kernel, by decreasing `device_time` (by kernel, seconds), else `metric`,
    instructions or calls."""
    groups = slices.groupby("kernel", sort=False, observed=True)
    columns = {"calls": groups.size()}
    columns |= {
        name: groups[name].sum()
        for name in (metric, "gpu_instructions", "cpu_instructions")
        if name in slices
    }
    kernels = pd.DataFrame(columns)
    kernels.index = kernels.index.astype(str)
    if device_time:
        kernels["device_time"] = kernels.index.map(lambda name: device_time.get(name, 0.0))
    by = next(
        (name for name in ("device_time", metric, "gpu_instructions") if name in kernels), "calls"
    )
    if by in ("device_time", metric):
        kernels["share"] = kernels[by] / kernels[by].sum()
    return kernels.sort_values(by, ascending=False, kind="stable")


def open(path: str | Path) -> Run:
    """Open a run directory. Raises TraceError when it is missing, foreign, damaged or too new."""
    return Run.open(path)
