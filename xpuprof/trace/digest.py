# SPDX-License-Identifier: Apache-2.0
"""Sums over a process's streams, read chunk by chunk, for `info` and for the end of a run.

Memory: at most 16 bytes per launch, or 9 per slice, besides kernels, blocks, threads and a chunk.
The rules match reader.tables and window.clip, which give the same sums.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from xpuprof.errors import TraceError
from xpuprof.trace.layout import LAUNCH_FLAGS, LDV_BUCKETS, LDV_FLAGS
from xpuprof.trace.losses import losses_of
from xpuprof.trace.reader import ended, process_folders
from xpuprof.trace.records import ExecutionRecord, ProcessMeta, process_meta
from xpuprof.trace.run import Run
from xpuprof.trace.streams import FILES, Stream, StreamReader
from xpuprof.trace.window import windows_of

Mask = npt.NDArray[np.bool_]
Rows = dict[str, npt.NDArray[Any]]

_AT_ONCE = 1 << 16
"""Launches summed up at once."""
_ENDED = 1 << 7
"""Extra launch flag: its end is known."""


@dataclass
class KernelSums:
    """Sums over the launches of one kernel name."""

    calls: int = 0
    instrumented: int = 0
    warps: int = 0
    instructions: int = 0


@dataclass
class DeviceAccesses:
    """Sums over launches whose accesses to global memory were recorded."""

    launches: int = 0
    in_part: int = 0
    accesses: int = 0
    recorded: int = 0
    lines: int = 0
    cold: int = 0
    beyond: int = 0
    forgot: int = 0


@dataclass
class Digest:
    """Sums over a process or its requested window. With a `window`, `of_slices`, `of_launches` and
    `openings` describe the whole process."""

    name: str
    meta: ProcessMeta = field(default_factory=ProcessMeta)
    complete: bool = True
    """See Process.complete."""
    window: str = ""
    openings: int = 0
    of_slices: int = 0
    of_launches: int = 0
    slices: int = 0
    launches: int = 0
    seen: int = 0
    """Launches in the window, as are `instrumented` and `left_out`."""
    instrumented: int = 0
    left_out: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    """Unintended uninstrumented launches, by reason."""
    kernels: dict[str, KernelSums] = field(default_factory=dict)
    cpu_instructions: int = 0
    threads: int = 0
    images: int = 0
    cpu_blocks: int = 0
    gpu_blocks: int = 0
    warp_vectors: int = 0
    grids: int = 0
    cpu_lines: tuple[int, int] | None = None
    """(touched, new) lines of the CPU's accesses, if recorded."""
    device: DeviceAccesses | None = None

    @property
    def warps(self) -> int:
        """Warps of all kernels."""
        return sum(sums.warps for sums in self.kernels.values())

    @property
    def gpu_instructions(self) -> int:
        """GPU instructions of all kernels."""
        return sum(sums.instructions for sums in self.kernels.values())


def digest(part: Path, role: str, complete: bool) -> Digest:
    """Sum up the process in folder `part`. `complete`: its execution ended in order.

    Raises TraceError.
    """
    found = Digest(part.name, complete=complete)
    with ExitStack() as stack:
        events, cpu = (
            stack.enter_context(StreamReader(part / file, kind)) if (part / file).exists() else None
            for kind, file in FILES.items()
        )
        cuts = cpu.count("cuts") if cpu else None
        launches = _Launches(events, role)
        streams = [stream for stream in (events, cpu) if stream is not None]
        if streams:
            found.complete = all(stream.stream.ended for stream in streams)
        in_order = complete and (cpu is None or cpu.stream.ended)
        in_order &= events is None or events.stream.chunks > 0  # a zero-length file is incomplete
        found.complete |= in_order and events is not None and launches.all_known()
        finished = len(launches) + 1
        if not found.complete and not in_order:
            finished = launches.finished(cuts)
        elif cpu and cuts is not None and cuts > finished:
            raise TraceError(
                f"{cpu.stream.path} has {cuts} slices where the launches make {finished}; see what "
                "is wrong with xpuprof check, and record the run again"
            )
        chosen = launches.chosen(found, finished)
        if events:
            _grids_and_accesses(events, found, launches, chosen)
        if cpu:
            _cpu_sums(cpu, found, chosen)
        texts = events.stream.meta() if events else {}
        texts |= {f"cpu_{key}": text for key, text in (cpu.stream.meta() if cpu else {}).items()}
    return replace(found, meta=process_meta(texts, part.name))


@dataclass(frozen=True)
class ExecutionDigest:
    """Sums over each process of an execution."""

    record: ExecutionRecord
    processes: tuple[Digest, ...]
    losses: tuple[str, ...] = ()
    """Recording losses, one sentence each."""

    @property
    def name(self) -> str:
        """Name of its folder in the run directory."""
        return self.record.name


def digests_of(run: Run) -> list[ExecutionDigest]:
    """Sum up every execution, in order. Raises TraceError when a stream is damaged."""
    return [
        digest_execution(run.path / record.name, record, run.status)
        for record in map(run.record, run.manifest["executions"])
    ]


def digest_execution(folder: Path, record: ExecutionRecord, run_status: str) -> ExecutionDigest:
    """Sum up an execution, like `reader.read_execution`. Raises TraceError."""
    record = ended(folder, record, run_status)
    complete = record.status == "complete"
    parts = process_folders(folder)
    processes = tuple(digest(part, record.role, complete) for part in parts)
    if not parts:  # the bare program: no device, no CPU engine
        processes = (replace(digest(folder, record.role, complete), name=record.process_name),)
    return ExecutionDigest(record, processes, losses_of(folder))


class _Launches:
    """State of every launch, a few bytes each: kernel, flags, 1-based grid (0: none), and code of
    the reason (0: none) if any launch has one."""

    def __init__(self, events: StreamReader | None, role: str) -> None:
        self._events = events
        self.profile = role == "profile"
        size = events.count("launches") if events else 0
        grids = events.count("grids") if events else 0
        kernels = events.count("kernels") if events else 0
        self.kernel = np.zeros(size, np.min_scalar_type(kernels))
        self.flags = np.zeros(size, np.uint8)
        self.grid = np.zeros(size, np.min_scalar_type(grids + 1))
        self._reason = np.zeros(0, np.uint16)
        self._reasons: dict[str, int] = {"": 0}
        if events:
            self._read(events)

    def __len__(self) -> int:
        return len(self.flags)

    def _read(self, events: StreamReader) -> None:
        done = 0
        for rows in events.chunks("launches", "launch_grids", "completes"):
            launches = rows["launches"]
            span = slice(done, done + len(launches))
            if not np.array_equal(launches["launch"], np.arange(span.start, span.stop)):
                raise TraceError(
                    f"the launches of {events.stream.path} are not numbered in order; see what is "
                    "wrong with xpuprof check, and record the run again"
                )
            self.kernel[span] = launches["kernel"]
            self.flags[span] |= (launches["flags"] & ~np.uint32(_ENDED)).astype(np.uint8)
            self._keep_reasons(events.stream, launches["reason"], done)
            done = span.stop
            pairs = rows["launch_grids"]
            self.grid[pairs["launch"].astype(np.int64)] = pairs["grid"] + np.uint64(1)
            ends = rows["completes"][rows["completes"]["launch"] < len(self)]
            ends = ends[(ends["tsc_host"] != 0) | (ends["dev_end"] != 0)]
            self.flags[ends["launch"].astype(np.int64)] |= np.uint8(_ENDED)

    def _keep_reasons(self, stream: Stream, reasons: npt.NDArray[Any], first: int) -> None:
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
            self._reason[first + told[reasons["at"][told] == place]] = code

    def _flagged(self, name: str, span: slice) -> Mask:
        return np.asarray((self.flags[span] & LAUNCH_FLAGS[name]) != 0)

    def _pieces(self, size: int) -> Iterator[slice]:
        for first in range(0, size, _AT_ONCE):
            yield slice(first, min(first + _AT_ONCE, size))

    def _whole(self, span: slice) -> Mask:
        """Launches that do not wait for counts."""
        return (self.grid[span] > 0) | ~self._flagged("INSTRUMENTED", span)

    def all_known(self) -> bool:
        """Whether no launch awaits its counts (profile) or its end (timer)."""
        return all(
            self._whole(span).all() if self.profile else (self.flags[span] & _ENDED != 0).all()
            for span in self._pieces(len(self))
        )

    def finished(self, cuts: int | None) -> int:
        """Complete slices of a process that did not end in order, as in `reader`."""
        finished = len(self) if cuts is None else min(len(self), cuts)
        if not self.profile:
            return finished
        for span in reversed(list(self._pieces(len(self)))):
            whole = np.flatnonzero(self._whole(span))
            if len(whole):
                return min(finished, int(span.start + whole[-1]) + 1)
        return 0

    def chosen(self, found: Digest, finished: int) -> _Chosen:
        """Sum up the launches of the first `finished` slices, in the window if there is one;
        returns which slices these are."""
        size = min(len(self), finished)
        outside = np.zeros(0, bool)
        stream = self._events.stream if self._events else None
        if stream is not None and stream.meta().get("window"):
            outside = self._flagged("OUTSIDE", slice(0, size))
        window = windows_of(stream, outside)
        chosen = _Chosen(finished, None, None)
        if window is not None:
            chosen = _Chosen(finished, window.wanted[:finished], window.inside[:finished])
            found.window, found.openings = window.spec, len(window.openings)
            found.of_slices, found.of_launches = finished, size
        found.slices = sum(int(chosen.slices(span).sum()) for span in self._pieces(finished))
        kernels = [] if stream is None else stream.texts(stream["kernels"]["name"])
        calls, instrumented = (np.zeros(len(kernels), np.int64) for _ in range(2))
        reasons = np.zeros(len(self._reasons), np.int64)
        for span in self._pieces(size):
            wanted, ends = chosen.slices(span), chosen.ends(span)
            counted = self._flagged("INSTRUMENTED", span)
            counted &= (self.grid[span] > 0) | (not self.profile)
            inside = wanted & ~self._flagged("OUTSIDE", span)
            left_out = self._flagged("LEFT_OUT", span)
            found.launches += int(wanted.sum())
            found.seen += int(inside.sum())
            found.instrumented += int((counted & wanted).sum())
            found.left_out += int((inside & left_out).sum())
            bare = inside & ~left_out & ~counted
            codes = self._reason[span][bare] if len(self._reason) else np.zeros(bare.sum(), int)
            reasons += np.bincount(codes, minlength=len(reasons))
            calls += np.bincount(self.kernel[span][ends], minlength=len(kernels))
            instrumented += np.bincount(self.kernel[span][ends & counted], minlength=len(kernels))
        found.reasons = {t: int(n) for t, n in zip(self._reasons, reasons, strict=True) if n}
        for name, called, counts in zip(
            kernels, calls.tolist(), instrumented.tolist(), strict=True
        ):
            if called:
                sums = found.kernels.setdefault(name, KernelSums())
                sums.calls += called
                sums.instrumented += counts
        return chosen

    def grid_uses(self, chosen: _Chosen, grids: int) -> npt.NDArray[np.uint32]:
        """Number of chosen launches with each grid."""
        uses = np.zeros(grids, np.uint32)
        for span in self._pieces(min(len(self), chosen.finished)):
            own = self.grid[span][chosen.ends(span)]
            used, times = np.unique(own[own > 0], return_counts=True)
            uses[used.astype(np.int64) - 1] += times.astype(np.uint32)
        return uses


@dataclass(frozen=True)
class _Chosen:
    """The first `finished` slices of a process; with a window, `wanted` marks slices at least
    partly in it, `inside` those that end in it."""

    finished: int
    wanted: Mask | None
    inside: Mask | None

    def slices(self, span: slice) -> Mask:
        return np.ones(span.stop - span.start, bool) if self.wanted is None else self.wanted[span]

    def ends(self, span: slice) -> Mask:
        return np.ones(span.stop - span.start, bool) if self.inside is None else self.inside[span]

    def holds(self, rows: npt.NDArray[np.uint64]) -> Mask:
        """Which of the rows are chosen."""
        known = rows < self.finished
        if self.wanted is not None:
            known[known] = self.wanted[rows[known].astype(np.int64)]
        return known


def _grids_and_accesses(
    events: StreamReader, found: Digest, launches: _Launches, chosen: _Chosen
) -> None:
    if launches.profile and min(len(launches), chosen.finished):
        found.gpu_blocks = events.count("gpu_blocks")
        found.warp_vectors, found.grids = events.count("vectors"), events.count("grids")
    if events.count("device_ldvs"):
        found.device = DeviceAccesses()
    if not events.count("grids") and found.device is None:
        return
    uses = launches.grid_uses(chosen, events.count("grids"))
    names = events.stream.texts(events.stream["kernels"]["name"])
    warps, instructions = (np.zeros(len(names), np.uint64) for _ in range(2))
    done = 0
    for rows in events.chunks("grids", "device_ldvs", "ldv_bucket", "ldv_count"):
        grids = rows["grids"]
        times = uses[done : done + len(grids)].astype(np.uint64)
        done += len(grids)
        kernel = grids["kernel"].astype(np.int64)
        np.add.at(warps, kernel, grids["warps"] * times)
        np.add.at(instructions, kernel, grids["instructions"] * times)
        if found.device is not None:
            _add_accesses(found.device, rows, chosen.holds(rows["device_ldvs"]["launch"]))
    for name, sums in found.kernels.items():
        own = [i for i, other in enumerate(names) if other == name]
        sums.warps = int(warps[own].sum())
        sums.instructions = int(instructions[own].sum())


def _add_accesses(device: DeviceAccesses, rows: Rows, keep: Mask) -> None:
    lines, cold = _lines(rows, rows["device_ldvs"], keep)
    own = rows["device_ldvs"][keep]
    device.launches += len(own)
    device.in_part += int((own["recorded"] < own["accesses"]).sum())
    device.accesses += int(own["accesses"].sum())
    device.recorded += int(own["recorded"].sum())
    device.lines += lines
    device.cold += cold
    device.beyond += int((own["flags"] & LDV_FLAGS["BEYOND"] != 0).sum())
    device.forgot += int((own["flags"] & LDV_FLAGS["FORGOT"] != 0).sum())


def _lines(rows: Rows, vectors: npt.NDArray[Any], keep: Mask) -> tuple[int, int]:
    """Lines counted by the kept vectors, and those never touched before."""
    own = np.repeat(keep, vectors["n_pairs"].astype(np.int64))
    counts = rows["ldv_count"][own]
    cold = counts[rows["ldv_bucket"][own] == LDV_BUCKETS - 1]
    return int(counts.sum()), int(cold.sum())


def _cpu_sums(cpu: StreamReader, found: Digest, chosen: _Chosen) -> None:
    found.threads, found.images = cpu.count("threads"), cpu.count("images")
    found.cpu_blocks = cpu.count("cpu_blocks")
    lines, cold, done = 0, 0, 0
    for rows in cpu.chunks("cuts", "ldvs", "ldv_bucket", "ldv_count"):
        cuts = rows["cuts"]
        if not np.array_equal(cuts["slice"], np.arange(done, done + len(cuts))):
            raise TraceError(
                f"the slices of {cpu.stream.path} are not cut in order; see what is wrong with "
                "xpuprof check, and record the run again"
            )
        done += len(cuts)
        found.cpu_instructions += int(cuts["instructions"][chosen.holds(cuts["slice"])].sum())
        more = _lines(rows, rows["ldvs"], chosen.holds(rows["ldvs"]["slice"]))
        lines, cold = lines + more[0], cold + more[1]
    if cpu.count("ldvs"):
        found.cpu_lines = lines, cold
