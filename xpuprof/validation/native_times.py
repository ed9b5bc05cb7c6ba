# SPDX-License-Identifier: Apache-2.0
"""Times of a profile's slices in native runs, also where those launched another sequence.

Then the slices are aligned. A slice that only the native run has counts as part of the next one
that both have; one that only the profile has took no time natively. Start-up is start-up in both,
whichever kernel ends it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from xpuprof.arrays import F64, I64
from xpuprof.errors import InputError, TraceError
from xpuprof.trace.processes import Job, job_of
from xpuprof.trace.sequence import RACES, STEADY, TAKE_TURNS, VARIES, first_difference
from xpuprof.trace.tables import Execution
from xpuprof.validation.align import Alignment, align
from xpuprof.validation.ends import Ends

FEW = 0.01
"""Share of launches by other threads that does not matter."""


@dataclass(frozen=True)
class Mismatch:
    """How a native run's launches differ from the profile's."""

    first: str
    """The first slice that differs, as in the profile and as in the native run; empty if only the
    threads that launched them do."""
    matched: int
    slices: int
    native: int
    """Slices of the native run."""


@dataclass(frozen=True, eq=False)
class NativeTimes:
    """A native run's times of a profile's slices, or why it has none."""

    execution: Execution
    times: F64 | None
    """float64[slices of the profile], seconds."""
    mismatch: Mismatch | None = None
    reason: str = ""

    @property
    def left_out(self) -> str:
        """A sentence on a run without times; empty otherwise."""
        if self.times is not None:
            return ""
        # What was lost stands in the reason why the whole run is partial.
        lost = bool(self.execution.losses)
        why = ", because its recording is incomplete" if lost else f": {self.reason}"
        return f"{self.execution.name} is left out{why}"


def native_times(profiled: Job, natives: Iterable[Execution]) -> Iterator[NativeTimes]:
    """The times of each native run; those that were cut short or have no slice of the profile have
    none."""
    for native in natives:
        try:
            yield NativeTimes(native, *times_on(profiled, native))
        except (TraceError, InputError) as error:
            yield NativeTimes(native, None, reason=_reason(native, error))


def _reason(native: Execution, error: Exception) -> str:
    """Why it has no times: what cut it short explains what it lacks."""
    return next(filter(None, [*native.losses, native.record.reason, str(error)]))


def times_on(profiled: Job, native: Execution) -> tuple[F64, Mismatch | None]:
    """float64[slices of the profile], seconds, and how the launches differ, if they do.

    Raises TraceError when the run was cut short, InputError when it has no slice of the profile.
    """
    job = job_of(native, profiled.keys if profiled.several else ())
    times = job.times()
    if _calls(job) == _calls(profiled):
        turns = _turns(profiled, job)
        if turns or job.launched_like(profiled):
            return times, turns
    found = align(profiled.slices, job.slices)
    if found.same:  # they differ in sizes that one of them does not know
        return times, None
    matched = int((found.match >= 0).sum())
    if not matched:
        raise InputError(
            f"{native.name} launched none of the profile's kernels; record the program again"
        )
    first = first_difference(profiled.slices, job.slices)
    starts = Ends.of(profiled.slices).counterparts(Ends.of(job.slices))
    return _moved(found, times, starts), Mismatch(first, matched, len(found.match), found.slices_b)


def different_sequences(found: Sequence[Mismatch | None]) -> list[str]:
    """A sentence on the native runs' mismatches, one entry per run: whose they are, the first, and
    the remedy."""
    differing = [mismatch for mismatch in found if mismatch and mismatch.first]
    if not differing:
        return _other_turns([mismatch for mismatch in found if mismatch])
    least = min(differing, key=lambda mismatch: mismatch.matched)
    if len(found) > 1 and len(set(differing)) == 1 and len(differing) == len(found):
        whose = "the program launches other kernels under the profile than natively"
        remedy = "let its launches not depend on time, on the device's speed or on its properties"
    else:
        whose, remedy = VARIES, STEADY
    return [f"{whose} ({least.first}), so {_consequence(least)}; {remedy}"]


def _turns(profiled: Job, native: Job) -> Mismatch | None:
    """Which launches other threads made, if more than FEW."""
    same = total = 0
    for pair in zip(profiled.processes, native.processes, strict=True):
        launches = min(process.sums.of_launches for process in pair)
        total += launches
        if pair[0].order.turns == pair[1].order.turns:
            same += launches
        else:
            one, other = (process.recording.launch_threads()[:launches] for process in pair)
            same += int((one == other).sum())
    return Mismatch("", same, total, total) if total - same > FEW * total else None


def _other_turns(found: Sequence[Mismatch]) -> list[str]:
    if not found:
        return []
    share = 100 * (1 - min(found, key=lambda own: own.matched).matched / found[0].slices)
    return [
        f"{RACES}: another thread than in the profile ended {share:.0f} % of the slices, whose "
        f"times may be those of other work; {TAKE_TURNS}"
    ]


def _consequence(found: Mismatch) -> str:
    if found.matched < found.slices:
        return f"only {found.matched:,} of the profile's {found.slices:,} slices were matched"
    if more := found.native - found.slices:
        count = f"{more:,} slices that only it has" if more > 1 else "the slice that only it has"
        return f"the native run's times of the profile's slices include {count}"
    return "some slices were matched with those of other kernels or grids"


def _calls(job: Job) -> list[tuple[int, dict[str, int]]]:
    """Slices and calls of each kernel, by process; known without decoding the launches."""
    return [
        (p.sums.slices, {name: own.calls for name, own in p.sums.kernels.items()})
        for p in job.processes
    ]


def _moved(found: Alignment, times: F64, starts: tuple[I64, I64]) -> F64:
    """Times of the other run's slices, added up on those that they belong to. `starts`: first rows
    of the processes, in the profile and in the other run."""
    both = np.flatnonzero(found.match >= 0)
    there = found.match[both]
    nearest = np.searchsorted(there, np.arange(found.slices_b)).clip(max=len(there) - 1)
    owner = both[nearest]
    owner[starts[1]] = starts[0]
    moved = np.zeros(len(found.match))
    np.add.at(moved, owner, times)
    return moved
