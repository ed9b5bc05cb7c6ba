"""SimPoint's files: frequency vectors in (.bb), simulation points out.

In: one line a slice, `T:dimension:count :dimension:count ...`; other lines are comments; an empty
vector is a slice of its own (SimPoint stops reading there). Out: `.simpoints` (`slice number`) and
`.weights` (`weight number`), line by line in the same order and of equal length, because gem5 reads
the two in lockstep; `.labels` (`cluster distance`, one line a slice).
"""

from __future__ import annotations

import gzip
import mmap
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from xpuprof._select import ffi, lib
from xpuprof.errors import InputError
from xpuprof.formats.output import write_files
from xpuprof.selection.selection import Selection

F64 = npt.NDArray[np.float64]
U64 = npt.NDArray[np.uint64]

SUFFIXES = (".bb", ".bb.gz")
INTERVAL = "interval"
"""Kernel name of a frequency file's markers: its slices are numbered, not named."""


@dataclass(frozen=True, eq=False)
class FrequencyVectors:
    """Row s is `dimension[row_start[s]:row_start[s + 1]]` with `value` (instruction counts)."""

    row_start: U64
    dimension: U64
    value: F64

    def __len__(self) -> int:
        return len(self.row_start) - 1


def is_frequency_file(path: str | Path) -> bool:
    """Whether the name says that the file holds frequency vectors."""
    return str(path).endswith(SUFFIXES) and Path(path).is_file()


def read_frequency_file(path: str | Path) -> FrequencyVectors:
    """Read a .bb or .bb.gz file.

    Raises InputError, with the line at fault, when it cannot be read, is no frequency file or holds
    no vector.
    """
    source = Path(path)
    try:
        with source.open("rb") as file:
            if source.suffix == ".gz":
                return _parse(gzip.decompress(file.read()), source)
            if not os.fstat(file.fileno()).st_size:
                raise InputError(f"{source} is empty: it holds no frequency vectors")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
                return _parse(text, source)
    except (OSError, EOFError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"cannot read {source}: {reason}") from error


def _parse(text: Any, source: Path) -> FrequencyVectors:
    rows, entries, line = (ffi.new("uint64_t *") for _ in range(3))
    with ffi.from_buffer(text) as buffer:
        start = ffi.cast("char *", buffer)
        size = len(buffer)
        status = lib.xps_parse_frequency(
            start, size, rows, entries, ffi.NULL, ffi.NULL, ffi.NULL, line
        )
        if status:
            raise InputError(
                f"{source}, line {line[0]}: not of the form T:dimension:count :dimension:count ..."
            )
        if not rows[0]:
            raise InputError(f"{source} holds no line that begins with T: no frequency vectors")
        row_start = np.empty(rows[0] + 1, np.uint64)
        dimension, value = np.empty(entries[0], np.uint64), np.empty(entries[0])
        lib.xps_parse_frequency(
            start, size, rows, entries, ffi.cast("uint64_t *", ffi.from_buffer(row_start)),
            ffi.cast("uint64_t *", ffi.from_buffer(dimension)),
            ffi.cast("double *", ffi.from_buffer(value)), line,
        )  # fmt: skip
    return FrequencyVectors(row_start, dimension, value)


def write_simpoints(
    selection: Selection, base: Path, distance: F64 | None = None, force: bool = False
) -> list[Path]:
    """Write `base`.simpoints, `base`.weights and `base`.labels; returns their paths.

    Weights add up to 1 over the covered slices. With several representatives a cluster each gets a
    number of its own, and the labels still name clusters. `distance`: of each slice to its
    centroid. Raises UsageError when a file exists and `force` is false, or cannot be written.
    """
    reps = sorted(selection.representatives, key=lambda r: (r.cluster, r.slice))
    several = len({r.cluster for r in reps}) < len(reps)
    numbers = [i if several else r.cluster for i, r in enumerate(reps)]
    total = sum(r.weight for r in reps)
    far = np.zeros(selection.slices) if distance is None else distance
    texts = {
        ".simpoints": [f"{r.slice} {n}" for r, n in zip(reps, numbers, strict=True)],
        ".weights": [f"{r.weight / total:.12g} {n}" for r, n in zip(reps, numbers, strict=True)],
        ".labels": [
            f"{label} {d:.9g}" for label, d in zip(selection.labels.tolist(), far, strict=True)
        ],
    }
    return write_files(
        {
            base.with_name(base.name + suffix): "\n".join(lines) + "\n"
            for suffix, lines in texts.items()
        },
        force,
    )
