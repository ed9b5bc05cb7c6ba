# SPDX-License-Identifier: Apache-2.0
"""LRU stack distance vectors in the SimPoint family's format (.ldv): one line per slice,
`T:bucket:count :bucket:count ...`, with a bucket for each power of two of the distance in lines."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from xpuprof.errors import InputError
from xpuprof.formats.format import Exporter, Needs
from xpuprof.formats.output import write_files

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from xpuprof.trace.tables import Process

MOST_BUCKETS = 66
"""64 powers of two, plus a separate bucket for first touches that some writers use."""


@dataclass(frozen=True, eq=False)
class Distances:
    """`metrics`: float64[slices] by name, `ldv_<bucket>` and their sum `memory_accesses`."""

    slices: int
    metrics: dict[str, npt.NDArray[np.float64]]


def read(source: Path) -> Distances:
    """Read a file. Raises InputError when it is malformed or its buckets are not powers of two."""
    # Imported late: `--help` lists formats without numpy.
    import numpy as np

    from xpuprof.formats.frequency import read_frequency_file

    vectors = read_frequency_file(source)
    buckets = np.unique(vectors.dimension)
    if len(buckets) > MOST_BUCKETS:
        raise InputError(
            f"{source} has {len(buckets)} buckets, more than a log2 histogram can have; write it "
            "with log2 buckets"
        )
    count = len(vectors)
    row = np.repeat(np.arange(count), np.diff(vectors.row_start).astype(np.int64))
    metrics: dict[str, npt.NDArray[np.float64]] = {}
    for bucket in buckets.tolist():
        own = vectors.dimension == bucket
        metrics[f"ldv_{bucket}"] = np.bincount(row[own], vectors.value[own], count).astype(float)
    metrics["memory_accesses"] = np.bincount(row, vectors.value, count).astype(float)
    return Distances(count, metrics)


def write(process: Process, base: Path, force: bool = False) -> list[Path]:
    """Write `base`.device.ldv and `base`.cpu.ldv, as far as recorded; returns their paths.

    Bucket 1 counts distance 0, bucket b the distances from 2^(b-2) to below 2^(b-1), bucket 64
    first touches. CPU threads are summed. Raises InputError when the process has no stack
    distances, UsageError when a file exists and `force` is false, or cannot be written.
    """
    slices = len(process.slices)
    tables = {}
    if process.device_distances is not None:
        found = process.device_distances
        tables["device"] = _by_slice(found.launch, found.count, slices)
    if process.distances is not None:
        tables["cpu"] = _by_slice(process.distances.slice, process.distances.count, slices)
    if not tables:
        raise InputError("the run has no stack distances; record it with: xpuprof profile --memory")
    paths = {base.with_name(f"{base.name}.{side}.ldv"): rows for side, rows in tables.items()}
    return write_files({path: _text(rows) for path, rows in paths.items()}, force)


def _text(rows: npt.NDArray[np.uint64]) -> str:
    lines = (
        "T" + " ".join(f":{b + 1}:{row[b]}" for b in row.nonzero()[0].tolist()) for row in rows
    )
    return "\n".join(lines) + "\n"


def _by_slice(
    owner: npt.NDArray[np.uint32], count: npt.NDArray[np.uint64], slices: int
) -> npt.NDArray[np.uint64]:
    import numpy as np

    result = np.zeros((slices, count.shape[1]), np.uint64)
    np.add.at(result, owner.astype(np.int64), count)
    return result


FORMAT = Exporter(
    name="ldv",
    help="OUT.device.ldv and OUT.cpu.ldv, stack distances by slice",
    write=lambda source, out, options: write(source.process, out, options.force),
    needs=Needs.MEMORY,
    per_process=True,
)
