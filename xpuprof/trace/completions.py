# SPDX-License-Identifier: Apache-2.0
"""When each launch of a recorded process completed (boundaries.py says which stamp that is).

A command asks for it up to five times for one execution. Decoding takes some 80 ns a launch, and
memory for all executions would grow with their number, so it is decoded once and kept in temporary
files without a name.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from pathlib import Path

import numpy as np

from xpuprof.arrays import I64
from xpuprof.trace.layout import EVENTS
from xpuprof.trace.spilled import SpilledArray
from xpuprof.trace.streams import StreamReader

STAMPS = (("launches", "tsc_run", 0), ("completes", "tsc_host", 1), ("completes", "dev_end", 2))
"""Stamps that tell when a launch completed, each better than the ones before."""

MOST_KEPT, WORTH_KEEPING = 16, 100_000
"""Files at a time (each takes a descriptor), and the fewest launches for one."""
_SETTLED_NS = 100_000_000
"""File systems' clocks tick every few milliseconds: a later change of the stream would not show."""

_Version = tuple[int, ...]
_kept: OrderedDict[_Version, SpilledArray] = OrderedDict()


def fill_completions(path: Path, ticks: I64) -> None:
    """The completions of the first launches in the stream file, 0 unknown. Raises TraceError."""
    version = _version(path, len(ticks))
    if version in _kept:
        _kept[version].read_into(ticks)
        _kept.move_to_end(version)
        return
    ended = _decode(path, ticks)
    if not ended or len(ticks) < WORTH_KEEPING or time.time_ns() - version[-1] < _SETTLED_NS:
        return
    try:
        _kept[version] = SpilledArray(ticks)
    except OSError:
        return  # no room for files: decoded again
    if len(_kept) > MOST_KEPT:
        _kept.popitem(last=False)


def _version(path: Path, launches: int) -> _Version:
    status = path.stat()
    file = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return launches, *file


def _decode(path: Path, ticks: I64) -> bool:
    """Returns whether the stream has ended."""
    rank = np.zeros(len(ticks), np.uint8)
    with StreamReader(path, EVENTS) as events:
        for rows in events.chunks("launches", "completes"):
            for table, column, of in STAMPS:
                launch, stamp = rows[table]["launch"], rows[table][column]
                known = (stamp != 0) & (launch < len(ticks))
                at, stamp = launch[known].astype(np.int64), stamp[known]
                better = rank[at] <= of
                at = at[better]
                ticks[at], rank[at] = stamp[better], of
        return events.stream.ended
