# SPDX-License-Identifier: Apache-2.0
"""The invariant checker: what must hold in every run directory, whatever wrote it.

`INVARIANTS` describes each in a sentence; docs/trace-format.md lists them. Streams are read chunk
by chunk: memory stays below 16 bytes a launch, besides blocks, threads and warp vectors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from xpuprof.arrays import U64, Mask
from xpuprof.trace.boundaries import slice_ticks
from xpuprof.trace.findings import Findings, Numbers, Violation
from xpuprof.trace.layout import CPU, LAUNCH_FLAGS
from xpuprof.trace.pieces import pieces
from xpuprof.trace.reader import ended, open_streams, process_folders, process_of
from xpuprof.trace.records import ExecutionRecord, process_meta
from xpuprof.trace.run import Run
from xpuprof.trace.streams import FILES, SMALL, StreamError, StreamReader
from xpuprof.trace.tables import Process

Rows = Mapping[str, npt.NDArray[Any]]
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
    invariants: Mapping[str, str] = field(default_factory=lambda: INVARIANTS)
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
                _Events(events, found, record, part.name).check()
                _check_lanes(events, found, part.name)
            if cpu:
                report.checked["vectors"] += cpu.count("bbvs")
                _Cpu(cpu, found, record, part.name).check(launches)
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


# ---- what holds in a stream ----------------------------------------------------------------------


def _group_sums(values: U64, lengths: npt.NDArray[Any]) -> U64:
    """Sums of consecutive groups of `lengths` values."""
    running = np.zeros(len(values) + 1, np.uint64)
    np.cumsum(values, out=running[1:])
    ends: U64 = running[np.cumsum(np.r_[0, lengths.astype(np.int64)])]
    return np.diff(ends)


class _Stamps:
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


class _Once:
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


class _Events:
    """Invariants of events.xpt, checked in one walk."""

    def __init__(
        self, events: StreamReader, found: Findings, record: ExecutionRecord, part: str
    ) -> None:
        self._events, self._found = events, found
        self._profile = record.role == "profile"
        self._stamps = _Stamps(found, record, part)
        launches, kernels = events.count("launches"), np.min_scalar_type(events.count("kernels"))
        self._kernel = np.zeros(launches, kernels)
        self._counted = np.zeros(launches, bool)
        self._grids_of = np.zeros(launches, np.uint8)
        self._launched = np.zeros(launches, np.uint64)
        self._kernel_of_grid = np.zeros(events.count("grids"), kernels)
        self._of_vector = np.zeros(events.count("vectors"), np.uint64)
        self._done = {"launches": 0, "vectors": 0, "grids": 0}
        self._distances = _Once("device_ldvs")

    def check(self) -> None:
        """Walk through the stream."""
        for rows in self._events.chunks(
            *("launches", "completes", "launch_grids", "vectors", "vector_block", "vector_count"),
            *("grids", "run_vector", "run_length", "device_ldvs", "uncounted"),
        ):
            self._launches(rows["launches"])
            self._grids(rows)
            self._counted[rows["uncounted"]["launch"].astype(np.int64)] = False
            self._pairs(rows["launch_grids"])
            self._completes(rows["completes"])
            self._accesses(rows["device_ldvs"])
        self._totals()
        self._distances.check(self._events, self._found, "ldv-slices")

    def _next(self, table: str, rows: npt.NDArray[Any]) -> slice:
        """Where these rows lie in their table."""
        first = self._done[table]
        self._done[table] = first + len(rows)
        return slice(first, self._done[table])

    def _launches(self, rows: npt.NDArray[Any]) -> None:
        span = self._next("launches", rows)
        places, numbers = np.arange(span.start, span.stop), rows["launch"]
        message = "launch {} has number {}"
        self._found.add(
            "launch-numbers", numbers != places, message, places, numbers, slices=places
        )
        self._kernel[span] = rows["kernel"]
        self._counted[span] = (rows["flags"] & LAUNCH_FLAGS["INSTRUMENTED"]) != 0
        self._launched[span] = rows["tsc_run"]
        self._stamps.ascend("launch", rows["tsc_run"], numbers, rows["thread"])
        self._stamps.within(rows["tsc_run"], numbers)

    def _grids(self, rows: Rows) -> None:
        grids, vectors, lengths = rows["grids"], rows["vectors"], rows["run_length"]
        blocks = self._events.stream["gpu_blocks"]["instructions"].astype(np.uint64)
        counts = blocks[rows["vector_block"]] * rows["vector_count"]
        own, span = self._of_vector, self._next("grids", grids)
        own[self._next("vectors", vectors)] = _group_sums(counts, vectors["n_pairs"])
        for column, values in (
            ("warps", lengths),
            ("instructions", own[rows["run_vector"]] * lengths),
        ):
            sums = _group_sums(values, grids["n_runs"])
            self._found.add(
                f"grid-{column}",
                sums != grids[column],
                f"grid {{}} adds up to {{}} {column}, its record says {{}}",
                range(span.start, span.stop),
                sums,
                grids[column],
            )
        self._kernel_of_grid[span] = grids["kernel"]

    def _pairs(self, pairs: npt.NDArray[Any]) -> None:
        """Grids of launches."""
        if not self._profile:
            return
        launch, grid = pairs["launch"].astype(np.int64), pairs["grid"].astype(np.int64)
        own, times = np.unique(launch, return_counts=True)
        self._grids_of[own] = np.minimum(self._grids_of[own] + times, 255)
        a, b = self._kernel[launch], self._kernel_of_grid[grid]
        message = "the launch has kernel {}, its grid kernel {}"
        self._found.add("launch-counts", a != b, message, a, b, slices=launch)

    def _completes(self, rows: npt.NDArray[Any]) -> None:
        known = rows["launch"] < len(self._launched)
        message = "launch {} completed but was never launched"
        self._found.add("ids-known", ~known, message, rows["launch"])
        rows = rows[known]
        host, start, end = (rows[name] for name in ("tsc_host", "dev_start", "dev_end"))
        self._stamps.within(host[host != 0], rows["launch"][host != 0])
        for wrong, message in (
            ((end != 0) & (end < start), "the launch ends on the device before it starts"),
            (
                (host != 0) & (host < self._launched[rows["launch"].astype(np.int64)]),
                "the launch completes before it was launched",
            ),
        ):
            self._found.add("device-order", wrong, message, slices=rows["launch"])

    def _accesses(self, rows: npt.NDArray[Any]) -> None:
        self._distances.see(rows)
        stray = ~self._counted[rows["launch"].astype(np.int64)]
        message = "a vector without its slice or launch"
        self._found.add("ldv-slices", stray, message, slices=rows["launch"])
        every, recorded = rows["accesses"], rows["recorded"]
        groups, own = rows["groups"], rows["recorded_groups"]
        self._found.add(
            "ldv-accesses",
            np.where(own == groups, recorded != every, recorded > every) | (own > groups),
            "the launch has {} accesses by its block counts, of {} work-groups; {} of {} are "
            "recorded",
            *(every, groups, recorded, own),
            slices=rows["launch"],
        )

    def _totals(self) -> None:
        """What holds for the whole stream."""
        stream = self._events.stream
        for span in pieces(len(self._counted) if self._profile else 0):
            times, counted = self._grids_of[span], self._counted[span]
            wrong = (times > 1) | ((times == 1) & ~counted)
            if stream.ended:
                wrong |= (times == 0) & counted
            kinds = np.where(counted, "an instrumented", "an uninstrumented")
            places = range(span.start, span.stop)
            message = "{} launch has {} grids"
            self._found.add("launch-counts", wrong, message, kinds, times, slices=places)
        uncounted = self._events.count("uncounted")
        totals = (len(self._counted), int(self._counted.sum()) + uncounted)
        if stream.ended and totals != stream.end:
            self._found.one(
                "launch-totals",
                f"{totals[0]} launches are recorded, {totals[1]} of them instrumented; END counted "
                f"{stream.end[0]} and {stream.end[1]}",
            )
        blocks = stream["gpu_blocks"]
        mix = blocks["mix"].sum(axis=1, dtype=np.uint64)
        self._found.add(
            "block-mix",
            mix != blocks["instructions"],
            "block {} of kernel {} has {} instructions, its classes {}",
            *(range(len(blocks)), blocks["kernel"], blocks["instructions"], mix),
        )


def _check_lanes(events: StreamReader, found: Findings, part: str) -> None:
    """Between 1 and warp size work-items a warp instruction."""
    warp_size = process_meta(events.stream.meta(), part).warp_size
    if not events.count("lanes") or not warp_size:
        return
    grids, done = events.count("grids"), 0
    grid = np.zeros(events.count("launches"), np.min_scalar_type(grids + 1))  # 1-based, 0: none
    of_grid = np.zeros(grids + 1, np.uint64)
    for rows in events.chunks("launch_grids", "grids"):
        pairs, last = rows["launch_grids"], done + len(rows["grids"])
        of_grid[done + 1 : last + 1] = rows["grids"]["instructions"]
        grid[pairs["launch"].astype(np.int64)] = pairs["grid"] + np.uint64(1)
        done = last
    for rows in events.chunks("lanes"):
        lanes = rows["lanes"][grid[rows["lanes"]["launch"].astype(np.int64)] > 0]
        executed, warp = lanes["instructions"], of_grid[grid[lanes["launch"].astype(np.int64)]]
        found.add(
            "lane-instructions",
            (executed < warp) | (executed > np.uint64(warp_size) * warp),
            "launch {} has {} warp instructions and {} lane instructions, "
            f"with {warp_size} work-items a warp",
            *(lanes["launch"], warp, executed),
        )


class _Cpu:
    """Invariants of cpu.xpt, checked in one walk."""

    def __init__(
        self, cpu: StreamReader, found: Findings, record: ExecutionRecord, part: str
    ) -> None:
        self._cpu, self._found = cpu, found
        self._stamps = _Stamps(found, record, part)
        self._cut = self._instructions = 0
        # The unfinished slice of a stream that was cut short may have vectors.
        self._slices = cpu.count("cuts") + (not cpu.stream.ended)
        self._missing = np.zeros(cpu.count("cuts"), np.int64)
        self._vectors, self._distances = _Once("bbvs"), _Once("ldvs")

    def check(self, launches: int) -> None:
        """Walk through the stream. `launches`: in events.xpt."""
        for rows in self._cpu.chunks("cuts", "bbvs", "bbv_block", "bbv_count", "ldvs"):
            self._bbvs(rows)
            self._cuts(rows["cuts"])
            self._distances.see(rows["ldvs"])
            of = rows["ldvs"]["slice"]
            message = "a vector without its slice or launch"
            self._found.add("ldv-slices", of >= self._slices, message, slices=of)
        self._totals(launches)
        self._vectors.check(self._cpu, self._found, "slice-vectors")
        self._distances.check(self._cpu, self._found, "ldv-slices")

    def _bbvs(self, rows: Rows) -> None:
        bbvs = rows["bbvs"]
        self._vectors.see(bbvs)
        of, thread = bbvs["slice"], bbvs["thread"]
        beyond, message = of >= self._slices, "the slice was never cut"
        self._found.add("slice-vectors", beyond, message, slices=of, threads=thread)
        weights = self._cpu.stream["cpu_blocks"]["instructions"].astype(np.uint64)
        sums = _group_sums(weights[rows["bbv_block"]] * rows["bbv_count"], bbvs["n_pairs"])
        self._found.add(
            "bbv-instructions",
            sums != bbvs["instructions"],
            "the vector adds up to {} instructions, its record says {}",
            *(sums, bbvs["instructions"]),
            slices=of,
            threads=thread,
        )
        cut = of < len(self._missing)
        np.subtract.at(self._missing, of[cut].astype(np.int64), sums[cut].astype(np.int64))

    def _cuts(self, cuts: npt.NDArray[Any]) -> None:
        places, of = np.arange(self._cut, self._cut + len(cuts)), cuts["slice"]
        message = "cut {} has slice number {}"
        self._found.add("slice-ids", of != places, message, places, of, slices=places)
        self._stamps.ascend("cut", cuts["tsc"], of)
        self._stamps.within(cuts["tsc"], of)
        self._missing[places] += cuts["instructions"].astype(np.int64)
        self._instructions += int(cuts["instructions"].sum())
        self._cut += len(cuts)

    def _totals(self, launches: int) -> None:
        """What holds for the whole stream."""
        stream, cuts = self._cpu.stream, len(self._missing)
        if cuts > launches + 1 or (stream.ended and cuts != launches + 1):
            message = f"{launches} launches make {launches + 1} slices, {cuts} were cut"
            self._found.one("slice-ids", message)
        for span in pieces(cuts):
            missing, places = self._missing[span], range(span.start, span.stop)
            message = "the vectors and the cut differ by {} instructions"
            self._found.add("slice-instructions", missing != 0, message, missing, slices=places)
        if stream.ended and (cuts, self._instructions) != stream.end:
            self._found.one(
                "run-instructions",
                f"{cuts} slices add up to {self._instructions} instructions; END counted "
                f"{stream.end[0]} slices and {stream.end[1]} instructions",
            )


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
