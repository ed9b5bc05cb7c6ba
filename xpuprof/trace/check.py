# SPDX-License-Identifier: Apache-2.0
"""The invariant checker: what must hold in every run directory, whatever wrote it.

`INVARIANTS` describes each in a sentence; docs/trace-format.md lists them. Streams are read chunk
by chunk: memory stays below 16 bytes a launch, besides blocks, threads and warp vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from xpuprof.arrays import Mask
from xpuprof.trace.boundaries import slice_ticks
from xpuprof.trace.check_cpu import CpuCheck
from xpuprof.trace.check_events import EventsCheck, check_lanes
from xpuprof.trace.findings import Findings, Violation
from xpuprof.trace.layout import CPU
from xpuprof.trace.reader import ended, open_streams, process_folders, process_of
from xpuprof.trace.records import ExecutionRecord
from xpuprof.trace.run import Run
from xpuprof.trace.streams import FILES, SMALL, StreamError, StreamReader
from xpuprof.trace.tables import Process

INVARIANTS = {
    "crc": "every sealed chunk matches its checksum",
    "ids-dense": "ids of programs, kernels, blocks, threads, vectors and grids count up from 0",
    "ids-known": "every id in a record (including blocks) was introduced before it",
    "stream-closed": "in a complete run every stream was closed in order, except for a process "
    "that left by _exit with nothing outstanding",
    "launch-numbers": "launches are numbered 0, 1, 2, ...",
    "launch-totals": "launches seen and instrumented match the END record",
    "launch-counts": "every instrumented launch has exactly one grid, of its own kernel, or a "
    "reason why it has none",
    "tsc-monotone": "time stamps never go back within a thread",
    "tsc-within-run": "stamps lie between the start and the end of their execution",
    "device-order": "no launch ends on the device before it starts, or completes before its launch",
    "slice-ids": "CPU slices are cut 0, 1, 2, ..., one more than launches",
    "slice-vectors": "a thread has at most one vector per slice, and only for cut slices",
    "bbv-instructions": "each CPU vector adds up to its stated instructions",
    "slice-instructions": "a slice's CPU vectors add up to the instructions stated by its cut",
    "run-instructions": "the slices' instructions add up to those of the whole run",
    "streams-present": "every CPU engine of a complete run left its stream",
    "slice-times": "slice times are never negative and add up to the whole run",
    "window": "outside the window nothing is counted, and its slices take no longer than the run",
    "grid-warps": "a grid's runs add up to its warps",
    "grid-instructions": "a grid's warp vectors add up to its stated instructions",
    "lane-instructions": "each warp instruction is executed by at least 1 and at most all of its "
    "work-items",
    "ldv-slices": "a thread or launch has at most one stack-distance vector, for an existing slice",
    "ldv-accesses": "a launch records at most its accesses, and all of them when all its "
    "work-groups are recorded",
    "block-mix": "a GPU block's instruction classes add up to its instructions",
}


@dataclass
class Report:
    """What was checked and which violations were found."""

    run: Path
    status: str
    reason: str
    violations: list[Violation] = field(default_factory=list)
    invariants: dict[str, str] = field(default_factory=lambda: INVARIANTS)
    """Those that apply, each in a sentence."""
    checked: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(
            ("executions", "processes", "streams", "chunks", "launches", "slices", "vectors"), 0
        )
    )

    @property
    def whole(self) -> bool:
        """Whether a whole run was checked: it is complete and holds something to check."""
        return self.status == "complete" and any(
            self.checked.get(name) for name in ("streams", "slices")
        )


def check_run(path: Path) -> Report:
    """Check every invariant of a run directory; a partial run is checked as far as it goes.

    Raises TraceError when the run cannot be read at all.
    """
    run = Run.open(path)
    report = Report(path, run.status, run.reason)
    for entry in run.manifest["executions"]:
        folder = path / entry["name"]
        report.checked["executions"] += 1
        record = ended(folder, run.record(entry), run.status)
        parts = process_folders(folder)
        for part in parts:
            _check_process(part, record, run.status == "complete", report)
        _check_execution(record, parts, run.status, report)
    if run.manifest.get("imported"):
        from xpuprof.trace import check_imported as imports  # loads SciPy

        found = Findings("imported", "")
        report.invariants = imports.INVARIANTS
        report.checked = imports.check_imported(path, found)
        report.violations += found.violations()
    return report


def _check_execution(
    record: ExecutionRecord, parts: Sequence[Path], status: str, report: Report
) -> None:
    """streams-present and slice-times. Boundaries never decrease and none lies after the end
    (boundaries.py), so slices add up to the execution unless it ends before it starts."""
    found = Findings(record.name, "")
    start, end = record.tsc_start, record.tsc_end
    if start and end and end < start:
        found.one("slice-times", f"the execution ended at {end}, before it started at {start}")
    recorded = any((part / FILES[CPU]).exists() for part in parts)
    if status == "complete" and record.cpu_engine != "none" and not recorded:
        found.one(
            "streams-present",
            f"the CPU engine {record.cpu_engine} recorded, but there is no {FILES[CPU]}",
        )
    report.violations += found.violations()


def _check_process(part: Path, record: ExecutionRecord, complete: bool, report: Report) -> None:
    found = Findings(record.name, part.name)
    report.checked["processes"] += 1
    report.checked["streams"] += sum((part / file).exists() for file in FILES.values())
    try:
        with open_streams(part, (*SMALL, "vectors")) as (events, cpu):
            for reader in (events, cpu):
                report.checked["chunks"] += reader.stream.chunks if reader else 0
            launches = events.count("launches") if events else 0
            report.checked["launches"] += launches
            if events:
                report.checked["vectors"] += events.count("vectors")
                EventsCheck(events, found, record, part.name).check()
                check_lanes(events, found, part.name)
            if cpu:
                report.checked["vectors"] += cpu.count("bbvs")
                CpuCheck(cpu, found, record, part.name).check(launches)
            process = None
            if not ("launch-numbers" in found or "slice-ids" in found):
                process = process_of(part, record.role, record.status == "complete", events, cpu)
                report.checked["slices"] += process.sums.slices
                _check_window(process, record, events, cpu, found)
            if complete and not (process and process.complete):
                for reader in (events, cpu):
                    if reader and not reader.stream.ended:
                        name = reader.stream.path.name
                        found.one("stream-closed", f"{name} has no END record")
    except StreamError as error:
        if not error.violates:
            raise
        found.one(error.violates, str(error))
    report.violations += found.violations()


def _check_window(
    process: Process,
    record: ExecutionRecord,
    events: StreamReader | None,
    cpu: StreamReader | None,
    found: Findings,
) -> None:
    """Outside the window nothing is counted, and its slices take no longer than the run."""
    window = process.window
    if window is None:
        return

    def nothing(counted: npt.NDArray[Any], allowed: Mask) -> None:
        """`counted`: slices with counts."""
        own = counted[counted < len(allowed)].astype(np.int64)
        found.add("window", ~allowed[own], "a slice outside the window was counted", slices=own)

    for rows in cpu.chunks("cuts") if cpu else ():
        nothing(rows["cuts"]["slice"][rows["cuts"]["instructions"] > 0], window.wanted)
    busy, done = np.zeros(events.count("grids") if events else 0, bool), 0
    for rows in events.chunks("grids", "launch_grids") if events else ():
        busy[done : done + len(rows["grids"])] = rows["grids"]["warps"] > 0
        done, pairs = done + len(rows["grids"]), rows["launch_grids"]
        nothing(pairs["launch"][busy[pairs["grid"].astype(np.int64)]], window.ends)
    if record.tsc_start and record.tsc_end:
        ticks = slice_ticks(process, record.tsc_start, record.tsc_end)
        whole = record.tsc_end - record.tsc_start
        if (ticks < 0).any() or int(ticks.sum()) > whole:
            found.one(
                "window",
                f"its slices add up to {int(ticks.sum())} ticks, the execution took {whole}",
            )
