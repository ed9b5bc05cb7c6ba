# SPDX-License-Identifier: Apache-2.0
"""Times from run directories other than the profile's: separate `profile` and `time` runs, or one
directory per rank of a job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from xpuprof.arrays import F64
from xpuprof.errors import InputError
from xpuprof.trace.imported import ImportedSlices
from xpuprof.trace.kinds import Key
from xpuprof.trace.processes import Job, job_of
from xpuprof.trace.run import Run
from xpuprof.trace.slice_times import slice_times
from xpuprof.trace.tables import Execution


@dataclass(frozen=True)
class Profiled:
    """The profile that needs times: its processes in slice order, and what was recorded of their
    programs."""

    name: str
    keys: tuple[Key, ...]
    window: str
    arguments: tuple[str, ...]
    host: str


@dataclass(frozen=True, eq=False)
class Joined:
    """`times`: float64[repeats, slices], seconds, from the timer `runs`; `doubts`: differences
    between profile and timer runs of the same program, one sentence each."""

    times: F64
    runs: tuple[Execution, ...]
    doubts: tuple[str, ...]


def profiled(run: Run, job: Job) -> Profiled:
    """The profile of a run directory."""
    window = job.processes[0].window
    arguments = tuple(map(str, run.manifest["argv"]))
    host = str(run.manifest["machine"].get("host", ""))
    return Profiled(str(run.path), job.keys, window.spec if window else "", arguments, host)


def join(wanted: Profiled, folders: Sequence[Path]) -> Joined:
    """The times of the profile's slices, from the timer runs in `folders`.

    A process is matched by its rank, if any, and must have launched the profiled sequence: the same
    kernels of the same device programs, in order, with the same grids. Every process needs the same
    number of repeats; extra ones are ignored. Raises InputError when a folder has no timer run, or
    one of another window, of an unprofiled process or with other launches, and when a process has
    no times.
    """
    found: list[list[F64]] = [[] for _ in wanted.keys]
    doubts: list[str] = []
    runs: list[Execution] = []
    for folder in folders:
        run = Run.open(folder)
        if ImportedSlices.present(run.path) or not run.times:
            raise InputError(
                f"{folder} holds no timer run; make one with: xpuprof time -o DIR -- ./app args"
            )
        doubts += _differences(wanted, run)
        runs += run.times
        for execution in run.times:
            job = job_of(execution)
            _require_window(wanted, job, folder)
            taken: set[int] = set()
            for key, process in zip(job.keys, job.processes, strict=True):
                place = _place(wanted, key, taken, folder)
                taken.add(place)
                found[place].append(slice_times(execution, process, own=job.own_lives))
    for key, times in zip(wanted.keys, found, strict=True):
        if not times:
            raise InputError(
                f"--times: no timer run of {key.label} of {wanted.name}; name the folders of all "
                "ranks"
            )
    repeats = min(len(times) for times in found)
    rows = [np.concatenate([times[i] for times in found]) for i in range(repeats)]
    return Joined(np.stack(rows), tuple(runs), tuple(dict.fromkeys(doubts)))


def _place(wanted: Profiled, key: Key, taken: set[int], folder: Path) -> int:
    """The index of this process among the wanted ones."""
    alone = len(wanted.keys) == 1
    like = [i for i, k in enumerate(wanted.keys) if (alone or k.rank == key.rank)]
    for i in like:
        if i not in taken and wanted.keys[i].digest == key.digest:
            return i
    if not like:
        raise InputError(
            f"--times {folder} has times of {key.label}, which is not in {wanted.name}; omit it"
        )
    other = wanted.keys[like[0]]
    raise InputError(
        f"--times {folder}: {key.label} launched a different kernel sequence from the profile, "
        f"{wanted.name} ({key.slices} slices, profiled: {other.slices}); time the same program "
        "with the same input, or validate the selection against it with xpuprof validate"
    )


def _require_window(wanted: Profiled, job: Job, folder: Path) -> None:
    window = job.processes[0].window
    spec = window.spec if window else ""
    if spec == wanted.window:
        return
    raise InputError(
        f"--times {folder} covers {_part(spec)}, {wanted.name} {_part(wanted.window)}; "
        "time the same part (--window)"
    )


def _part(window: str) -> str:
    return f"the window {window}" if window else "the whole program"


def _differences(wanted: Profiled, run: Run) -> list[str]:
    doubts = []
    arguments = tuple(map(str, run.manifest["argv"]))
    if wanted.arguments and arguments[1:] != wanted.arguments[1:]:
        doubts.append(
            f"{run.path} was timed with different arguments: "
            f"{' '.join(arguments)} (profiled: {' '.join(wanted.arguments)})"
        )
    host = str(run.manifest["machine"].get("host", ""))
    if host != wanted.host:
        doubts.append(
            f"{run.path} was timed on {host}, but the profile was recorded on {wanted.host}"
        )
    if run.reason:
        doubts.append(f"{run.path} is {run.status}: {run.reason}")
    return doubts
