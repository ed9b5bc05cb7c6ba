# SPDX-License-Identifier: Apache-2.0
"""What the reader returns: plain numpy or pandas tables. Everything above (signature, methods,
validation, report, formats) works on these, never on the files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from xpuprof.arrays import I64, U32, U64, starts_of
from xpuprof.trace.coordinates import ProcessRows
from xpuprof.trace.records import ExecutionRecord, ProcessMeta
from xpuprof.trace.sums import Sums

if TYPE_CHECKING:  # loading pandas takes longer than many a program
    import pandas as pd


@dataclass(frozen=True)
class Blocks:
    """Static basic blocks. `identity`: 64 bits, equal across runs, processes and machines."""

    identity: U64
    instructions: U32


@dataclass(frozen=True)
class CpuVectors:
    """Sparse per-slice, per-thread CPU vectors, sorted by (slice, thread, block).

    Row r says: in slice `slice[r]` thread `thread[r]` executed block `block[r]` `count[r]` times.
    `slice_start` has slices + 1 entries: rows of slice s are slice_start[s]:slice_start[s+1].
    """

    thread: U32
    block: U32
    count: U64
    slice_start: U64
    blocks: Blocks
    block_image: U32 | None = None
    """Row of each block's image in `Process.images`; None if only identities are known."""
    block_offset: U64 | None = None
    """Offset of each block from the lowest address of its image."""

    @classmethod
    def joined(cls, pieces: list[CpuVectors]) -> CpuVectors:
        """The vectors of all pieces, which are taken out of the list: hardly any entry is in memory
        twice."""
        starts = starts_of(np.concatenate([np.diff(piece.slice_start) for piece in pieces]))
        rows = end = int(starts[-1])
        thread, block = np.empty(rows, np.uint32), np.empty(rows, np.uint32)
        count, last = np.empty(rows, np.uint64), pieces[-1]
        while pieces:
            piece = pieces.pop()
            own = slice(end - len(piece.count), end)
            thread[own], block[own], count[own] = piece.thread, piece.block, piece.count
            end = own.start
        return replace(last, thread=thread, block=block, count=count, slice_start=starts)

    @property
    def slice(self) -> U32:
        """The slice of each row, computed on demand: rows are many, and few callers need it."""
        sizes: I64 = np.diff(self.slice_start).astype(np.int64)
        return np.repeat(np.arange(len(sizes), dtype=np.uint32), sizes)


@dataclass(frozen=True)
class StackDistances:
    """LRU stack-distance vectors (LDV) of CPU data accesses, sorted by (slice, thread).

    Row r: of thread `thread[r]`'s accesses in slice `slice[r]`, `count[r, b]` went to a 64-byte
    line that was last touched d other lines ago: b = 0 for d = 0, 1..62 for 2^(b-1) <= d < 2^b,
    63 for lines that the thread never touched before. `count`: uint64[rows, 64].
    """

    slice: U32
    thread: U32
    count: U64


@dataclass(frozen=True)
class DeviceDistances:
    """LRU stack-distance vectors (LDV) of device accesses to global memory, by launch.

    Row r belongs to launch `launch[r]`: `count[r, b]` lines of 64 bytes, coalesced over a warp,
    were touched at a distance of bucket b (as in StackDistances; 63: never touched on the device).
    `accesses[r]`: loads, stores and atomics of all its work-items, `recorded[r]`: those of the
    work-groups that were recorded, `recorded_groups[r]` evenly spaced of `groups[r]`. `beyond`: the
    kernel has accesses that cannot be recorded; `forgot`: lines untouched for long count as new.
    """

    launch: U32
    count: U64
    accesses: U64
    recorded: U64
    groups: U64
    recorded_groups: U64
    beyond: npt.NDArray[np.bool_]
    forgot: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class GpuVectors:
    """Per-warp GPU vectors, stored once.

    `launch_grid[l]` is the grid id of launch l (-1: not instrumented). Grid g is the run-length
    coded sequence of warp vectors `run_vector[grid_start[g]:grid_start[g+1]]` with `run_length`,
    warps in logical order. Vector v is the sparse block vector
    `block[vector_start[v]:vector_start[v+1]]` with `count`; `block` indexes `blocks`, which spans
    all kernels (kernel k owns kernel_block_start[k]:kernel_block_start[k+1]).
    """

    launch_grid: npt.NDArray[np.int64]
    grid_start: U64
    run_vector: U32
    run_length: U64
    vector_start: U64
    block: U32
    count: U64
    blocks: Blocks
    kernel_block_start: U64
    mix: npt.NDArray[np.uint16]
    """blocks x XP_MIX_COUNT static instruction classes."""


@dataclass(frozen=True, eq=False)
class Window:
    """The part of a process that `--window` kept. Slice numbers here are those of the whole
    process.

    `wanted`, `ends`: bool, one per slice of the process: whether it is at least partly in the
    window, and whether it ends there (if only `wanted`, it ends at a closing by a marker).
    `openings`, `stamps`: int64[n, 2], one per stretch: first launch and the one after the last;
    ticks of opening and closing (0: the process ended first).
    """

    spec: str
    wanted: npt.NDArray[np.bool_]
    ends: npt.NDArray[np.bool_]
    openings: npt.NDArray[np.int64]
    stamps: npt.NDArray[np.int64]

    @property
    def rows(self) -> ProcessRows:
        """Slices at least partly in the window."""
        return ProcessRows(np.flatnonzero(self.wanted))

    @property
    def inside(self) -> npt.NDArray[np.bool_]:
        """Whether each of `rows` ends in the window."""
        return self.ends[self.wanted]

    @property
    def by_marker(self) -> bool:
        """Opened and closed by markers in the program, not by launch numbers."""
        return "@" in self.spec


@dataclass(frozen=True, eq=False)
class Tables:
    """The tables of one process, or of its requested window.

    `slices`, one row each (launches + 1): slice, kernel (name), call (nth launch of that name, from
    1), program (hex hash), gx gy gz, lx ly lz, warps, cpu_instructions, gpu_instructions,
    lane_instructions (each instruction once for every work-item that executed it; 0 where not
    told), builds (of device programs), to_device, to_host, within (bytes copied), instrumented,
    left_out (by `--kernels`). The last row's kernel is SYS_exit, call 1. In a window, rows are its
    slices (`slice` has the whole process's number), and one that a marker's closing ends is named
    xpuprof_window_end. Names are categorical.
    """

    slices: pd.DataFrame
    kernels: pd.DataFrame
    gpu: GpuVectors | None
    images: pd.DataFrame
    threads: pd.DataFrame
    copies: pd.DataFrame
    distances: StackDistances | None = None
    """Stack distances of the CPU's data accesses, if requested (`--memory`)."""
    device_distances: DeviceDistances | None = None
    """Stack distances of the device's global memory accesses, if requested."""


@dataclass(frozen=True, eq=False)
class DeviceWork:
    """Kernels of a whole process. `kernel`: each launch's place in `names`, which are distinct;
    `builds`: slices in which a device program was built, ascending."""

    kernel: npt.NDArray[np.signedinteger[Any]]
    names: Sequence[str]
    builds: npt.NDArray[np.int64]


class Recording(Protocol):
    """Where a process's tables and stamps come from."""

    def tables(self) -> Tables: ...

    def cpu_pieces(self) -> Iterator[CpuVectors] | None:
        """See `Process.cpu_pieces`."""
        ...

    def launches(self) -> pd.DataFrame:
        """See `Process.launches`."""
        ...

    def launch_threads(self) -> U32:
        """uint32[launches of the whole process]: which thread made each, from 1 by first launch."""
        ...

    def fill_completions(self, ticks: npt.NDArray[np.int64]) -> None:
        """The completion of each launch of the whole process (boundaries.py); 0 unknown."""
        ...

    def device_work(self, ticks: npt.NDArray[np.float64]) -> DeviceWork:
        """Also fills in how long each launch of the whole process ran on the device; NaN:
        unknown."""
        ...

    def last_stamp(self) -> int:
        """The last recorded tick of the process; 0 if there is none."""
        ...


@dataclass(frozen=True)
class LaunchOrder:
    """Numbers for the order of a process's launches, equal for equal orders, so that executions are
    compared without decoding them."""

    turns: int = 0
    """The threads that launched in turn; 0 if one did."""
    by_thread: int = 0
    """What each thread launched in turn (kernel, grid, work-group, in the window or not), whichever
    order the threads took turns in."""
    sequence: int = 0
    """What all threads launched in turn, whichever threads they were."""


@dataclass(frozen=True, eq=False)
class Process:
    """One process's part of an execution, or its requested window. Its sums and stamps are read
    chunk by chunk; its tables, and that of its launches, are decoded on first use and then kept."""

    name: str
    meta: ProcessMeta
    complete: bool
    """Every stream was closed in order, or the process left by `_exit` with nothing outstanding."""
    sums: Sums
    recording: Recording
    window: Window | None = None
    """Set if the tables cover a window (`--window`)."""
    order: LaunchOrder = LaunchOrder()

    @property
    def rank(self) -> int | None:
        """The rank that a launcher (mpirun, srun, torchrun) assigned."""
        return self.meta.rank

    @cached_property
    def tables(self) -> Tables:
        """All tables. Raises TraceError."""
        return self.recording.tables()

    @cached_property
    def launches(self) -> pd.DataFrame:
        """One row per launch: launch, kernel, call, kernel_id, program, dimensions, gx.., lx.., ox
        oy oz, queue, device, thread, tsc_run, tsc_complete, dev_start, dev_end (ticks, 0 unknown),
        registers, local_static, local_dynamic, private_bytes (0 where the device does not tell),
        lane_instructions, instrumented, left_out, inside (the window), reason; the others as in
        Tables. Raises TraceError."""
        return self.recording.launches()

    @property
    def slices(self) -> pd.DataFrame:
        """See Tables, as for all that follow."""
        return self.tables.slices

    @property
    def kernels(self) -> pd.DataFrame:
        return self.tables.kernels

    def cpu_pieces(self) -> Iterator[CpuVectors] | None:
        """The CPU vectors of a few thousand or million slices at a time, in order, read from the
        stream each time; None if there are none. Raises TraceError."""
        return self.recording.cpu_pieces()

    @cached_property
    def cpu(self) -> CpuVectors | None:
        """All CPU vectors. Raises TraceError."""
        pieces = self.cpu_pieces()
        return None if pieces is None else CpuVectors.joined(list(pieces))

    @property
    def gpu(self) -> GpuVectors | None:
        return self.tables.gpu

    @property
    def images(self) -> pd.DataFrame:
        return self.tables.images

    @property
    def threads(self) -> pd.DataFrame:
        return self.tables.threads

    @property
    def copies(self) -> pd.DataFrame:
        return self.tables.copies

    @property
    def distances(self) -> StackDistances | None:
        return self.tables.distances

    @property
    def device_distances(self) -> DeviceDistances | None:
        return self.tables.device_distances


@dataclass(frozen=True)
class Execution:
    """One execution of the program: `profile` or a timer run. Times are TSC ticks."""

    record: ExecutionRecord
    """Its entry in the manifest: exit code, tsc_start, tsc_end, engines, timer mode."""
    processes: list[Process]
    losses: tuple[str, ...] = ()
    """Recording losses, one sentence each."""

    @property
    def name(self) -> str:
        """Name of its folder in the run directory."""
        return self.record.name

    @property
    def role(self) -> str:
        """profile | first | time."""
        return self.record.role
