# SPDX-License-Identifier: Apache-2.0
"""A recorded process as the tables of trace/tables.py, from the rows of its streams."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from xpuprof.arrays import I64
from xpuprof.errors import TraceError
from xpuprof.trace.coordinates import EXIT_KERNEL
from xpuprof.trace.layout import HOST, LAUNCH_FLAGS, LDV_BUCKETS, LDV_FLAGS, TABLES
from xpuprof.trace.streams import FILES, Stream, read_stream
from xpuprof.trace.sums import Sums
from xpuprof.trace.tables import (
    Blocks,
    CpuVectors,
    DeviceDistances,
    GpuVectors,
    StackDistances,
    Tables,
    Window,
)
from xpuprof.trace.window import clip

_AXES = ("x", "y", "z")
_SIZES = (("g", "global"), ("l", "local"), ("o", "offset"))
_COMPLETION = (("tsc_complete", "tsc_host"), ("dev_start", "dev_start"), ("dev_end", "dev_end"))
_RESOURCES = ("registers", "local_static", "local_dynamic", "private_bytes")


def tables_of(part: Path, role: str, sums: Sums, window: Window | None) -> Tables:
    """The tables of the process in folder `part`, whose streams were read once for `sums`. Raises
    TraceError."""
    events, cpu = (
        read_stream(part / file, kind) if (part / file).exists() else None
        for kind, file in FILES.items()
    )
    finished, profile = sums.of_slices, role == "profile"
    if events and len(events["launches"]) < sums.of_launches:
        raise TraceError(f"{events.path} changed while it was read; wait until the run has ended")
    kernels = _kernels(events)
    launches = _launches(events, kernels, sums.of_launches)
    pairs = _of_launches(events, "launch_grids", len(launches))
    grids = _column(pairs, "grid", len(launches), default=-1)
    if profile:
        launches["instrumented"] &= grids >= 0
    found = Tables(
        launches=launches,
        slices=_slices(launches, finished, events, cpu, grids),
        kernels=kernels,
        cpu=_cpu_vectors(cpu, finished) if cpu is not None else None,
        gpu=_gpu_vectors(events, grids) if events and profile and len(grids) else None,
        images=_images(cpu),
        threads=_threads(cpu),
        copies=_copies(events),
        distances=_distances(cpu, finished) if cpu is not None and len(cpu["ldvs"]) else None,
        device_distances=_device_distances(events, len(launches)) if events else None,
    )
    return found if window is None else clip(found, window)


# ---- launches ------------------------------------------------------------------------------------


def _objects(values: list[str]) -> npt.NDArray[Any]:
    result = np.empty(len(values), dtype=object)
    result[:] = values
    return result


def _kernels(events: Stream | None) -> pd.DataFrame:
    if events is None:
        texts = dict.fromkeys(("name", "program", "origin", "reason"), pd.Series([""]).array[:0])
        numbers = ("kernel_id", "program_kind", "n_blocks")
        return pd.DataFrame(texts | dict.fromkeys(numbers, np.empty(0, np.int64)))
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


def _launches(events: Stream | None, kernels: pd.DataFrame, size: int) -> pd.DataFrame:
    """The first `size` launches."""
    rows = (events["launches"] if events else np.empty(0, TABLES["launches"].dtype))[:size]
    kernel_id = rows["kernel"].astype(np.int64)
    codes = np.unique(kernels["name"].to_numpy(str), return_inverse=True)[1].astype(np.int64)
    completes = _of_launches(events, "completes", size)
    resources, lanes = (_of_launches(events, table, size) for table in ("resources", "lanes"))
    return pd.DataFrame(
        {
            "launch": np.arange(size),
            "kernel": kernels["name"].array.take(kernel_id),
            "call": _nth(codes[kernel_id]),
            "kernel_id": kernel_id,
            "program": kernels["program"].array.take(kernel_id),
            "dimensions": rows["dimensions"].astype(np.int64),
            **{
                prefix + axis: rows[field][:, i].astype(np.int64)
                for prefix, field in _SIZES
                for i, axis in enumerate(_AXES)
            },
            **{name: rows[name].astype(np.int64) for name in ("queue", "device", "thread")},
            "tsc_run": rows["tsc_run"].copy(),
            **{
                name: _column(completes[completes[field] != 0], field, size).astype(np.uint64)
                for name, field in _COMPLETION
            },
            **{name: _column(resources, name, size) for name in _RESOURCES},
            "lane_instructions": _column(lanes, "instructions", size).astype(np.uint64),
            "instrumented": (rows["flags"] & LAUNCH_FLAGS["INSTRUMENTED"]) != 0,
            "left_out": (rows["flags"] & LAUNCH_FLAGS["LEFT_OUT"]) != 0,
            "inside": (rows["flags"] & LAUNCH_FLAGS["OUTSIDE"]) == 0,
            "reason": _reasons(events, rows["reason"]),
        },
        copy=False,  # each column is its own
    )


def _reasons(events: Stream | None, column: npt.NDArray[Any]) -> pd.api.extensions.ExtensionArray:
    """Why launches were not instrumented. Few differ, and most are empty."""
    code, texts = np.zeros(len(column), np.int64), [""]
    told = np.flatnonzero(column["size"])
    if events is not None and len(told):
        _, where, which = np.unique(column["at"][told], return_index=True, return_inverse=True)
        code[told] = 1 + which
        texts += events.texts(column[told[where]])
    return pd.Series(texts).array.take(code)


def _of_launches(events: Stream | None, table: str, size: int) -> npt.NDArray[Any]:
    """The table's rows of the first `size` launches."""
    rows = events[table] if events else np.empty(0, TABLES[table].dtype)
    return rows[rows["launch"] < size]


def _column(rows: npt.NDArray[Any], field: str, size: int, default: int = 0) -> I64:
    """A field by launch; where a launch has several rows, the last one counts."""
    column = np.full(size, default, np.int64)
    column[rows["launch"].astype(np.int64)] = rows[field]
    return column


# ---- slices --------------------------------------------------------------------------------------


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

    def column(name: str, at_exit: Any) -> pd.Series[Any]:
        own = launches[name]
        return pd.concat([own, pd.Series([at_exit] * exits, dtype=own.dtype)], ignore_index=True)

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
            **_host_work(launches, finished, events),
            "instrumented": column("instrumented", True),
            "left_out": column("left_out", False),
        },
        copy=False,  # as in _launches
    )


_DIRECTIONS = ("to_device", "to_host", "within")


def _host_work(
    launches: pd.DataFrame, finished: int, events: Stream | None
) -> dict[str, npt.NDArray[np.int64]]:
    """Builds of device programs, and bytes moved by direction, between the launches of each
    slice."""
    starts = np.maximum.accumulate(launches["tsc_run"].to_numpy(np.uint64))

    def sums(stamps: npt.NDArray[Any], amounts: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        owner = np.searchsorted(starts, stamps, side="right")
        return np.bincount(owner, amounts, finished)[:finished].astype(np.int64)

    if events is None:
        return {name: np.zeros(finished, np.int64) for name in ("builds", *_DIRECTIONS)}
    calls, copies = events["hosts"], events["copies"]
    builds = calls["tsc_start"][calls["kind"] == HOST["BUILD"]]
    found = {"builds": sums(builds, np.ones(len(builds)))}
    for direction, name in enumerate(_DIRECTIONS):
        own = copies[copies["direction"] == direction]
        found[name] = sums(own["tsc_start"], own["bytes"])
    return found


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
