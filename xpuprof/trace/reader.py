# SPDX-License-Identifier: Apache-2.0
"""The processes of an execution, read chunk by chunk; their tables are made on first use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from xpuprof.arrays import I64, U32
from xpuprof.errors import TraceError
from xpuprof.trace.completions import STAMPS, fill_completions
from xpuprof.trace.digest import digest
from xpuprof.trace.layout import CPU, EVENTS, HOST
from xpuprof.trace.losses import losses_of
from xpuprof.trace.recorded_cpu import cpu_pieces
from xpuprof.trace.records import PROCESS_FOLDER, ExecutionRecord, process_meta
from xpuprof.trace.streams import FILES, SMALL, StreamReader
from xpuprof.trace.sums import Sums
from xpuprof.trace.tables import CpuVectors, DeviceWork, Execution, Process, Tables, Window

if TYPE_CHECKING:
    import pandas as pd


def read_execution(folder: Path, record: ExecutionRecord, run_status: str) -> Execution:
    """One execution. If it did not end in order, it has its finished slices only. Raises
    TraceError."""
    record = ended(folder, record, run_status)
    complete = record.status == "complete"
    processes = [read_process(part, record.role, complete) for part in process_folders(folder)]
    if not processes:  # no device, no CPU engine
        bare = read_process(folder, record.role, complete)
        processes = [replace(bare, name=record.process_name)]
    return Execution(record, processes, losses_of(folder))


def ended(folder: Path, record: ExecutionRecord, run_status: str) -> ExecutionRecord:
    """The execution's entry, partial if its run has ended but it has not. Raises TraceError when
    its folder is missing."""
    if not folder.is_dir():
        raise TraceError(f"{folder} is missing from its run; copy the run directory again")
    if record.status == "running" and run_status != "running":
        return replace(record, status="partial", reason=record.reason or "it never ended")
    return record


def process_folders(folder: Path) -> list[Path]:
    """Folders of an execution's processes, `<host>-<pid>` or `<host>-rank<rank>-<pid>`, ordered by
    host, rank and number."""
    parts = [p for p in folder.iterdir() if any((p / file).exists() for file in FILES.values())]

    def order(part: Path) -> tuple[str, int, int]:
        found = PROCESS_FOLDER.fullmatch(part.name)
        return (found[1], int(found[2] or -1), int(found[3])) if found else (part.name, -1, 0)

    return sorted(parts, key=order)


@contextmanager
def open_streams(
    part: Path, whole: Iterable[str] = SMALL
) -> Iterator[tuple[StreamReader | None, StreamReader | None]]:
    """events.xpt and cpu.xpt of the process in folder `part`; None if missing. `whole`: see
    StreamReader. Raises TraceError."""
    with ExitStack() as stack:
        events, cpu = (
            stack.enter_context(StreamReader(part / file, kind, whole))
            if (part / file).exists()
            else None
            for kind, file in FILES.items()
        )
        yield events, cpu


def read_process(part: Path, role: str, complete: bool) -> Process:
    """One process's part. `complete`: its execution ended in order. Raises TraceError."""
    with open_streams(part) as (events, cpu):
        return process_of(part, role, complete, events, cpu)


def process_of(
    part: Path, role: str, complete: bool, events: StreamReader | None, cpu: StreamReader | None
) -> Process:
    """As `read_process`, from open streams."""
    found = digest(events, cpu, role, complete)
    texts = events.stream.meta() if events else {}
    texts |= {f"cpu_{key}": text for key, text in (cpu.stream.meta() if cpu else {}).items()}
    meta = process_meta(texts, part.name)
    streams = _Streams(part, role, found.sums, found.window)
    return Process(part.name, meta, found.complete, found.sums, streams, found.window, found.order)


@dataclass(frozen=True, eq=False)
class _Streams:
    """The streams of a process in folder `part`; see tables.Recording."""

    part: Path
    role: str
    sums: Sums
    window: Window | None

    def tables(self) -> Tables:
        from xpuprof.trace.recorded_tables import tables_of  # loads pandas

        return tables_of(self.part, self.role, self.sums, self.window)

    def cpu_pieces(self) -> Iterator[CpuVectors] | None:
        path = self.part / FILES[CPU]
        return cpu_pieces(path, self.sums.of_slices, self.window) if path.exists() else None

    def launches(self) -> pd.DataFrame:
        from xpuprof.trace.recorded_launches import launches_of  # loads pandas

        size, profile = self.sums.of_launches, self.role == "profile"
        return launches_of(self.part, size, self.window, profile=profile)

    def launch_threads(self) -> U32:
        threads, done = np.zeros(self.sums.of_launches, np.uint32), 0
        if not (self.part / FILES[EVENTS]).exists():
            return threads
        with StreamReader(self.part / FILES[EVENTS], EVENTS) as events:
            for rows in events.chunks("launches"):
                own = rows["launches"]["thread"][: len(threads) - done]
                threads[done : done + len(own)] = own
                done += len(own)
        return threads

    def fill_completions(self, ticks: I64) -> None:
        path = self.part / FILES[EVENTS]
        if path.exists():
            fill_completions(path, ticks)

    def device_work(self, ticks: npt.NDArray[np.float64]) -> DeviceWork:
        ticks[:], done, latest = np.nan, 0, np.zeros(1, np.uint64)
        if not (self.part / FILES[EVENTS]).exists():
            return DeviceWork(np.empty(0, np.int8), (), np.empty(0, np.int64))
        with StreamReader(self.part / FILES[EVENTS], EVENTS) as events:
            calls = (rows["hosts"] for rows in events.chunks("hosts"))
            stamps = [own["tsc_start"][own["kind"] == HOST["BUILD"]] for own in calls]
            built = np.concatenate([np.empty(0, np.uint64), *stamps])
            # Known only after a walk.
            names = np.array(events.stream.texts(events.stream["kernels"]["name"]), str)
            distinct, of_id = np.unique(names, return_inverse=True)
            # Signed, with room for one more.
            kernel = np.zeros(len(ticks), np.min_scalar_type(-len(distinct) - 2))
            owner = np.zeros(len(built), np.int64)
            for rows in events.chunks("launches", "completes"):
                own = rows["launches"][: len(ticks) - done]
                kernel[done : done + len(own)] = of_id[own["kernel"].astype(np.int64)]
                done += len(own)
                starts = np.maximum.accumulate(np.append(latest, own["tsc_run"]))
                owner += np.searchsorted(starts[1:], built, side="right")
                latest = starts[-1:]
                ends = rows["completes"][rows["completes"]["dev_end"] != 0]
                ends = ends[ends["launch"] < len(ticks)]
                ticks[ends["launch"].astype(np.int64)] = ends["dev_end"] - ends["dev_start"]
        return DeviceWork(kernel, distinct.tolist(), np.unique(owner))

    def last_stamp(self) -> int:
        if not (self.part / FILES[EVENTS]).exists():
            return 0
        stamps = [(table, column) for table, column, _ in STAMPS] + [("copies", "tsc_end")]
        last = 0
        with StreamReader(self.part / FILES[EVENTS], EVENTS) as events:
            for rows in events.chunks("launches", "completes", "copies"):
                for table, column in stamps:
                    last = int(rows[table][column].max(initial=last))
        return last
