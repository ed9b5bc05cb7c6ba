# SPDX-License-Identifier: Apache-2.0
"""The processes of an execution to select slices from, as one table in a repeatable order.

Processes are identified by rank if a launcher (mpirun, srun, torchrun) assigned one. Others are
identified by their launches, and those with equal launches by their order of creation in the
process tree, since process numbers do not repeat. Processes without device work (launchers, shells,
waiting parents) are left out, unless no process has any.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np

from xpuprof.arrays import F64
from xpuprof.errors import TraceError
from xpuprof.trace.coordinates import JobLayout
from xpuprof.trace.kinds import Key, LaunchSequence
from xpuprof.trace.sequence import joined_sequences, launch_sequence
from xpuprof.trace.slice_times import main_process, slice_times
from xpuprof.trace.sums import Sums, total
from xpuprof.trace.tables import Execution, Process

if TYPE_CHECKING:
    import pandas as pd


def keys_of_table(slices: pd.DataFrame) -> tuple[Key, ...]:
    """The processes of a slice table by its column `process`, whose rows are contiguous; empty
    without that column."""
    if "process" not in slices or not len(slices):
        return ()
    owners = slices["process"].to_numpy()
    cuts = np.flatnonzero(owners[1:] != owners[:-1]) + 1
    pieces = np.split(np.arange(len(slices)), cuts)
    return tuple(
        Key(f"process{i}", None, launch_sequence(slices.iloc[rows]).digest, len(rows))
        for i, rows in enumerate(pieces)
    )


def layout_of(keys: Iterable[Key]) -> JobLayout:
    """How a job's slices are divided among its processes."""
    return JobLayout(tuple(key.slices for key in keys))


@dataclass(frozen=True, eq=False)
class Job:
    """The working processes of an execution, in order. Usually there is one, and its slices span
    the whole execution; `own_lives` tells otherwise."""

    execution: Execution
    processes: tuple[Process, ...]

    @property
    def several(self) -> bool:
        """Whether there are several processes."""
        return len(self.processes) > 1

    @property
    def own_lives(self) -> bool:
        """Whether slices span each process's own start to end: there are several processes, or
        others may run before and after the chosen one (`--process`)."""
        return self.several or bool(self.execution.record.filters.get("processes"))

    @cached_property
    def _sequences(self) -> list[LaunchSequence]:
        """What each process launched."""
        return [launch_sequence(process.slices) for process in self.processes]

    @property
    def sequence(self) -> LaunchSequence:
        """What the processes launched, one after the other."""
        own = self._sequences
        return own[0] if len(own) == 1 else joined_sequences(own)

    @cached_property
    def keys(self) -> tuple[Key, ...]:
        """One key per process."""
        labels = labels_of([process.rank for process in self.processes])
        return tuple(
            Key(label, p.rank, own.digest, p.sums.slices)
            for label, p, own in zip(labels, self.processes, self._sequences, strict=True)
        )

    def launched_like(self, other: Job) -> bool:
        """Whether both launched the same in turn, each thread or all together, in each process;
        known without decoding the launches."""
        return any(
            sorted((own.sums.slices, number(own)) for own in self.processes)
            == sorted((own.sums.slices, number(own)) for own in other.processes)
            for number in map(attrgetter, ("order.by_thread", "order.sequence"))
        )

    @property
    def layout(self) -> JobLayout:
        """How the slices are divided among the processes."""
        return JobLayout(tuple(process.sums.slices for process in self.processes))

    @cached_property
    def sums(self) -> Sums:
        """Sums over all processes."""
        return total(process.sums for process in self.processes)

    @cached_property
    def slices(self) -> pd.DataFrame:
        """Slices of all processes, concatenated, with `slice` numbered consecutively; several
        processes have a column `process`, the index in the job."""
        if not self.several:
            return self.processes[0].slices
        return slices_of(self.processes)

    def times(self) -> F64:
        """float64[slices], seconds. Raises TraceError when a stamp is missing."""
        times = [slice_times(self.execution, p, own=self.own_lives) for p in self.processes]
        return times[0] if len(times) == 1 else np.concatenate(times)


def slices_of(processes: Sequence[Process]) -> pd.DataFrame:
    """The slices of several processes; see Job."""
    from xpuprof.trace.name_columns import joined  # loads pandas; times and sums do without

    whole = joined([process.slices.assign(process=i) for i, process in enumerate(processes)])
    return whole.assign(slice=np.arange(len(whole)))


def job_of(execution: Execution, like: Sequence[Key] = ()) -> Job:
    """The job of an execution; with `like`, in the order of those processes, which must be
    complete.

    Raises TraceError when one of them is missing or there are others.
    """
    working = [process for process in execution.processes if process.sums.launches]
    job = Job(execution, tuple(sorted(working, key=_place)) or (main_process(execution),))
    if len(like) <= 1 and not job.several:
        return job
    found = matched(like, job.keys) if like else list(range(len(job.keys)))
    if None in found or len(found) != len(job.keys):
        raise TraceError(
            f"{execution.name} had device work in {named(job.keys)}, but {named(like)} had it "
            "in the execution compared with it; run the job with the same number of "
            "processes"
        )
    return Job(execution, tuple(job.processes[i] for i in found if i is not None))


def matched(wanted: Sequence[Key], found: Sequence[Key]) -> list[int | None]:
    """For each of `wanted`, the index of the same process in `found`, or None.

    Within a rank (or without ranks), processes with equal launches are matched first, in order; the
    others follow in order.
    """
    if len(wanted) == len(found) == 1:
        return [0]
    result: list[int | None] = [None] * len(wanted)
    for exact in (True, False):
        for place, key in enumerate(wanted):
            if result[place] is None:
                result[place] = next(
                    (
                        i
                        for i, other in enumerate(found)
                        if i not in result
                        and other.rank == key.rank
                        and (other.digest == key.digest or not exact)
                    ),
                    None,
                )
    return result


def labels_of(ranks: Sequence[int | None]) -> list[str]:
    """`rank3`; for several processes of a rank `rank3-0`, `rank3-1`; without ranks `process0`."""
    labels = []
    for place, rank in enumerate(ranks):
        if rank is None:
            labels.append(f"process{place}")
        elif ranks.count(rank) == 1:
            labels.append(f"rank{rank}")
        else:
            labels.append(f"rank{rank}-{ranks[:place].count(rank)}")
    return labels


def _place(process: Process) -> tuple[int, str, list[tuple[int, int]]]:
    """Order of the job: by rank, then by creation in the process tree (parents first, then by the
    start of the branch in kernel ticks, then by number)."""
    rank = -1 if process.rank is None else process.rank
    return rank, process.meta.get("host", ""), list(process.meta.ancestry[::-1])


def named(keys: Iterable[Key]) -> str:
    """Labels for a message; only the first four of many."""
    labels = [key.label for key in keys]
    return (", ".join(labels[:4]) + (", ..." if len(labels) > 4 else "")) or "one process"
