# SPDX-License-Identifier: Apache-2.0
"""SimPoint's frequency vectors (.bb): one line per slice, `T:dimension:count :dimension:count ...`;
other lines are comments; an empty vector is a separate slice (SimPoint stops reading there)."""

from __future__ import annotations

import mmap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from xpuprof._select import ffi, lib
from xpuprof.arrays import F64, U64
from xpuprof.inputs import Source

ROW_COST, ENTRY_COST = 64, 56
"""Memory in bytes of a vector and of a non-zero until they form a matrix."""
SUFFIXES = (".bb", ".bb.gz")
INTERVAL = "interval"
"""Kernel name in the markers of a frequency file, whose slices are numbered, not named."""


@dataclass(frozen=True, eq=False)
class FrequencyVectors:
    """Row s is `dimension[row_start[s]:row_start[s + 1]]` with `value` (instruction counts)."""

    row_start: U64
    dimension: U64
    value: F64

    def __len__(self) -> int:
        return len(self.row_start) - 1


def is_frequency_file(path: str | Path) -> bool:
    """Whether the file name denotes frequency vectors."""
    return str(path).endswith(SUFFIXES) and Path(path).is_file()


def read_frequency_file(path: str | Path) -> FrequencyVectors:
    """Read a .bb or .bb.gz file.

    Raises InputError, with the line, when it is unreadable, not a frequency file, or empty.
    """
    source = Source(Path(path))
    with source.binary() as file:
        if source.path.suffix == ".gz":
            return _parse(file.read(), source)
    if not source.size:
        source.refuse("is empty: it holds no frequency vectors")
    with (
        source.path.open("rb") as plain,
        mmap.mmap(plain.fileno(), 0, access=mmap.ACCESS_READ) as text,
    ):
        return _parse(text, source)


def _parse(text: Any, source: Source) -> FrequencyVectors:
    rows, entries, line = (ffi.new("uint64_t *") for _ in range(3))
    with ffi.from_buffer(text) as buffer:
        start = ffi.cast("char *", buffer)
        size = len(buffer)
        status = lib.xps_parse_frequency(
            start, size, rows, entries, ffi.NULL, ffi.NULL, ffi.NULL, line
        )
        if status:
            source.refuse(
                f"is damaged: line {line[0]} is not T:dimension:count :dimension:count ...; copy "
                "it again"
            )
        if not rows[0]:
            source.refuse(
                "holds no frequency vectors (no line begins with T); name a SimPoint .bb file"
            )
        source.hold(ROW_COST * rows[0] + ENTRY_COST * entries[0])
        row_start = np.empty(rows[0] + 1, np.uint64)
        dimension, value = np.empty(entries[0], np.uint64), np.empty(entries[0])
        lib.xps_parse_frequency(
            start, size, rows, entries, ffi.cast("uint64_t *", ffi.from_buffer(row_start)),
            ffi.cast("uint64_t *", ffi.from_buffer(dimension)),
            ffi.cast("double *", ffi.from_buffer(value)), line,
        )  # fmt: skip
    if not np.isfinite(value).all():
        source.refuse("is damaged: a count is not finite; copy it again")
    return FrequencyVectors(row_start, dimension, value)
