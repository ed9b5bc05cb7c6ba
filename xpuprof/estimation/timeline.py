# SPDX-License-Identifier: Apache-2.0
"""The length of a run from the order of its kernels: with streams and devices, time is no sum.

A recorded `Order` tells when each kernel started and ended, on which stream and device. A kernel is
taken to have waited for the kernel of its process that ended last before it started; what lies
between the two (host code, copies, launch latency) is a gap that keeps its length. A kernel also
waits for the one before it on its stream. A replay moves the kernels when their durations change;
with the recorded durations it gives the recorded times.

The interval follows from the selection's design: the representatives are drawn again, each kernel
takes the mean of its cluster's draws, and the run is replayed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from xpuprof.arrays import F64, I64
from xpuprof.errors import InputError
from xpuprof.estimation.estimate import Estimate
from xpuprof.estimation.intervals import cluster_means
from xpuprof.estimation.known_spread import half_width
from xpuprof.estimation.quantiles import CONFIDENCE
from xpuprof.selection.selection import Selection

NOBODY = -1
BASIS = "recorded order replayed with the representatives drawn again"


@dataclass(frozen=True, eq=False)
class Order:
    """Kernels in the order of their start. Columns of equal length; times in seconds.

    `slice`: the slice that the kernel ends; `length`: of the whole recording, from 0 on. `lacks`:
    what the recording does not tell, one sentence each.
    """

    slice: I64
    kernel: tuple[str, ...]
    process: I64
    device: I64
    stream: I64
    start: F64
    end: F64
    length: float
    lacks: tuple[str, ...] = ()

    @property
    def duration(self) -> F64:
        """Each kernel's own time."""
        return self.end - self.start


@dataclass(frozen=True)
class Step:
    """A kernel's share of the critical path, all its calls together, in seconds."""

    kernel: str
    calls: int
    seconds: float


@dataclass(frozen=True)
class Timeline:
    """A replayed run. `recorded`: its length as recorded; `recreated`: replayed with the recorded
    times. `path`: kernels of the critical path, longest first; `waiting`: its part outside kernels.
    `busy`: share of the run that each device computes."""

    recorded: float
    recreated: float
    makespan: Estimate
    path: tuple[Step, ...]
    waiting: float
    busy: dict[int, float]
    lacks: tuple[str, ...]


def timeline(
    selection: Selection,
    order: Order,
    values: F64,
    confidence: float = CONFIDENCE,
    *,
    elsewhere: bool = False,
) -> Timeline:
    """Replay `order` with each kernel taking its cluster's mean of `values`: float64[slices], the
    kernels' own seconds, NaN where not measured. `elsewhere`: see `intervals.estimate`."""
    labels = selection.labels[order.slice]
    if (labels < 0).any():
        raise InputError(
            "the selection leaves slices out, whose kernels have no time to replay; select with "
            "--coverage 1"
        )
    waits = _Waits.of(order)
    own, drawn = cluster_means(selection, values, elsewhere, confidence)
    tail = order.length - float(order.end.max())
    replayed = waits.replay(own[labels])
    value = replayed.length + tail
    if isinstance(drawn, str):
        makespan = Estimate(value, None, None, None, drawn)
    else:
        known, lengths = values[order.slice], waits.lengths(drawn, labels)
        if np.isfinite(known).all():
            half = half_width(lengths - waits.replay(known).length, confidence)
            low, high = value - half, value + half
        else:  # what the means might have been is not symmetric about the estimate
            tails = (0.5 - confidence / 2.0, 0.5 + confidence / 2.0)
            low, high = (np.quantile(lengths, tails) + tail).tolist()
        makespan = Estimate(value, max(min(low, value), 0.0), max(high, value), confidence, BASIS)
    path = _critical(order, replayed, own[labels])
    return Timeline(
        recorded=order.length,
        recreated=waits.replay(order.duration).length + tail,
        makespan=makespan,
        path=path,
        waiting=value - sum(step.seconds for step in path),
        busy=_busy(order, replayed.ends, own[labels], value),
        lacks=order.lacks,
    )


@dataclass(frozen=True, eq=False)
class _Replayed:
    """When each kernel ended, and whom it waited for."""

    ends: F64
    waited: I64

    @property
    def length(self) -> float:
        return float(self.ends.max())


def _last_ended(kernels: I64, start: F64, end: F64) -> I64:
    """For each of the kernels (in the order of their start): the one before it that ended last
    before its start, or NOBODY. One without length, which ends as it starts, is after itself."""
    number = np.r_[kernels, kernels]
    is_end = np.repeat([False, True], len(kernels))
    order = np.lexsort((is_end, number, np.r_[start, end]))
    newest = np.maximum.accumulate(np.where(is_end[order], np.arange(len(order)), -1))
    found = np.where(newest >= 0, number[order[newest]], NOBODY)
    last = np.empty(len(order), dtype=np.int64)
    last[order] = found
    return last[: len(kernels)]


@dataclass(frozen=True, eq=False)
class _Waits:
    """Whom each kernel waits for: `after`, the kernel that ended last before its start, and then
    `gap`; `before`, the kernel in front of it on its stream. NOBODY: the start of the recording."""

    after: I64
    gap: F64
    before: I64

    @classmethod
    def of(cls, order: Order) -> _Waits:
        """From the recorded times."""
        count = len(order.start)
        after, before = np.full(count, NOBODY), np.full(count, NOBODY)
        for process in np.unique(order.process).tolist():
            own = np.flatnonzero(order.process == process)
            after[own] = _last_ended(own, order.start[own], order.end[own])
        last: dict[tuple[int, int, int], int] = {}
        queues = zip(
            order.process.tolist(), order.device.tolist(), order.stream.tolist(), strict=True
        )
        for i, queue in enumerate(queues):
            front = last.get(queue, NOBODY)
            # Kernels of one stream that overlapped did not wait for each other.
            if front != NOBODY and order.end[front] <= order.start[i]:
                before[i] = front
            last[queue] = i
        gap = order.start - np.where(after >= 0, order.end[after], 0.0)
        return cls(after, gap, before)

    def replay(self, durations: F64) -> _Replayed:
        """The run with these durations, float64[kernels]."""
        ends, waited = np.empty(len(durations)), np.empty(len(durations), dtype=np.int64)
        moves = self._moves(durations[:, np.newaxis], np.arange(len(durations)))
        for i, (end, waited_for) in enumerate(moves):
            ends[i], waited[i] = end[0], waited_for
        return _Replayed(ends, waited)

    def lengths(self, durations: F64, index: npt.NDArray[Any]) -> F64:
        """Lengths of many runs: kernel i takes `durations[index[i]]`, float64[runs]."""
        longest = np.zeros(durations.shape[1])
        for end, _ in self._moves(durations, index):
            np.maximum(longest, end, out=longest)
        return longest

    def _moves(self, durations: F64, index: npt.NDArray[Any]) -> Iterator[tuple[F64, int]]:
        """Each kernel's end, and whom it waited for in the first run. Ends are held only until the
        last kernel that waits for them."""
        needed = np.zeros(len(index), dtype=np.int64)
        for whom in (self.after, self.before):
            np.maximum.at(needed, whom[whom >= 0], np.flatnonzero(whom >= 0))
        ends: dict[int, F64] = {}
        begin = np.zeros(durations.shape[1])
        columns = (self.after, self.gap, self.before, needed, index)
        for i, (after, gap, before, until, row) in enumerate(
            zip(*(column.tolist() for column in columns), strict=True)
        ):
            start = ends.get(after, begin) + gap
            waited = after
            if before != NOBODY:
                if ends[before][0] > start[0]:
                    waited = before
                start = np.maximum(start, ends[before])
            end = start + durations[row]
            if until > i:
                ends[i] = end
            for done in {after, before} - {NOBODY}:
                if needed[done] <= i:
                    del ends[done]
            yield end, waited


def _critical(order: Order, replayed: _Replayed, durations: F64) -> tuple[Step, ...]:
    """The kernels of the critical path."""
    at = int(np.argmax(replayed.ends))
    calls: dict[str, int] = {}
    seconds: dict[str, float] = {}
    while at != NOBODY:
        name = order.kernel[at]
        calls[name] = calls.get(name, 0) + 1
        seconds[name] = seconds.get(name, 0.0) + float(durations[at])
        at = int(replayed.waited[at])
    longest = sorted(seconds.items(), key=lambda item: -item[1])
    return tuple(Step(name, calls[name], spent) for name, spent in longest)


def _busy(order: Order, ends: F64, durations: F64, makespan: float) -> dict[int, float]:
    """Share of the run in which each device has a kernel running."""
    busy = {}
    for device in np.unique(order.device).tolist():
        own = order.device == device
        begin = ends[own] - durations[own]
        at = np.argsort(begin, kind="stable")
        covered = np.maximum.accumulate(ends[own][at])
        before = np.concatenate([[-np.inf], covered[:-1]])
        busy[int(device)] = float(
            np.maximum(covered - np.maximum(before, begin[at]), 0.0).sum() / makespan
        )
    return busy
