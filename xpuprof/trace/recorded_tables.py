# SPDX-License-Identifier: Apache-2.0
"""A recorded process as the tables of trace/tables.py, from the rows of its streams."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from xpuprof.arrays import starts_of
from xpuprof.errors import TraceError
from xpuprof.trace.layout import CPU, EVENTS, LDV_BUCKETS, LDV_FLAGS, TABLES
from xpuprof.trace.recorded_slices import SliceColumns, slice_table
from xpuprof.trace.streams import FILES, Stream, StreamReader, read_stream
from xpuprof.trace.sums import Sums
from xpuprof.trace.tables import (
    Blocks,
    DeviceDistances,
    GpuVectors,
    StackDistances,
    Tables,
    Window,
)
from xpuprof.trace.window import clip

_BY_LAUNCH = {"launches", "launch_grids", "completes", "resources", "lanes", "uncounted"}
"""Tables with a row for each launch, of which only columns are kept."""
_CPU_VECTORS = {"bbvs", "bbv_block", "bbv_count"}
"""Read piece by piece (recorded_cpu.py)."""


def tables_of(part: Path, role: str, sums: Sums, window: Window | None) -> Tables:
    """The tables of the process in folder `part`, whose streams were read once for `sums`. Raises
    TraceError."""
    paths = {kind: part / file for kind, file in FILES.items()}
    cpu = read_stream(paths[CPU], CPU, set(TABLES) - _CPU_VECTORS) if paths[CPU].exists() else None
    finished, profile = sums.of_slices, role == "profile"
    with ExitStack() as stack:
        reader = None
        if paths[EVENTS].exists():
            whole = set(TABLES) - _BY_LAUNCH
            reader = stack.enter_context(StreamReader(paths[EVENTS], EVENTS, whole))
            if reader.count("launches") < sums.of_launches:
                raise TraceError(
                    f"{reader.stream.path} changed while it was read; wait until the run has ended"
                )
        columns = SliceColumns.read(reader, sums.of_launches, finished, profile=profile)
        events = reader.stream if reader else None
    kernels, grid = kernel_table(events), columns.grid
    found = Tables(
        slices=slice_table(columns, kernels, events, cpu),
        kernels=kernels,
        gpu=_gpu_vectors(events, grid) if events and profile and len(grid) else None,
        images=_images(cpu),
        threads=_threads(cpu),
        copies=_copies(events),
        distances=_distances(cpu, finished) if cpu is not None and len(cpu["ldvs"]) else None,
        device_distances=_device_distances(events, len(grid)) if events else None,
    )
    return found if window is None else clip(found, window, len(grid))


def _objects(values: list[str]) -> npt.NDArray[Any]:
    result = np.empty(len(values), dtype=object)
    result[:] = values
    return result


def kernel_table(events: Stream | None) -> pd.DataFrame:
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


# ---- vectors -------------------------------------------------------------------------------------


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
        grid_start=starts_of(events["grids"]["n_runs"]),
        run_vector=events["run_vector"],
        run_length=events["run_length"],
        vector_start=starts_of(events["vectors"]["n_pairs"]),
        block=events["vector_block"],
        count=events["vector_count"],
        blocks=Blocks(
            np.ascontiguousarray(blocks["identity"]), np.ascontiguousarray(blocks["instructions"])
        ),
        kernel_block_start=starts_of(events["kernels"]["n_blocks"]),
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
