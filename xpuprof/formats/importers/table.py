"""Rows of kernels without a timeline, as CSV profilers give them: shared by ncu, nvprof and csv.

Every row is a launch and becomes a slice; what happened between launches is not known, so there is
no slice after the last kernel, and a row's duration is `gpu_time`.
"""

from __future__ import annotations

import csv
import gzip
import io
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import numpy as np
import numpy.typing as npt

from xpuprof.errors import InputError
from xpuprof.trace.imported import ImportWriter

TIME_UNITS = {
    "s": 1.0,
    "sec": 1.0,
    "second": 1.0,
    "seconds": 1.0,
    "ms": 1e-3,
    "msecond": 1e-3,
    "us": 1e-6,
    "usecond": 1e-6,
    "µs": 1e-6,
    "ns": 1e-9,
    "nsecond": 1e-9,
}
"""Factor to seconds."""

SCALES = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
GRID = ("gx", "gy", "gz")
BLOCK = ("lx", "ly", "lz")
CHUNK = 50_000

csv.field_size_limit(1 << 24)


@contextmanager
def open_text(source: Path) -> Iterator[TextIO]:
    """The source as text, decompressed. InputError when it cannot be read."""
    try:
        with source.open("rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
        with (
            gzip.open(source, "rb") if packed else source.open("rb") as raw,
            io.TextIOWrapper(raw, encoding="utf-8-sig", errors="replace", newline="") as text,
        ):
            yield text
    except (OSError, EOFError) as error:
        raise InputError(f"{source} cannot be read: {error}; copy it again") from error
    except csv.Error as error:
        raise InputError(f"{source} is not a CSV table: {error}; export it again") from error


def number(text: str) -> float:
    """A number as profilers print it: thousands separators, "%", "inf"; NaN when it is none."""
    try:
        return float(text)
    except ValueError:
        cleaned = text.replace(",", "").rstrip("%").strip()
        try:
            return float(cleaned)
        except ValueError:
            return math.nan


def seconds(source: Path, unit: str) -> float:
    """Factor from `unit` to seconds; InputError when it is not a unit of time."""
    factor = TIME_UNITS.get(unit.strip().lower())
    if factor is None:
        raise InputError(
            f"{source} gives durations in {unit!r}, which is no unit of time known here "
            f"({', '.join(sorted(set(TIME_UNITS)))}); export it with --print-units base"
        )
    return factor


def shape(text: str) -> tuple[int, int, int]:
    """(x, y, z) of "(x, y, z)", "x y z" or "x"; ones are filled in."""
    parts = text.strip().strip("()[]").replace(",", " ").split()
    try:
        sizes = [int(float(part)) for part in parts[:3]]
    except ValueError:
        sizes = []
    sizes += [1] * (3 - len(sizes))
    return (sizes[0], sizes[1], sizes[2])


class Rows:
    """Collects launches and appends them to an ImportWriter in chunks.

    `metrics` names the columns of numbers; `time` is the one that holds the duration in seconds.
    """

    def __init__(self, writer: ImportWriter, metrics: list[str]) -> None:
        self._writer = writer
        self._metrics = metrics
        self._calls: dict[str, int] = {}
        self._kernels: list[str] = []
        self._call: list[int] = []
        self._shapes: list[tuple[int, ...]] = []
        self._places: list[tuple[int, int]] = []
        self._values: list[list[float]] = []

    def add(
        self,
        kernel: str,
        values: list[float],
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        device: int = 0,
        stream: int = 0,
    ) -> None:
        """One launch; `values` in the order of `metrics`, `grid` in work-groups."""
        call = self._calls[kernel] = self._calls.get(kernel, 0) + 1
        self._kernels.append(kernel)
        self._call.append(call)
        self._shapes.append((*(g * b for g, b in zip(grid, block, strict=True)), *block))
        self._places.append((device, stream))
        self._values.append(values)
        if len(self._kernels) >= CHUNK:
            self.flush()

    def flush(self) -> None:
        """Write what is held."""
        if not self._kernels:
            return
        sizes = np.array(self._shapes, dtype=np.int64)
        places = np.array(self._places, dtype=np.int32)
        values = np.array(self._values, dtype=np.float64)
        columns: dict[str, npt.NDArray[np.generic]] = {
            "kernel": self._writer.codes("kernel", self._kernels),
            "call": np.array(self._call, dtype=np.int32),
            "process": np.zeros(len(sizes), dtype=np.int32),
            "device": places[:, 0],
            "stream": places[:, 1],
        }
        columns |= {name: sizes[:, i] for i, name in enumerate((*GRID, *BLOCK))}
        columns |= {name: values[:, i] for i, name in enumerate(self._metrics)}
        self._writer.append(columns)
        for held in (self._kernels, self._call, self._shapes, self._places, self._values):
            held.clear()

    def finish(self, source: Path, advice: str) -> None:
        """Write the rest. InputError when there was no launch at all."""
        self.flush()
        if not self._writer.rows:
            raise InputError(f"{source} holds no kernel launch; {advice}")


def index(header: list[str]) -> Mapping[str, int]:
    """Position of each column; the first of equal names counts."""
    result: dict[str, int] = {}
    for i, name in enumerate(header):
        result.setdefault(name.strip(), i)
    return result
