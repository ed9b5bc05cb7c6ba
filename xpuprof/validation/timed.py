# SPDX-License-Identifier: Apache-2.0
"""A run with a time for every slice, from any source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote

import numpy as np
import pandas as pd

from xpuprof.arrays import F64, I64
from xpuprof.errors import InputError, TraceError, listed, series
from xpuprof.estimation.typical_times import typical_times
from xpuprof.selection.selection import Selection
from xpuprof.trace.imported import ImportedSlices
from xpuprof.trace.kinds import Key
from xpuprof.trace.processes import (
    Job,
    job_of,
    keys_of_table,
    labels_of,
    layout_of,
    matched,
    named,
)
from xpuprof.trace.run import Run
from xpuprof.trace.sequence import RACES, STEADY, TAKE_TURNS, VARIES, first_difference
from xpuprof.trace.tables import Execution


@dataclass(frozen=True, eq=False)
class Timed:
    """`slices` as `trace.tables.Process.slices`; `times` is float64[repeats, slices], seconds."""

    name: str
    slices: pd.DataFrame
    times: F64
    keys: tuple[Key, ...] = ()
    """Processes in slice order; `slices` of several have a column `process`. Empty if processes are
    unknown."""
    window: str = ""
    """The part of the program that was timed; empty for all of it."""
    doubts: tuple[str, ...] = ()
    """Reasons to doubt the times, one sentence each."""

    @property
    def mean(self) -> F64:
        """Typical time of every slice over the repeats, seconds."""
        return typical_times(self.times)

    @property
    def owners(self) -> I64:
        """The number of every slice's process, ascending."""
        if "process" not in self.slices:
            return np.zeros(len(self.slices), dtype=np.int64)
        return self.slices["process"].to_numpy().astype(np.int64)

    @property
    def labels(self) -> dict[int, str]:
        """Name of each process number, if there are several."""
        if len(self.keys) < 2:
            return {}
        numbers = pd.unique(self.owners).tolist()
        return {number: key.label for number, key in zip(numbers, self.keys, strict=True)}


def open_timed(path: str | Path, metric: str = "time") -> Timed:
    """The timer runs of a run directory, or a time-like metric of an imported one, in its unit.

    Raises TraceError when it is not a run directory or has no times.
    """
    folder = Path(path)
    run = Run.open(folder)
    if ImportedSlices.present(folder):
        imported = ImportedSlices(folder)
        if metric not in imported.metrics:
            others = f"name one that it has with --metric: {listed(imported.metrics)}"
            raise TraceError(
                f"{folder} was imported without {metric}; "
                + (others if imported.metrics else "import a profile with durations")
            )
        times = np.asarray(imported.column(metric), dtype=np.float64)[None, :]
        table = imported.table()
        return Timed(str(folder), table, times, keys_of_table(table))
    if metric != "time":
        raise TraceError(
            f"{folder} was recorded, so its only metric is time; {metric} needs an import"
        )
    if not run.times:
        raise TraceError(
            f"{folder} holds no timer run; make one with: xpuprof time -o DIR -- ./app args"
        )
    return from_executions(str(folder), run.times)


def from_executions(name: str, executions: Sequence[Execution]) -> Timed:
    """Repeats of one program: those that launched one sequence, the most common one."""
    first = job_of(executions[0])
    like = first.keys if first.several else ()  # a single process may have a rank as well
    jobs = [first, *(job_of(execution, like) for execution in executions[1:])]
    alike, doubts = _alike(jobs)
    times = np.stack([job.times() for job in alike])
    window = alike[0].processes[0].window
    return Timed(name, alike[0].slices, times, alike[0].keys, window.spec if window else "", doubts)


def _alike(jobs: Sequence[Job]) -> tuple[list[Job], tuple[str, ...]]:
    """The jobs of the most common sequence (the first one's of several), and a sentence if there
    are others, whose slice times cannot be averaged with theirs."""
    groups: dict[tuple[str, ...], list[Job]] = {}
    for job in jobs:
        groups.setdefault(tuple(key.digest for key in job.keys), []).append(job)
    alike, *others = sorted(groups.values(), key=len, reverse=True)
    if not others:
        return alike, ()
    other = others[0][0]
    where = first_difference(alike[0].slices, other.slices)
    taken = series([job.execution.name for job in alike], "and")
    raced = alike[0].launched_like(other)
    whose, remedy = (RACES, TAKE_TURNS) if raced else (VARIES, STEADY)
    return alike, (f"{whose} ({where}), so its times are those of {taken} alone; {remedy}",)


def require_same_part(selection: Selection, window: str, name: str) -> None:
    """Raises InputError unless `window`, the part that `name` times, is the selection's: slices of
    another part would be taken for those of the selection."""
    if window == selection.window:
        return
    option = f"with --window {quote(selection.window)}" if selection.window else "without --window"
    raise InputError(
        f"the selection covers {_part(selection.window)}, but {name} covers {_part(window)}; time "
        f"the same part, {option}"
    )


def _part(window: str) -> str:
    return f"the window {window}" if window else "the whole program"


def arranged(timed: Timed, selection: Selection) -> Timed:
    """`timed` with its processes in the selection's order; the column `process` then holds the
    selection's numbers. Processes missing from the selection come last, or are dropped if the
    selection covers only part of the job. Raises InputError for one process among several.
    """
    wanted = selection.identity.processes
    if not wanted and len(timed.keys) > 1:
        raise InputError(
            f"the selection covers one process, but {timed.name} has {len(timed.keys)} with device "
            "work: select from a run of the whole job"
        )
    if not wanted:
        return timed
    found = timed.keys or keys_of_table(timed.slices.assign(process=0))
    places = matched(wanted, found)
    order = [(number, place) for number, place in enumerate(places) if place is not None]
    if selection.identity.of in (None, len(wanted)):
        others = [place for place in range(len(found)) if place not in places]
        order += [(len(wanted) + i, place) for i, place in enumerate(others)]
    if all(place is None for place in places):
        command = " ".join(selection.identity.arguments)
        raise InputError(
            f"{named(wanted)} of the selection had no device work in {timed.name}, which had it in "
            f"{named(found)}; run the whole job, with as many processes as were profiled"
            + (f": {command}" if command else "")
        )
    layout = layout_of(found)
    rows = [layout.rows(place) for _, place in order]
    every = np.concatenate(rows)
    numbers = np.repeat([number for number, _ in order], [len(part) for part in rows])
    slices = timed.slices.iloc[every].reset_index(drop=True).assign(process=numbers)
    if "slice" in slices:
        slices["slice"] = np.arange(len(slices))
    labels = labels_of([found[place].rank for _, place in order])
    keys = tuple(
        replace(found[p], label=label) for (_, p), label in zip(order, labels, strict=True)
    )
    return replace(timed, slices=slices, times=timed.times[:, every], keys=keys)
