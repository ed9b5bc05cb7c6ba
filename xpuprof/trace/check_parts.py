# SPDX-License-Identifier: Apache-2.0
"""What the checks of both streams share: sums of groups, stamps, vectors that must not recur."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from xpuprof.arrays import U64
from xpuprof.trace.findings import Findings, Numbers
from xpuprof.trace.records import ExecutionRecord
from xpuprof.trace.streams import StreamReader


def group_sums(values: U64, lengths: npt.NDArray[Any]) -> U64:
    """Sums of consecutive groups of `lengths` values."""
    running = np.zeros(len(values) + 1, np.uint64)
    np.cumsum(values, out=running[1:])
    ends: U64 = running[np.cumsum(np.r_[0, lengths.astype(np.int64)])]
    return np.diff(ends)


class Stamps:
    """tsc-monotone and tsc-within-run, in one stream."""

    def __init__(self, found: Findings, record: ExecutionRecord, part: str) -> None:
        self._found = found
        self._span = np.array([record.tsc_start, record.tsc_end], np.uint64)
        # A child may outlive the program.
        self._known = bool(self._span.all()) and part.endswith(f"-{record.pid}")
        self._last: dict[int, int] = {}

    def within(self, tsc: U64, slices: Numbers) -> None:
        start, end = self._span
        wrong = ((tsc < start) | (tsc > end)) & self._known
        message = f"stamp {{}} is not between {start} and {end}"
        self._found.add("tsc-within-run", wrong, message, tsc, slices=slices)

    def ascend(self, event: str, tsc: U64, slices: Numbers, threads: Numbers | None = None) -> None:
        """`tsc`: the next stamps, made by `threads` (None: by one)."""
        own = np.zeros(len(tsc), np.int64) if threads is None else np.asarray(threads, np.int64)
        order = np.argsort(own, kind="stable")
        names, first = np.unique(own[order], return_index=True)
        before = np.roll(tsc[order], 1)
        before[first] = [self._last.get(name, 0) for name in names.tolist()]
        last = order[np.r_[first[1:], len(tsc)][: len(first)] - 1]
        self._last.update(zip(names.tolist(), tsc[last].tolist(), strict=True))
        previous = np.empty_like(before)
        previous[order] = before
        message = f"{event} at {{}}, before the previous {event} at {{}}"
        wrong = tsc < previous
        self._found.add(
            "tsc-monotone", wrong, message, tsc, previous, slices=slices, threads=threads
        )


class Once:
    """Finds vectors of a table that recur. Those of slices older than the newest are looked up in a
    second walk; usually there are none."""

    def __init__(self, table: str) -> None:
        self._table = table
        self._newest = np.zeros(0, np.uint64)
        self._doubtful: list[U64] = []

    def _keys(self, rows: npt.NDArray[Any]) -> U64:
        """Slice and thread, or launch."""
        if self._table == "device_ldvs":
            return np.asarray(rows["launch"] << np.uint64(32))
        return np.asarray(rows["slice"] << np.uint64(32) | rows["thread"])

    def see(self, rows: npt.NDArray[Any]) -> None:
        """The next rows in the stream."""
        own, times = np.unique(np.r_[self._newest, self._keys(rows)], return_counts=True)
        if not len(own):
            return
        slices = own >> np.uint64(32)
        late = slices < (self._newest[:1] >> np.uint64(32)).sum()
        self._doubtful.append(own[(times > 1) | late])
        self._newest = own[slices == slices[-1]]

    def check(self, stream: StreamReader, found: Findings, invariant: str) -> None:
        """Report recurring vectors."""
        doubtful = np.unique(np.concatenate([self._newest[:0], *self._doubtful]))
        if not len(doubtful):
            return
        times = np.zeros(len(doubtful), np.int64)
        for rows in stream.chunks(self._table):
            keys = self._keys(rows[self._table])
            place = np.minimum(np.searchsorted(doubtful, keys), len(doubtful) - 1)
            np.add.at(times, place[doubtful[place] == keys], 1)
        slices = doubtful >> np.uint64(32)
        threads = None if self._table == "device_ldvs" else doubtful & np.uint64(0xFFFFFFFF)
        found.add(invariant, times > 1, "a second vector", slices=slices, threads=threads)
