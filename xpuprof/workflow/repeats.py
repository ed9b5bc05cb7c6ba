# SPDX-License-Identifier: Apache-2.0
"""How often `run` and `validate` time the program, and whether the user's execution counts too.

Slice times are medians over native runs. `auto` takes three, or a few more if they differ, and lets
the user's execution be one of them unless it stands out: caches of a device runtime are cold for it
and warm for the others (docs/launch.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from xpuprof.engines.base import Timer
from xpuprof.errors import TraceError
from xpuprof.estimation.typical_times import ENOUGH_FOR_MEDIAN, Repeats, first_stands_out
from xpuprof.launch import execute
from xpuprof.launch.ending import Ending
from xpuprof.trace.spilled import Spilled
from xpuprof.workflow.prepare import Prepared

Repeat = int | Literal["auto"]

MOST_REPEATS, KNOWN_SPREAD = 5, 0.02
"""`auto` ends at this many repeats, or when enough of them are this close together: the median of
three is then known to within 1 %."""

NATIVE_RUNS, SPARE = 4, 0.25
"""`auto` executes the program natively this often, the user's execution included; more often only
while the further runs take fewer seconds than SPARE."""

BESIDE_FIRST = ENOUGH_FOR_MEDIAN - 1
"""Timer runs after which it is known whether the user's execution counts."""


def limits(repeat: Repeat) -> tuple[int, int]:
    """The least and the greatest number of timer runs."""
    return (BESIDE_FIRST, MOST_REPEATS) if repeat == "auto" else (repeat, repeat)


def timer_runs(
    ready: Prepared, first: Ending, last: Ending, timer: Timer, repeat: Repeat
) -> Ending:
    """The timer runs. `first`: the ending of the user's execution, `last`: of the last one so far;
    returns the new last one."""
    taken = 0
    seconds: list[float] = []
    while last.undisturbed and not enough(seconds, repeat, 1 + taken):
        last = execute.time(ready.writer, ready.program, ready.source, timer, taken, user=False)
        taken += 1
        seconds.append(last.wall_s)
        # The user's execution is never delayed by a timer that waits for kernels.
        decided = taken == BESIDE_FIRST and repeat == "auto" and timer == "async"
        if decided and last.undisturbed and _first_counts(ready):
            seconds.append(first.wall_s)
    return last


def enough(seconds: Sequence[float], repeat: Repeat, native: int) -> bool:
    """Whether repeats that took `seconds` suffice after `native` native runs in all."""
    if repeat != "auto":
        return len(seconds) >= repeat
    if len(seconds) < ENOUGH_FOR_MEDIAN:
        return False
    known = max(seconds) <= (1 + KNOWN_SPREAD) * min(seconds)
    further = (native + 1 - NATIVE_RUNS) * float(np.median(seconds))
    return known or len(seconds) >= MOST_REPEATS or further > SPARE


def _first_counts(ready: Prepared) -> bool:
    """Makes the user's execution a timer run if it is like the two after it."""
    # Loaded during the profile; `validate` does without.
    from xpuprof.trace.processes import job_of

    first, *others = ready.writer.opened().native
    try:
        job = job_of(first)
        jobs = [job, *(job_of(other, job.keys if job.several else ()) for other in others)]
        if not all(other.launched_like(job) for other in jobs):
            return False
        with Spilled() as kept:
            for one in jobs:
                kept.add(one.times())
            if first_stands_out(Repeats(kept.length, kept.sums, kept.read)):
                return False
    except TraceError:  # other processes in each run; the report says so
        return False
    ready.writer.amend(first.name, {"role": "time"})
    return True
