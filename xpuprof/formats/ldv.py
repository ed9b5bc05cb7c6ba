"""LRU stack distance vectors as the SimPoint family writes them (.ldv): one line a slice,
`T:bucket:count :bucket:count ...`, bucket b holding the accesses of distance 2^b lines."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from xpuprof.errors import InputError
from xpuprof.formats.simpoint import read_frequency_file

MOST_BUCKETS = 66
"""64 powers of two, and the first touches that some writers give a bucket of their own."""


@dataclass(frozen=True, eq=False)
class Distances:
    """`metrics`: float64[slices] by name, `ldv_<bucket>` and their sum `memory_accesses`."""

    slices: int
    metrics: dict[str, npt.NDArray[np.float64]]


def read(source: Path) -> Distances:
    """Read a file. InputError when it is malformed or its buckets are not powers of two's."""
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
        metrics[f"ldv_{bucket}"] = _sums(row[own], vectors.value[own], count)
    metrics["memory_accesses"] = _sums(row, vectors.value, count)
    return Distances(count, metrics)


def _sums(
    row: npt.NDArray[np.int64], value: npt.NDArray[np.float64], count: int
) -> npt.NDArray[np.float64]:
    return np.bincount(row, value, count).astype(np.float64)
