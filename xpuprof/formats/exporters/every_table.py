# SPDX-License-Identifier: Apache-2.0
"""Every table of a run and its selection, flat, for databases and data frames.

Identities and program hashes are hexadecimal text: neither SQLite nor many Parquet readers handle
64 unsigned bits. docs/export.md lists the tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from xpuprof.errors import TraceError
from xpuprof.selection.selection import Selection
from xpuprof.trace.imported import ImportedSlices
from xpuprof.trace.processes import job_of
from xpuprof.trace.records import ExecutionRecord
from xpuprof.trace.run import Run
from xpuprof.trace.slice_times import slice_times
from xpuprof.trace.tables import CpuVectors, DeviceDistances, Execution, GpuVectors, Process

_NUMBERS = {
    **dict.fromkeys(("pid", "exit_code", "signal"), "Int64"),
    **dict.fromkeys(("tsc_start", "tsc_end"), "int64"),
    **dict.fromkeys(("wall_s", "tsc_hz"), "float64"),
}
"""Columns of `executions` that are not text; Int64 may be unknown."""


def every_table(run: Run, selection: Selection | None) -> Iterator[tuple[str, pd.DataFrame]]:
    """(name, rows) pairs; a name recurs for every execution and process, which rows include."""
    if ImportedSlices.present(run.path):
        imported = ImportedSlices(run.path)
        yield "slices", imported.table().assign(**{n: imported.column(n) for n in imported.metrics})
    if run.executions:
        frame = pd.DataFrame([_record(e.record) for e in run.executions])
        yield "executions", frame.astype(dict.fromkeys(frame.columns, "str") | _NUMBERS)
    for execution in run.executions:
        own = job_of(execution).own_lives
        for process in execution.processes:
            for name, frame in _process_tables(execution, process, own):
                if len(frame):
                    yield name, frame.assign(execution=execution.name, process=process.name)
    if selection is not None:
        yield from _selection_tables(selection)


def _record(record: ExecutionRecord) -> dict[str, object]:
    lists = {"filters": dict(record.filters), "fallbacks": list(record.fallbacks)}
    return {"status": record.status, "reason": record.reason} | vars(record) | lists


def _process_tables(
    execution: Execution, process: Process, own: bool
) -> Iterator[tuple[str, pd.DataFrame]]:
    slices = process.slices.copy()
    try:
        times = slice_times(execution, process, own=own)
    except TraceError:
        times = np.array([])
    if len(times) == len(slices):
        slices["time_s"] = times
    yield "slices", slices
    yield "launches", process.launches
    yield "kernels", process.kernels
    yield "images", process.images
    yield "threads", process.threads
    yield "copies", process.copies
    if process.cpu is not None:
        yield "cpu_blocks", _cpu_blocks(process.cpu)
        yield "cpu_vectors", _cpu_vectors(process.cpu)
    if process.gpu is not None:
        yield from _gpu_tables(process.gpu)
    if process.distances is not None:
        owner = {"slice": process.distances.slice, "thread": process.distances.thread}
        yield "stack_distances", _distance_rows(process.distances.count, owner)
    if process.device_distances is not None:
        yield from _device_distances(process.device_distances)


def _cpu_blocks(cpu: CpuVectors) -> pd.DataFrame:
    blocks: dict[str, Any] = {
        "block": np.arange(len(cpu.blocks.identity)),
        "identity": _hexadecimal(cpu.blocks.identity),
        "instructions": cpu.blocks.instructions.astype(np.int64),
    }
    if cpu.block_image is not None and cpu.block_offset is not None:
        blocks["image"] = cpu.block_image.astype(np.int64)
        blocks["offset"] = _hexadecimal(cpu.block_offset)
    return pd.DataFrame(blocks)


def _cpu_vectors(cpu: CpuVectors) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "slice": cpu.slice.astype(np.int64),
            "thread": cpu.thread.astype(np.int64),
            "block": cpu.block.astype(np.int64),
            "count": cpu.count.astype(np.int64),
        }
    )


def _gpu_tables(gpu: GpuVectors) -> Iterator[tuple[str, pd.DataFrame]]:
    sizes: Any = np.diff(gpu.kernel_block_start.astype(np.int64))
    kernel = np.repeat(np.arange(len(sizes)), sizes)
    yield (
        "gpu_blocks",
        pd.DataFrame(
            {
                "block": np.arange(len(gpu.blocks.identity)),
                "kernel_id": kernel,
                "identity": _hexadecimal(gpu.blocks.identity),
                "instructions": gpu.blocks.instructions.astype(np.int64),
            }
        ),
    )
    yield (
        "gpu_launch_grids",
        pd.DataFrame({"launch": np.arange(len(gpu.launch_grid)), "grid": gpu.launch_grid}),
    )
    yield (
        "gpu_grid_runs",
        _ragged("grid", gpu.grid_start, vector=gpu.run_vector, warps=gpu.run_length),
    )
    yield "gpu_vectors", _ragged("vector", gpu.vector_start, block=gpu.block, count=gpu.count)


def _distance_rows(count: Any, owner: dict[str, Any]) -> pd.DataFrame:
    row, bucket = np.nonzero(count)
    columns = {name: values[row].astype(np.int64) for name, values in owner.items()}
    return pd.DataFrame(columns | {"bucket": bucket, "count": count[row, bucket].astype(np.int64)})


def _device_distances(found: DeviceDistances) -> Iterator[tuple[str, pd.DataFrame]]:
    yield "device_stack_distances", _distance_rows(found.count, {"launch": found.launch})
    numbers = ("launch", "accesses", "recorded", "groups", "recorded_groups")
    columns = {name: getattr(found, name).astype(np.int64) for name in numbers}
    flags = {"beyond": found.beyond, "forgot": found.forgot}
    yield "device_accesses", pd.DataFrame(columns | flags)


def _ragged(owner: str, start: Any, **columns: Any) -> pd.DataFrame:
    lengths = np.diff(start.astype(np.int64))
    rows = {owner: np.repeat(np.arange(len(lengths)), lengths)}
    return pd.DataFrame(rows | {name: values.astype(np.int64) for name, values in columns.items()})


def _selection_tables(selection: Selection) -> Iterator[tuple[str, pd.DataFrame]]:
    labels = [key.label for key in selection.identity.processes] or [""]
    yield (
        "representatives",
        pd.DataFrame(
            [
                {
                    "region": place,
                    "slice": r.slice,
                    "process": labels[r.process],
                    "kernel": r.end.kernel,
                    "call": r.end.call,
                    "cluster": r.cluster,
                    "multiplier": r.multiplier,
                    "weight": r.weight,
                    "draws": r.draws,
                }
                for place, r in enumerate(selection.representatives, start=1)
            ]
        ),
    )
    yield (
        "clusters",
        pd.DataFrame(
            {
                "slice": np.arange(selection.slices),
                "process": np.repeat(labels, selection.layout.lengths),
                "cluster": selection.labels,
            }
        ),
    )


def _hexadecimal(values: Any) -> list[str]:
    return [f"{value:016x}" for value in values.tolist()]
