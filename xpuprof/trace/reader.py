# SPDX-License-Identifier: Apache-2.0
"""From streams to tables: the processes of an execution as in trace/tables.py."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from xpuprof.errors import TraceError
from xpuprof.trace.coordinates import EXIT_KERNEL
from xpuprof.trace.layout import CPU, EVENTS, LAUNCH_FLAGS, LDV_BUCKETS, LDV_FLAGS, TABLES
from xpuprof.trace.losses import losses_of
from xpuprof.trace.records import ExecutionRecord, ProcessMeta, process_meta
from xpuprof.trace.streams import FILES, Stream, read_stream
from xpuprof.trace.tables import (
    Blocks,
    CpuVectors,
    DeviceDistances,
    Execution,
    GpuVectors,
    Process,
    StackDistances,
)
from xpuprof.trace.window import clip, find_window

_AXES = ("x", "y", "z")
_SIZES = (("g", "global"), ("l", "local"), ("o", "offset"))


def read_execution(folder: Path, record: ExecutionRecord, run_status: str) -> Execution:
    """Decode one execution.

    If it did not end in order, only finished slices are returned. Raises TraceError.
    """
    record = ended(folder, record, run_status)
    complete = record.status == "complete"
    processes = [read_process(part, record.role, complete) for part in process_folders(folder)]
    bare = _bare_process(record, complete)
    return Execution(record, processes or [bare], losses_of(folder))


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
        found = re.fullmatch(r"(.*?)(?:-rank(\d+))?-(\d+)", part.name)
        return (found[1], int(found[2] or -1), int(found[3])) if found else (part.name, -1, 0)

    return sorted(parts, key=order)


def read_process(part: Path, role: str, complete: bool) -> Process:
    """Decode one process's part. `complete`: its execution ended in order."""
    events, cpu = (
        read_stream(part / FILES[kind], kind) if (part / FILES[kind]).exists() else None
        for kind in (EVENTS, CPU)
    )
    return tables(part.name, role, complete, events, cpu)


def tables(
    name: str, role: str, complete: bool, events: Stream | None, cpu: Stream | None
) -> Process:
    """The tables of a process from its streams; either may be None.

    With a window, only the tables of the window."""
    streams = [stream for stream in (events, cpu) if stream is not None]
    closed = all(stream.ended for stream in streams) if streams else complete
    kernels = _kernels(events)
    launches = _launches(events, kernels, name)
    grids = _launch_grid(events, len(launches))
    cuts = _finished_cuts(cpu)
    in_order = complete and (cpu is None or cpu.ended)
    in_order &= events is None or events.chunks > 0  # a zero-length file is incomplete
    closed |= in_order and events is not None and _all_known(launches, grids, role)
    finished = len(launches) + 1
    if not closed and not in_order:
        finished = _finished(launches, grids, cuts if cpu else None, profile=role == "profile")
        launches, grids = launches.iloc[:finished], grids[:finished]
    elif cpu is not None and cuts > finished:
        raise TraceError(
            f"{cpu.path} has {cuts} slices where the launches make {finished}; see what is wrong "
            "with xpuprof check, and record the run again"
        )
    launches = launches.assign(
        instrumented=launches["instrumented"].to_numpy() & ((grids >= 0) | (role != "profile"))
    )
    window = find_window(events, ~launches["inside"].to_numpy())
    process = Process(
        name=name,
        meta=_meta(name, events, cpu),
        launches=launches,
        slices=_slices(launches, finished, events, cpu, grids),
        kernels=kernels,
        cpu=_cpu_vectors(cpu, finished) if cpu is not None else None,
        gpu=_gpu_vectors(events, grids) if events and role == "profile" and len(grids) else None,
        images=_images(cpu),
        threads=_threads(cpu),
        copies=_copies(events),
        complete=closed,
        distances=_distances(cpu, finished) if cpu is not None and len(cpu["ldvs"]) else None,
        device_distances=_device_distances(events, len(launches)) if events else None,
    )
    return process if window is None else clip(process, window)


def _all_known(launches: pd.DataFrame, grids: npt.NDArray[np.int64], role: str) -> bool:
    """Whether no launch awaits its counts (profile) or its end (timer)."""
    if role == "profile":
        return bool(((grids >= 0) | ~launches["instrumented"].to_numpy()).all())
    return bool(((launches["tsc_complete"] != 0) | (launches["dev_end"] != 0)).all())


def _bare_process(record: ExecutionRecord, complete: bool) -> Process:
    """The program's process when it has no stream: no device, no CPU engine."""
    return tables(record.process_name, record.role, complete, None, None)


def _meta(name: str, events: Stream | None, cpu: Stream | None) -> ProcessMeta:
    """META of events.xpt, and of cpu.xpt with `cpu_` before the key."""
    texts = events.meta() if events else {}
    texts |= {f"cpu_{key}": value for key, value in (cpu.meta() if cpu else {}).items()}
    return process_meta(texts, name)


# ---- launches ------------------------------------------------------------------------------------


def _objects(values: list[str]) -> npt.NDArray[Any]:
    result = np.empty(len(values), dtype=object)
    result[:] = values
    return result


def _kernels(events: Stream | None) -> pd.DataFrame:
    if events is None:
        empty = np.empty(0, dtype=object)
        columns = ("name", "program", "program_kind", "origin", "n_blocks", "reason")
        return pd.DataFrame({"kernel_id": np.empty(0, np.int64)} | dict.fromkeys(columns, empty))
    kernels, programs = events["kernels"], events["programs"]
    hashes = _objects([row["hash"].tobytes().hex() for row in programs])
    origins = _objects(events.texts(programs["origin"]))
    return pd.DataFrame(
        {
            "kernel_id": np.arange(len(kernels)),
            "name": _objects(events.texts(kernels["name"])),
            "program": hashes[kernels["program"]],
            "program_kind": programs["kind"][kernels["program"]].astype(np.int64),
            "origin": origins[kernels["program"]],
            "n_blocks": kernels["n_blocks"].astype(np.int64),
            "reason": _objects(events.texts(kernels["reason"])),
        }
    )


def _nth(codes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """For each entry, the number of equal entries up to and including it."""
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    first = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]) if len(codes) else order
    starts = np.repeat(first, np.diff(np.r_[first, len(codes)]))
    result = np.empty(len(codes), np.int64)
    result[order] = np.arange(len(codes)) - starts + 1
    return result


def _launches(events: Stream | None, kernels: pd.DataFrame, name: str) -> pd.DataFrame:
    rows = events["launches"] if events else np.empty(0, TABLES["launches"].dtype)
    numbers = rows["launch"].astype(np.int64)
    if not np.array_equal(numbers, np.arange(len(rows))):
        raise TraceError(
            f"the launches of process {name} are not numbered in order; see what is wrong with "
            "xpuprof check, and record the run again"
        )
    kernel_id = rows["kernel"].astype(np.int64)
    names = kernels["name"].to_numpy(dtype=object)
    codes = np.unique(names.astype(str), return_inverse=True)[1].astype(np.int64)
    host, start, end = _completions(events, len(rows))
    return pd.DataFrame(
        {
            "launch": numbers,
            "kernel": names[kernel_id],
            "call": _nth(codes[kernel_id]),
            "kernel_id": kernel_id,
            "program": kernels["program"].to_numpy(dtype=object)[kernel_id],
            "dimensions": rows["dimensions"].astype(np.int64),
            **{
                prefix + axis: rows[field][:, i].astype(np.int64)
                for prefix, field in _SIZES
                for i, axis in enumerate(_AXES)
            },
            "queue": rows["queue"].astype(np.int64),
            "device": rows["device"].astype(np.int64),
            "thread": rows["thread"].astype(np.int64),
            "tsc_run": rows["tsc_run"],
            "tsc_complete": host,
            "dev_start": start,
            "dev_end": end,
            **_resources(events, len(rows)),
            "lane_instructions": _lanes(events, len(rows)),
            "instrumented": (rows["flags"] & LAUNCH_FLAGS["INSTRUMENTED"]) != 0,
            "left_out": (rows["flags"] & LAUNCH_FLAGS["LEFT_OUT"]) != 0,
            "inside": (rows["flags"] & LAUNCH_FLAGS["OUTSIDE"]) == 0,
            "reason": _objects(events.texts(rows["reason"]) if events else []),
        }
    )


def _completions(events: Stream | None, launches: int) -> tuple[npt.NDArray[np.uint64], ...]:
    """tsc_host, dev_start, dev_end of each launch; the last known stamp if there are several
    records."""
    columns = [np.zeros(launches, np.uint64) for _ in range(3)]
    if events is not None:
        rows = events["completes"][events["completes"]["launch"] < launches]
        for column, field in zip(columns, ("tsc_host", "dev_start", "dev_end"), strict=True):
            known = rows[rows[field] != 0]
            column[known["launch"].astype(np.int64)] = known[field]
    return tuple(columns)


def _resources(events: Stream | None, launches: int) -> dict[str, npt.NDArray[np.int64]]:
    """Device resources of each launch; 0 if unknown."""
    names = ("registers", "local_static", "local_dynamic", "private_bytes")
    columns = {name: np.zeros(launches, np.int64) for name in names}
    if events is not None:
        rows = events["resources"]
        for name, column in columns.items():
            column[rows["launch"].astype(np.int64)] = rows[name]
    return columns


def _lanes(events: Stream | None, launches: int) -> npt.NDArray[np.uint64]:
    """Instructions of each launch, counted once per work-item; 0 if the engine does not record
    them."""
    lanes = np.zeros(launches, np.uint64)
    if events is not None:
        rows = events["lanes"]
        lanes[rows["launch"].astype(np.int64)] = rows["instructions"]
    return lanes


def _launch_grid(events: Stream | None, launches: int) -> npt.NDArray[np.int64]:
    grid = np.full(launches, -1, np.int64)
    if events is not None:
        rows = events["launch_grids"]
        grid[rows["launch"].astype(np.int64)] = rows["grid"].astype(np.int64)
    return grid


# ---- slices --------------------------------------------------------------------------------------


def _finished_cuts(cpu: Stream | None) -> int:
    """Number of slices that the CPU engine finished."""
    return int(cpu["cuts"]["slice"].max()) + 1 if cpu is not None and len(cpu["cuts"]) else 0


def _finished(
    launches: pd.DataFrame, grids: npt.NDArray[np.int64], cuts: int | None, profile: bool
) -> int:
    """Number of complete slices of a process that did not end in order.

    A slice is finished when its launch is recorded, its CPU vectors are cut and, in a profile, its
    launch was counted. Trailing launches whose counts were never read back are not finished.
    """
    finished = len(launches) if cuts is None else min(len(launches), cuts)
    if profile:
        whole = np.flatnonzero((grids >= 0) | ~launches["instrumented"].to_numpy())
        finished = min(finished, int(whole[-1]) + 1 if len(whole) else 0)
    return finished


def _slices(
    launches: pd.DataFrame,
    finished: int,
    events: Stream | None,
    cpu: Stream | None,
    grids: npt.NDArray[np.int64],
) -> pd.DataFrame:
    """One row per slice; row i describes launch i, which ends it, and the last row the exit."""
    n = len(launches)
    exits = finished - n  # 1, or 0 if the last slice never ended

    def column(name: str, at_exit: Any) -> npt.NDArray[Any]:
        values = launches[name].to_numpy()
        return np.concatenate([values, np.full(exits, at_exit, values.dtype)])

    warps, instructions = np.zeros(finished, np.int64), np.zeros(finished, np.int64)
    counted = np.flatnonzero(grids >= 0)
    if events is not None:
        warps[counted] = events["grids"]["warps"][grids[counted]]
        instructions[counted] = events["grids"]["instructions"][grids[counted]]
    return pd.DataFrame(
        {
            "slice": np.arange(finished),
            "kernel": column("kernel", EXIT_KERNEL),
            "call": column("call", 1),
            "program": column("program", ""),
            **{
                prefix + axis: column(prefix + axis, 0)
                for prefix, _ in _SIZES[:2]
                for axis in _AXES
            },
            "warps": warps,
            "cpu_instructions": _cut_instructions(cpu, finished),
            "gpu_instructions": instructions,
            "instrumented": column("instrumented", True),
            "left_out": column("left_out", False),
        }
    )


def _cut_instructions(cpu: Stream | None, finished: int) -> npt.NDArray[np.int64]:
    result = np.zeros(finished, np.int64)
    if cpu is not None:
        cuts = cpu["cuts"][cpu["cuts"]["slice"] < finished]
        result[cuts["slice"].astype(np.int64)] = cuts["instructions"]
    return result


# ---- vectors -------------------------------------------------------------------------------------


def _starts(counts: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
    """0 and the running sum of `counts`."""
    result = np.zeros(len(counts) + 1, np.uint64)
    np.cumsum(counts, out=result[1:], dtype=np.uint64)
    return result


def _cpu_vectors(cpu: Stream, finished: int) -> CpuVectors:
    bbvs, block, count = cpu["bbvs"], cpu["bbv_block"], cpu["bbv_count"]
    blocks = Blocks(
        np.ascontiguousarray(cpu["cpu_blocks"]["identity"]),
        np.ascontiguousarray(cpu["cpu_blocks"]["instructions"]),
    )
    key = (bbvs["slice"] << np.uint64(32)) | bbvs["thread"]
    if np.any(key[1:] < key[:-1]):
        order = np.argsort(key, kind="stable")
        bbvs = bbvs[order]
        starts = np.repeat(
            bbvs["first_pair"] - _starts(bbvs["n_pairs"])[:-1], bbvs["n_pairs"].astype(np.int64)
        )
        at = np.arange(len(block), dtype=np.uint64) + starts
        block, count = block[at], count[at]
    whole = int(np.searchsorted(bbvs["slice"], finished))
    pairs = bbvs["n_pairs"][:whole].astype(np.int64)
    total = int(pairs.sum())
    pair_start = _starts(pairs)
    first = np.searchsorted(bbvs["slice"][:whole], np.arange(finished + 1, dtype=np.uint64))
    return CpuVectors(
        slice=np.repeat(bbvs["slice"][:whole].astype(np.uint32), pairs),
        thread=np.repeat(bbvs["thread"][:whole].astype(np.uint32), pairs),
        block=block[:total],
        count=count[:total],
        slice_start=pair_start[first],
        blocks=blocks,
        block_image=np.ascontiguousarray(cpu["cpu_blocks"]["image"]),
        block_offset=np.ascontiguousarray(cpu["cpu_blocks"]["offset"]),
    )


def _histograms(stream: Stream, rows: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
    """Buckets of every row of a stack-distance table: uint64[rows, 64]."""
    count = np.zeros((len(rows), LDV_BUCKETS), np.uint64)
    of_pair = np.repeat(np.arange(len(rows)), rows["n_pairs"].astype(np.int64))
    count[of_pair, stream["ldv_bucket"]] = stream["ldv_count"]
    return count


def _device_distances(events: Stream, launches: int) -> DeviceDistances | None:
    rows = events["device_ldvs"]
    if not len(rows):
        return None
    count = _histograms(events, rows)
    order = np.argsort(rows["launch"], kind="stable")
    order = order[rows["launch"][order] < launches]
    rows = rows[order]
    return DeviceDistances(
        launch=rows["launch"].astype(np.uint32),
        count=count[order],
        accesses=np.ascontiguousarray(rows["accesses"]),
        recorded=np.ascontiguousarray(rows["recorded"]),
        groups=np.ascontiguousarray(rows["groups"]),
        recorded_groups=np.ascontiguousarray(rows["recorded_groups"]),
        beyond=(rows["flags"] & LDV_FLAGS["BEYOND"]) != 0,
        forgot=(rows["flags"] & LDV_FLAGS["FORGOT"]) != 0,
    )


def _distances(cpu: Stream, finished: int) -> StackDistances:
    rows = cpu["ldvs"]
    count = _histograms(cpu, rows)
    order = np.lexsort((rows["thread"], rows["slice"]))
    order = order[rows["slice"][order] < finished]
    return StackDistances(
        rows["slice"][order].astype(np.uint32),
        rows["thread"][order].astype(np.uint32),
        count[order],
    )


def _gpu_vectors(events: Stream, grids: npt.NDArray[np.int64]) -> GpuVectors:
    blocks = events["gpu_blocks"]
    return GpuVectors(
        launch_grid=grids,
        grid_start=_starts(events["grids"]["n_runs"]),
        run_vector=events["run_vector"],
        run_length=events["run_length"],
        vector_start=_starts(events["vectors"]["n_pairs"]),
        block=events["vector_block"],
        count=events["vector_count"],
        blocks=Blocks(
            np.ascontiguousarray(blocks["identity"]), np.ascontiguousarray(blocks["instructions"])
        ),
        kernel_block_start=_starts(events["kernels"]["n_blocks"]),
        mix=np.ascontiguousarray(blocks["mix"]),
    )


# ---- what else a process has ---------------------------------------------------------------------


def _images(cpu: Stream | None) -> pd.DataFrame:
    build_ids, paths = (
        (cpu.texts(cpu["images"]["build_id"]), cpu.texts(cpu["images"]["path"]))
        if cpu
        else ([], [])
    )
    return pd.DataFrame(
        {
            "image": np.arange(len(paths)),
            "build_id": _objects(build_ids),
            "path": _objects(paths),
        }
    )


def _threads(cpu: Stream | None) -> pd.DataFrame:
    ids = cpu["threads"]["system_id"].astype(np.int64) if cpu else np.empty(0, np.int64)
    return pd.DataFrame({"thread": np.arange(len(ids)), "system_id": ids})


def _copies(events: Stream | None) -> pd.DataFrame:
    rows = events["copies"] if events else np.empty(0, TABLES["copies"].dtype)
    return pd.DataFrame(
        {name: rows[name] for name in ("direction", "bytes", "tsc_start", "tsc_end", "queue")}
    )
