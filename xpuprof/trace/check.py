# SPDX-License-Identifier: Apache-2.0
"""The invariant checker: what must hold in every run directory, whatever wrote it.

Each invariant is a function of one process's streams (or of an execution) that yields violations.
`INVARIANTS` describes each in a sentence; docs/trace-format.md lists them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from xpuprof.errors import TraceError
from xpuprof.trace.boundaries import slice_ticks
from xpuprof.trace.digest import digest, digest_execution
from xpuprof.trace.layout import CPU, EVENTS, LAUNCH_FLAGS
from xpuprof.trace.reader import process_folders, read_process
from xpuprof.trace.records import ExecutionRecord, process_meta
from xpuprof.trace.run import Run
from xpuprof.trace.streams import FILES, Stream, StreamError, read_stream
from xpuprof.trace.tables import Process

INVARIANTS = {
    "crc": "every sealed chunk matches its checksum",
    "ids-dense": "ids of programs, kernels, blocks, threads, vectors and grids count up from 0",
    "ids-known": "every id in a record (including blocks) was introduced before it",
    "stream-closed": "in a complete run every stream was closed in order, except for a process "
    "that left by _exit with nothing outstanding",
    "launch-numbers": "launches are numbered 0, 1, 2, ...",
    "launch-totals": "launches seen and instrumented match the END record",
    "launch-counts": "every instrumented launch has exactly one grid, of its own kernel",
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
EXAMPLES = 5
"""Violations of one invariant in one process that are reported individually."""


@dataclass(frozen=True)
class Violation:
    """A violated invariant and where it occurred."""

    invariant: str
    execution: str
    process: str
    message: str
    slice: int | None = None
    thread: int | None = None

    def __str__(self) -> str:
        where = [f"{self.execution}/{self.process}"]
        where += [f"slice {self.slice}"] if self.slice is not None else []
        where += [f"thread {self.thread}"] if self.thread is not None else []
        return f"{self.invariant}: {', '.join(where)}: {self.message}"


@dataclass
class Report:
    """What was checked and which violations were found."""

    run: Path
    status: str
    reason: str
    violations: list[Violation] = field(default_factory=list)
    checked: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(
            ("executions", "processes", "streams", "chunks", "launches", "slices", "vectors"), 0
        )
    )


@dataclass(frozen=True)
class Part:
    """One process's streams under check."""

    execution: ExecutionRecord
    folder: Path
    run_complete: bool
    events: Stream | None
    cpu: Stream | None

    @property
    def name(self) -> str:
        return self.folder.name

    def violation(
        self, invariant: str, message: str, slice: Any = None, thread: Any = None
    ) -> Violation:
        """A violation in this process."""
        return Violation(
            invariant,
            self.execution.name,
            self.name,
            message,
            None if slice is None else int(slice),
            None if thread is None else int(thread),
        )


def check_run(path: Path) -> Report:
    """Check every invariant of a run directory; a partial run is checked as far as it goes.

    Raises TraceError when the run cannot be read at all.
    """
    run = Run.open(path)
    report = Report(path, run.status, run.reason)
    for entry in run.manifest["executions"]:
        record = run.record(entry)
        folder = path / record.name
        report.checked["executions"] += 1
        whole = True
        for part in process_folders(folder) if folder.is_dir() else []:
            whole &= _check_process(part, record, run.status == "complete", report)
        if whole:
            report.violations += _check_times(folder, record, run.status, report)
            report.violations += _check_presence(folder, record, run.status)
    if (path / "imported").is_dir():
        from xpuprof.trace.imported import ImportedSlices  # loads SciPy

        report.checked["slices"] += len(ImportedSlices(path).table())
    return report


def _check_process(folder: Path, record: ExecutionRecord, complete: bool, report: Report) -> bool:
    """Check one process; False when a stream cannot be decoded into tables."""
    streams: dict[int, Stream | None] = {EVENTS: None, CPU: None}
    report.checked["processes"] += 1
    for kind, file in FILES.items():
        if not (folder / file).exists():
            continue
        report.checked["streams"] += 1
        try:
            streams[kind] = read_stream(folder / file, kind)
        except StreamError as error:
            if not error.violates:
                raise
            report.violations.append(
                Violation(error.violates, record.name, folder.name, str(error))
            )
            return False
    part = Part(record, folder, complete, streams[EVENTS], streams[CPU])
    for stream in streams.values():
        report.checked["chunks"] += stream.chunks if stream else 0
    if part.events is not None:
        report.checked["launches"] += len(part.events["launches"])
        report.checked["vectors"] += len(part.events["vectors"])
    if part.cpu is not None:
        report.checked["vectors"] += len(part.cpu["bbvs"])
    found = [violation for check in _CHECKS for violation in check(part)]
    report.violations += found
    return not any(v.invariant in ("launch-numbers", "slice-ids") for v in found)


def _check_presence(folder: Path, record: ExecutionRecord, status: str) -> Iterator[Violation]:
    """streams-present: in a complete run every CPU engine wrote its stream."""
    if status != "complete" or record.cpu_engine == "none":
        return
    parts = process_folders(folder) if folder.is_dir() else []
    if not any((part / FILES[CPU]).exists() for part in parts):
        yield Violation(
            "streams-present",
            record.name,
            "",
            f"the CPU engine {record.cpu_engine} recorded, but there is no {FILES[CPU]}",
        )


def _check_times(
    folder: Path, record: ExecutionRecord, status: str, report: Report
) -> Iterator[Violation]:
    """slice-times and window. Boundaries never decrease and none lies after the end
    (boundaries.py), so slices add up to the execution unless it ends before it starts."""
    execution = digest_execution(folder, record, status)
    start, end = record.tsc_start, record.tsc_end
    for process in execution.processes:
        report.checked["slices"] += process.slices
        if process.window:
            part = read_process(
                folder / process.name, record.role, execution.record.status == "complete"
            )
            yield from _window(part, record.name, start, end)
        if start and end and end < start:
            yield Violation(
                "slice-times",
                record.name,
                process.name,
                f"the execution ended at {end}, before it started at {start}",
            )


def _window(process: Process, execution: str, start: int, end: int) -> Iterator[Violation]:
    window = process.window
    if window is None or window.whole is None:
        return
    slices = window.whole.slices
    unseen = np.ones(len(slices), bool)
    unseen[window.rows] = False
    counted = unseen & (slices["cpu_instructions"].to_numpy() > 0)
    unseen[window.rows] = ~window.inside
    counted |= unseen & (slices["warps"].to_numpy() > 0)
    for i in _first(counted):
        yield Violation(
            "window",
            execution,
            process.name,
            f"a slice outside the window was counted{_more(counted, i)}",
            i,
        )
    if start and end:
        ticks = slice_ticks(process, start, end)
        if (ticks < 0).any() or int(ticks.sum()) > end - start:
            yield Violation(
                "window",
                execution,
                process.name,
                f"its slices add up to {int(ticks.sum())} ticks, the execution took {end - start}",
            )


# ---- invariants of a process ---------------------------------------------------------------------


def _first(mask: npt.NDArray[np.bool_]) -> list[int]:
    """The first few violating rows."""
    return [int(i) for i in np.flatnonzero(mask)[:EXAMPLES]]


def _more(mask: npt.NDArray[np.bool_], row: int) -> str:
    """Append the number of remaining violations to the last example."""
    rest = int(mask.sum()) - EXAMPLES
    return f" (and {rest} more)" if rest > 0 and row == _first(mask)[-1] else ""


def _group_sums(
    values: npt.NDArray[np.uint64], starts: npt.NDArray[np.uint64], lengths: npt.NDArray[Any]
) -> npt.NDArray[np.uint64]:
    """Sums of consecutive groups of `lengths` values that begin at `starts`."""
    running = np.zeros(len(values) + 1, np.uint64)
    np.cumsum(values, out=running[1:])
    return running[starts + lengths.astype(np.uint64)] - running[starts]


def _closed(part: Part) -> Iterator[Violation]:
    for stream in (part.events, part.cpu):
        if stream is None or stream.ended or not part.run_complete:
            continue
        if not (stream is part.events and _left_whole(part)):
            yield part.violation("stream-closed", f"{stream.path.name} has no END record")


def _left_whole(part: Part) -> bool:
    try:
        return digest(part.folder, part.execution.role, True).complete
    except TraceError:
        return False


def _launches(part: Part) -> Iterator[Violation]:
    if part.events is None:
        return
    rows = part.events["launches"]
    wrong = rows["launch"] != np.arange(len(rows), dtype=np.uint64)
    for i in _first(wrong)[:1]:
        yield part.violation("launch-numbers", f"launch {i} has number {rows['launch'][i]}", i)
    if part.events.ended:
        counted = (len(rows), int((rows["flags"] & LAUNCH_FLAGS["INSTRUMENTED"]).sum()))
        if counted != part.events.end:
            yield part.violation(
                "launch-totals",
                f"{counted[0]} launches are recorded, {counted[1]} of them instrumented; END "
                f"counted {part.events.end[0]} and {part.events.end[1]}",
            )


def _launch_counts(part: Part) -> Iterator[Violation]:
    if part.events is None or part.execution.role != "profile":
        return
    launches, pairs = part.events["launches"], part.events["launch_grids"]
    times = np.bincount(pairs["launch"].astype(np.int64), minlength=len(launches))
    instrumented = (launches["flags"] & LAUNCH_FLAGS["INSTRUMENTED"]) != 0
    wrong = (times > 1) | ((times == 1) & ~instrumented)
    if part.events.ended:
        wrong |= (times == 0) & instrumented
    for i in _first(wrong):
        yield part.violation(
            "launch-counts",
            f"{'an instrumented' if instrumented[i] else 'an uninstrumented'} launch has "
            f"{times[i]} grids{_more(wrong, i)}",
            i,
        )
    of_launch = launches["kernel"][pairs["launch"].astype(np.int64)]
    of_grid = part.events["grids"]["kernel"][pairs["grid"].astype(np.int64)]
    wrong = of_launch != of_grid
    for i in _first(wrong):
        yield part.violation(
            "launch-counts",
            f"the launch has kernel {of_launch[i]}, its grid kernel {of_grid[i]}{_more(wrong, i)}",
            pairs["launch"][i],
        )


def _stamps(part: Part) -> Iterator[Violation]:
    if part.events is not None:
        rows = part.events["launches"]
        order = np.argsort(rows["thread"], kind="stable")
        thread, tsc = rows["thread"][order], rows["tsc_run"][order]
        back = np.r_[False, (tsc[1:] < tsc[:-1]) & (thread[1:] == thread[:-1])][: len(tsc)]
        for i in _first(back):
            yield part.violation(
                "tsc-monotone",
                f"launched at {tsc[i]}, before the previous launch at {tsc[i - 1]}{_more(back, i)}",
                order[i],
                thread[i],
            )
        yield from _within(part, rows["tsc_run"], rows["launch"])
        completes = part.events["completes"]
        seen = completes[completes["tsc_host"] != 0]
        yield from _within(part, seen["tsc_host"], seen["launch"])
    if part.cpu is not None:
        tsc = part.cpu["cuts"]["tsc"]
        back = np.r_[False, tsc[1:] < tsc[:-1]][: len(tsc)]
        for i in _first(back):
            yield part.violation(
                "tsc-monotone",
                f"cut at {tsc[i]}, before the previous cut at {tsc[i - 1]}{_more(back, i)}",
                part.cpu["cuts"]["slice"][i],
            )
        yield from _within(part, tsc, part.cpu["cuts"]["slice"])


def _within(
    part: Part, tsc: npt.NDArray[np.uint64], slices: npt.NDArray[Any]
) -> Iterator[Violation]:
    start, end = part.execution.tsc_start, part.execution.tsc_end
    if not start or not end or not part.name.endswith(f"-{part.execution.pid}"):
        return  # a child may outlive the program
    wrong = (tsc < np.uint64(start)) | (tsc > np.uint64(end))
    for i in _first(wrong):
        yield part.violation(
            "tsc-within-run",
            f"stamp {tsc[i]} is not between {start} and {end}{_more(wrong, i)}",
            slices[i],
        )


def _device(part: Part) -> Iterator[Violation]:
    if part.events is None:
        return
    rows, launches = part.events["completes"], part.events["launches"]
    unknown = rows["launch"] >= len(launches)
    for i in _first(unknown):
        yield part.violation(
            "ids-known", f"launch {rows['launch'][i]} completed but was never launched"
        )
    rows = rows[~unknown]
    started = launches["tsc_run"][rows["launch"].astype(np.int64)]
    backward = (rows["dev_end"] != 0) & (rows["dev_end"] < rows["dev_start"])
    early = (rows["tsc_host"] != 0) & (rows["tsc_host"] < started)
    for wrong, message in (
        (backward, "the launch ends on the device before it starts"),
        (early, "the launch completes before it was launched"),
    ):
        for i in _first(wrong):
            yield part.violation("device-order", f"{message}{_more(wrong, i)}", rows["launch"][i])


def _slices(part: Part) -> Iterator[Violation]:
    if part.cpu is None:
        return
    cuts, bbvs = part.cpu["cuts"], part.cpu["bbvs"]
    wrong = cuts["slice"] != np.arange(len(cuts), dtype=np.uint64)
    for i in _first(wrong)[:1]:
        yield part.violation("slice-ids", f"cut {i} has slice number {cuts['slice'][i]}", i)
    launches = len(part.events["launches"]) if part.events is not None else 0
    if len(cuts) > launches + 1 or (part.cpu.ended and len(cuts) != launches + 1):
        yield part.violation(
            "slice-ids", f"{launches} launches make {launches + 1} slices, {len(cuts)} were cut"
        )
    beyond = bbvs["slice"] > len(cuts) if not part.cpu.ended else bbvs["slice"] >= len(cuts)
    key = (bbvs["slice"] << np.uint64(32)) | bbvs["thread"]
    order = np.argsort(key, kind="stable")
    twice = np.zeros(len(key), bool)
    twice[order[1:]] = key[order[1:]] == key[order[:-1]]
    for wrong, message in ((beyond, "the slice was never cut"), (twice, "a second vector")):
        for i in _first(wrong):
            yield part.violation(
                "slice-vectors",
                f"{message}{_more(wrong, i)}",
                bbvs["slice"][i],
                bbvs["thread"][i],
            )


def _cpu_sums(part: Part) -> Iterator[Violation]:
    if part.cpu is None:
        return
    cuts, bbvs = part.cpu["cuts"], part.cpu["bbvs"]
    weights = part.cpu["cpu_blocks"]["instructions"][part.cpu["bbv_block"]].astype(np.uint64)
    sums = _group_sums(weights * part.cpu["bbv_count"], bbvs["first_pair"], bbvs["n_pairs"])
    wrong = sums != bbvs["instructions"]
    for i in _first(wrong):
        yield part.violation(
            "bbv-instructions",
            f"the vector adds up to {sums[i]} instructions, its record says "
            f"{bbvs['instructions'][i]}{_more(wrong, i)}",
            bbvs["slice"][i],
            bbvs["thread"][i],
        )
    totals = np.zeros(len(cuts), np.uint64)
    finished = bbvs["slice"] < len(cuts)
    np.add.at(totals, bbvs["slice"][finished].astype(np.int64), sums[finished])
    wrong = totals != cuts["instructions"]
    for i in _first(wrong):
        yield part.violation(
            "slice-instructions",
            f"the vectors add up to {totals[i]} instructions, the cut says "
            f"{cuts['instructions'][i]}{_more(wrong, i)}",
            i,
        )
    if part.cpu.ended:
        whole = (len(cuts), int(cuts["instructions"].sum()))
        if whole != part.cpu.end:
            yield part.violation(
                "run-instructions",
                f"{whole[0]} slices add up to {whole[1]} instructions; END counted "
                f"{part.cpu.end[0]} slices and {part.cpu.end[1]} instructions",
            )


def _grids(part: Part) -> Iterator[Violation]:
    if part.events is None:
        return
    grids, vectors, blocks = (part.events[name] for name in ("grids", "vectors", "gpu_blocks"))
    warps = _group_sums(part.events["run_length"], grids["first_run"], grids["n_runs"])
    weights = blocks["instructions"][part.events["vector_block"]].astype(np.uint64)
    own = _group_sums(
        weights * part.events["vector_count"], vectors["first_pair"], vectors["n_pairs"]
    )
    runs = own[part.events["run_vector"]] * part.events["run_length"]
    instructions = _group_sums(runs, grids["first_run"], grids["n_runs"])
    for invariant, sums, column in (
        ("grid-warps", warps, "warps"),
        ("grid-instructions", instructions, "instructions"),
    ):
        wrong = sums != grids[column]
        for i in _first(wrong):
            yield part.violation(
                invariant,
                f"grid {i} adds up to {sums[i]} {column}, its record says {grids[column][i]}"
                f"{_more(wrong, i)}",
            )
    yield from _lanes(part)
    wrong = blocks["mix"].sum(axis=1, dtype=np.uint64) != blocks["instructions"]
    for i in _first(wrong):
        yield part.violation(
            "block-mix",
            f"block {i} of kernel {blocks['kernel'][i]} has {blocks['instructions'][i]} "
            f"instructions, its classes {blocks['mix'][i].sum()}{_more(wrong, i)}",
        )


def _lanes(part: Part) -> Iterator[Violation]:
    """Between 1 and warp size work-items a warp instruction."""
    assert part.events is not None
    lanes, grids, launch_grids = (part.events[name] for name in ("lanes", "grids", "launch_grids"))
    warp_size = process_meta(part.events.meta(), part.name).warp_size
    if not len(lanes) or not warp_size:
        return
    grid_of = dict(zip(launch_grids["launch"].tolist(), launch_grids["grid"].tolist(), strict=True))
    for launch, executed in lanes.tolist():
        if launch not in grid_of:
            continue
        instructions = int(grids["instructions"][grid_of[launch]])
        if not instructions <= executed <= warp_size * instructions:
            yield part.violation(
                "lane-instructions",
                f"launch {launch} has {instructions} warp instructions and {executed} lane "
                f"instructions, with {warp_size} work-items a warp",
            )


def _distances(part: Part) -> Iterator[Violation]:
    if part.cpu is not None:
        rows, cuts = part.cpu["ldvs"], len(part.cpu["cuts"])
        last = cuts if part.cpu.ended else cuts + 1  # the unfinished slice may have vectors
        key = (rows["slice"] << np.uint64(32)) | rows["thread"]
        yield from _one_each(part, key, rows["slice"], rows["slice"] >= last)
    if part.events is None:
        return
    rows, launches = part.events["device_ldvs"], part.events["launches"]
    flags = launches["flags"][rows["launch"].astype(np.int64)]
    bare = (flags & LAUNCH_FLAGS["INSTRUMENTED"]) == 0
    yield from _one_each(part, rows["launch"], rows["launch"], bare)
    whole = rows["recorded_groups"] == rows["groups"]
    wrong = np.where(
        whole, rows["recorded"] != rows["accesses"], rows["recorded"] > rows["accesses"]
    ) | (rows["recorded_groups"] > rows["groups"])
    for i in _first(wrong):
        yield part.violation(
            "ldv-accesses",
            f"the launch has {rows['accesses'][i]} accesses by its block counts, of "
            f"{rows['groups'][i]} work-groups; {rows['recorded'][i]} of "
            f"{rows['recorded_groups'][i]} are recorded{_more(wrong, i)}",
            rows["launch"][i],
        )


def _one_each(
    part: Part, key: npt.NDArray[np.uint64], slices: npt.NDArray[Any], stray: npt.NDArray[np.bool_]
) -> Iterator[Violation]:
    order = np.argsort(key, kind="stable")
    twice = np.zeros(len(key), bool)
    twice[order[1:]] = key[order[1:]] == key[order[:-1]]
    for wrong, message in (
        (stray, "a vector without its slice or launch"),
        (twice, "a second vector"),
    ):
        for i in _first(wrong):
            yield part.violation("ldv-slices", f"{message}{_more(wrong, i)}", slices[i])


_CHECKS: tuple[Callable[[Part], Iterator[Violation]], ...] = (
    _closed,
    _launches,
    _launch_counts,
    _stamps,
    _device,
    _slices,
    _cpu_sums,
    _grids,
    _distances,
)
