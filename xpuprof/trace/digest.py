# SPDX-License-Identifier: Apache-2.0
"""The slices that a process finished, its window and its sums, read chunk by chunk.

Memory: at most 16 bytes per launch, or 9 per slice, besides kernels, blocks, threads and a chunk.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from xpuprof.arrays import U64, Mask
from xpuprof.errors import TraceError
from xpuprof.trace.launch_order import OrderReader
from xpuprof.trace.layout import LAUNCH_FLAGS, LDV_BUCKETS, LDV_FLAGS
from xpuprof.trace.pieces import pieces
from xpuprof.trace.streams import Rows, Stream, StreamReader
from xpuprof.trace.sums import CpuLines, DeviceAccesses, KernelSums, Sums, added
from xpuprof.trace.tables import LaunchOrder, Window
from xpuprof.trace.window import find_window

_ENDED, _UNCOUNTED = 1 << 7, 1 << 6
"""Extra launch flags: its end is known; why it has no counts is known."""


@dataclass(frozen=True, eq=False)
class Digest:
    """See Process for `complete`; `sums` are those of the window if there is one."""

    complete: bool
    window: Window | None
    sums: Sums
    order: LaunchOrder


def digest(
    events: StreamReader | None, cpu: StreamReader | None, role: str, complete: bool
) -> Digest:
    """Read the streams of a process. `complete`: its execution ended in order. Raises
    TraceError."""
    launches = Launches(events, role)
    cuts = cpu.count("cuts") if cpu else None
    streams = [reader.stream for reader in (events, cpu) if reader]
    closed = all(stream.ended for stream in streams) if streams else complete
    in_order = complete and (cpu is None or cpu.stream.ended)
    in_order &= events is None or events.stream.chunks > 0  # a zero-length file is incomplete
    closed |= in_order and events is not None and launches.all_known()
    finished = len(launches) + 1
    if not closed and not in_order:
        finished = launches.finished(cuts)
    elif cpu and cuts is not None and cuts > finished:
        raise TraceError(
            f"{cpu.stream.path} has {cuts} slices where the launches make {finished}; see what is "
            "wrong with xpuprof check, and record the run again"
        )
    chosen = _Chosen(finished, launches.window(finished))
    sums = launches.sums(chosen)
    if events:
        sums = _with_grids(sums, events, launches, chosen)
    if cpu:
        sums = added(sums, _cpu_sums(cpu, chosen))
    return Digest(closed, chosen.window, sums, launches.reader.order)


@dataclass(frozen=True, eq=False)
class _Chosen:
    """The first `finished` slices of a process, or those of them in the window."""

    finished: int
    window: Window | None

    def slices(self, span: slice) -> Mask:
        """Which slices are chosen, at least in part."""
        return (
            np.ones(span.stop - span.start, bool) if not self.window else self.window.wanted[span]
        )

    def ends(self, span: slice) -> Mask:
        """Which slices end in what is chosen."""
        return np.ones(span.stop - span.start, bool) if not self.window else self.window.ends[span]

    def holds(self, rows: npt.NDArray[np.uint64]) -> Mask:
        """Which of the rows are chosen."""
        known = rows < self.finished
        if self.window:
            known[known] = self.window.wanted[rows[known].astype(np.int64)]
        return known


class Launches:
    """State of every launch, a few bytes each: kernel, flags, 1-based grid (0: none), and code of
    the reason (0: none) if any launch has one."""

    def __init__(self, events: StreamReader | None, role: str) -> None:
        self._stream = events.stream if events else None
        self.profile = role == "profile"
        size, grids, kernels = (
            events.count(table) if events else 0 for table in ("launches", "grids", "kernels")
        )
        self._kernel = np.zeros(size, np.min_scalar_type(kernels))
        self._flags = np.zeros(size, np.uint8)
        self._grid = np.zeros(size, np.min_scalar_type(grids + 1))
        self.reader = OrderReader()
        self._reason = np.zeros(0, np.uint16)
        self._reasons: dict[str, int] = {"": 0}
        if events:
            self._read(events)

    def __len__(self) -> int:
        return len(self._flags)

    def _read(self, events: StreamReader) -> None:
        done = 0
        tables = ("kernels", "launches", "launch_grids", "completes", "uncounted")
        for rows in events.chunks(*tables):
            launches = rows["launches"]
            span = slice(done, done + len(launches))
            if not np.array_equal(launches["launch"], np.arange(span.start, span.stop)):
                raise TraceError(
                    f"the launches of {events.stream.path} are not numbered in order; see what is "
                    "wrong with xpuprof check, and record the run again"
                )
            self._kernel[span] = launches["kernel"]
            flags = launches["flags"] & ~np.uint32(_ENDED | _UNCOUNTED)
            self._flags[span] |= flags.astype(np.uint8)
            self._keep_reasons(events.stream, launches["reason"], launches["launch"])
            self.reader.read(events.stream, rows)
            done = span.stop
            pairs = rows["launch_grids"]
            self._grid[pairs["launch"].astype(np.int64)] = pairs["grid"] + np.uint64(1)
            ends = rows["completes"][rows["completes"]["launch"] < len(self)]
            ends = ends[(ends["tsc_host"] != 0) | (ends["dev_end"] != 0)]
            self._flags[ends["launch"].astype(np.int64)] |= np.uint8(_ENDED)
            bare = rows["uncounted"]
            self._flags[bare["launch"].astype(np.int64)] |= np.uint8(_UNCOUNTED)
            self._keep_reasons(events.stream, bare["reason"], bare["launch"])

    def _keep_reasons(self, stream: Stream, reasons: npt.NDArray[Any], launches: U64) -> None:
        told = np.flatnonzero(reasons["size"])
        if not len(told):
            return
        if not len(self._reason):
            self._reason = np.zeros(len(self), np.uint16)
        places, where = np.unique(reasons["at"][told], return_index=True)
        for place, at in zip(places, told[where], strict=True):
            code = self._reasons.setdefault(stream.text(reasons[at]), len(self._reasons))
            if code > np.iinfo(self._reason.dtype).max:
                self._reason = self._reason.astype(np.uint32)
            self._reason[launches[told[reasons["at"][told] == place]].astype(np.int64)] = code

    def _flagged(self, name: str, span: slice) -> Mask:
        return np.asarray((self._flags[span] & LAUNCH_FLAGS[name]) != 0)

    def _whole(self, span: slice) -> Mask:
        """Launches that do not wait for counts."""
        known = (self._grid[span] > 0) | ~self._flagged("INSTRUMENTED", span)
        return np.asarray(known | (self._flags[span] & _UNCOUNTED != 0))

    def all_known(self) -> bool:
        """Whether no launch awaits its counts (profile) or its end (timer)."""
        return all(
            self._whole(span).all() if self.profile else (self._flags[span] & _ENDED != 0).all()
            for span in pieces(len(self))
        )

    def finished(self, cuts: int | None) -> int:
        """Number of complete slices of a process that did not end in order.

        A slice is finished when its launch is recorded, its CPU vectors are cut and, in a profile,
        its launch was counted. Trailing launches whose counts were never read back are not
        finished.
        """
        finished = len(self) if cuts is None else min(len(self), cuts)
        if not self.profile:
            return finished
        for span in reversed(list(pieces(len(self)))):
            whole = np.flatnonzero(self._whole(span))
            if len(whole):
                return min(finished, int(span.start + whole[-1]) + 1)
        return 0

    def window(self, finished: int) -> Window | None:
        """The window among the first `finished` slices."""
        if self._stream is None or not self._stream.meta().get("window"):
            return None
        size = min(len(self), finished)
        return find_window(self._stream, self._flagged("OUTSIDE", slice(0, size)), finished)

    def sums(self, chosen: _Chosen) -> Sums:
        """Sums over the chosen launches."""
        size = min(len(self), chosen.finished)
        names = [] if self._stream is None else self._stream.texts(self._stream["kernels"]["name"])
        calls, instrumented = (np.zeros(len(names), np.int64) for _ in range(2))
        reasons = np.zeros(len(self._reasons), np.int64)
        launches = seen = counted_launches = left_out = 0
        for span in pieces(size):
            wanted, ends = chosen.slices(span), chosen.ends(span)
            counted = self._flagged("INSTRUMENTED", span)
            counted &= (self._grid[span] > 0) | (not self.profile)
            inside = wanted & ~self._flagged("OUTSIDE", span)
            by_choice = self._flagged("LEFT_OUT", span)
            launches += int(wanted.sum())
            seen += int(inside.sum())
            counted_launches += int((counted & wanted).sum())
            left_out += int((inside & by_choice).sum())
            bare = inside & ~by_choice & ~counted
            codes = self._reason[span][bare] if len(self._reason) else np.zeros(bare.sum(), int)
            reasons += np.bincount(codes, minlength=len(reasons))
            calls += np.bincount(self._kernel[span][ends], minlength=len(names))
            instrumented += np.bincount(self._kernel[span][ends & counted], minlength=len(names))
        kernels: dict[str, KernelSums] = {}
        for name, *numbers in zip(names, calls.tolist(), instrumented.tolist(), strict=True):
            if numbers[0]:
                kernels[name] = added(kernels.get(name), KernelSums(*numbers))
        return Sums(
            slices=sum(int(chosen.slices(span).sum()) for span in pieces(chosen.finished)),
            launches=launches,
            seen=seen,
            instrumented=counted_launches,
            left_out=left_out,
            of_slices=chosen.finished,
            of_launches=size,
            unfinished=len(self) - size,
            openings=len(chosen.window.openings) if chosen.window else 0,
            reasons={text: int(n) for text, n in zip(self._reasons, reasons, strict=True) if n},
            kernels=kernels,
        )

    def grid_uses(self, chosen: _Chosen, grids: int) -> npt.NDArray[np.uint32]:
        """Number of chosen launches with each grid."""
        uses = np.zeros(grids, np.uint32)
        for span in pieces(min(len(self), chosen.finished)):
            own = self._grid[span][chosen.ends(span)]
            used, times = np.unique(own[own > 0], return_counts=True)
            uses[used.astype(np.int64) - 1] += times.astype(np.uint32)
        return uses


def _with_grids(sums: Sums, events: StreamReader, launches: Launches, chosen: _Chosen) -> Sums:
    """With the counts of the chosen launches, and their accesses."""
    if launches.profile and sums.of_launches:
        sums = replace(
            sums,
            gpu_blocks=events.count("gpu_blocks"),
            warp_vectors=events.count("vectors"),
            grids=events.count("grids"),
        )
    if not events.count("grids") and not events.count("device_ldvs"):
        return sums
    uses = launches.grid_uses(chosen, events.count("grids"))
    names = events.stream.texts(events.stream["kernels"]["name"])
    counted = np.zeros((len(names), 2), np.uint64)
    device, done = None, 0
    for rows in events.chunks("grids", "device_ldvs", "ldv_bucket", "ldv_count"):
        grids = rows["grids"]
        times = uses[done : done + len(grids)].astype(np.uint64)
        done += len(grids)
        own = np.stack([grids["warps"] * times, grids["instructions"] * times], axis=1)
        np.add.at(counted, grids["kernel"].astype(np.int64), own)
        if events.count("device_ldvs"):
            device = added(device, _accesses(rows, chosen.holds(rows["device_ldvs"]["launch"])))
    of_kernels = dict(sums.kernels)
    for name, (warps, instructions) in zip(names, counted.tolist(), strict=True):
        if name in of_kernels:
            of_kernels[name] = added(of_kernels[name], KernelSums(0, 0, warps, instructions))
    return replace(sums, kernels=of_kernels, device=device)


def _accesses(rows: Rows, keep: Mask) -> DeviceAccesses:
    own = rows["device_ldvs"][keep]
    return DeviceAccesses(
        launches=len(own),
        in_part=int((own["recorded"] < own["accesses"]).sum()),
        accesses=int(own["accesses"].sum()),
        recorded=int(own["recorded"].sum()),
        **vars(_lines(rows, rows["device_ldvs"], keep)),
        beyond=int((own["flags"] & LDV_FLAGS["BEYOND"] != 0).sum()),
        forgot=int((own["flags"] & LDV_FLAGS["FORGOT"] != 0).sum()),
    )


def _lines(rows: Rows, vectors: npt.NDArray[Any], keep: Mask) -> CpuLines:
    """Lines counted by the kept vectors, and those never touched before."""
    own = np.repeat(keep, vectors["n_pairs"].astype(np.int64))
    counts = rows["ldv_count"][own]
    cold = counts[rows["ldv_bucket"][own] == LDV_BUCKETS - 1]
    return CpuLines(int(counts.sum()), int(cold.sum()))


def _cpu_sums(cpu: StreamReader, chosen: _Chosen) -> Sums:
    instructions, lines, done = 0, CpuLines(0, 0), 0
    for rows in cpu.chunks("cuts", "ldvs", "ldv_bucket", "ldv_count"):
        cuts = rows["cuts"]
        if not np.array_equal(cuts["slice"], np.arange(done, done + len(cuts))):
            raise TraceError(
                f"the slices of {cpu.stream.path} are not cut in order; see what is wrong with "
                "xpuprof check, and record the run again"
            )
        done += len(cuts)
        instructions += int(cuts["instructions"][chosen.holds(cuts["slice"])].sum())
        lines = added(lines, _lines(rows, rows["ldvs"], chosen.holds(rows["ldvs"]["slice"])))
    return Sums(
        cpu_instructions=instructions,
        threads=cpu.count("threads"),
        images=cpu.count("images"),
        cpu_blocks=cpu.count("cpu_blocks"),
        cpu_lines=lines if cpu.count("ldvs") else None,
    )
