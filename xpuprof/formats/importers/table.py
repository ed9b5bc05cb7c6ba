# SPDX-License-Identifier: Apache-2.0
"""Rows of kernels without a timeline, as CSV profilers give them: shared by ncu, nvprof and csv.

Every row is a launch and becomes a slice. The time between launches is unknown, so there is no
slice after the last kernel, and a row's duration is `gpu_time`.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, NoReturn

from xpuprof.inputs import LONGEST_LINE, Source, finite

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

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
CHUNK = 1 << 20
"""Values buffered before writing."""
MOST_COLUMNS = 1 << 14
RESERVED = ("program", "range", "range_call")
"""Metric names that an imported run reserves."""
NAME_COST = 256
"""Memory of a kernel's name besides its characters, in bytes, over all lists of names."""
LARGEST = (1 << 31) - 1
"""Largest grid, block, device or stream number."""

csv.field_size_limit(LONGEST_LINE)


def after_log(lines: Iterator[str], is_header: Callable[[str], bool]) -> Iterator[str]:
    """The table that begins with the first header line: the program's output is before it, and
    NVIDIA's tools put ==PROF== lines of their own anywhere."""
    for line in lines:
        if is_header(line):
            return chain([line], (rest for rest in lines if not rest.startswith("==")))
    return iter(())


def rows(source: Source, lines: Iterable[str], separator: str = ",") -> Iterator[list[str]]:
    """Yield the rows of a CSV table. Raises InputError when it is not one."""
    taken = 0

    def counted() -> Iterator[str]:
        nonlocal taken
        for line in lines:
            taken += len(line)
            if taken > LONGEST_LINE:  # a quote that is never closed
                source.refuse(f"is not a CSV table: line {table.line_num} never ends; export again")
            yield line

    table = csv.reader(counted(), delimiter=separator)
    try:
        for row in table:
            taken = 0
            if len(row) > MOST_COLUMNS:
                source.refuse(
                    f"has {len(row)} columns in line {table.line_num}, more than {MOST_COLUMNS}; "
                    "export fewer metrics"
                )
            yield row
    except csv.Error as error:
        source.refuse(f"is not a CSV table: line {table.line_num}: {error}; export it again")


def number(text: str) -> float:
    """A number as profilers print it: thousands separators, "%"; NaN if it is not a finite
    number."""
    value = finite(text)
    if value is None:
        value = finite(text.replace(",", "").rstrip("%").strip())
    return math.nan if value is None else value


def integer(text: str, default: int) -> int:
    """A device, stream or work-item number; `default` if missing."""
    value = number(text)
    return default if math.isnan(value) else int(value)


def seconds(source: Source, unit: str) -> float:
    """Factor from `unit` to seconds; InputError when it is not a unit of time."""
    factor = TIME_UNITS.get(unit.strip().lower())
    if factor is None:
        source.refuse(
            f"gives durations in {unit!r}, which is not a unit of time known here "
            f"({', '.join(sorted(set(TIME_UNITS)))}); export it with --print-units base"
        )
    return factor


def shape(text: str) -> tuple[int, int, int]:
    """(x, y, z) of "(x, y, z)", "x y z" or "x"; missing sizes are 1."""
    parts = text.strip().strip("()[]").replace(",", " ").split()[:3]
    values = [finite(part) for part in parts]
    sizes = [] if None in values else [int(value or 0) for value in values]
    x, y, z = (*sizes, *[1] * (3 - len(sizes)))
    return x, y, z


class Rows:
    """Collect launches, check them, and append them to an ImportWriter in chunks.

    `metrics`: names of the number columns; with `timed` the first is the duration.
    """

    def __init__(
        self, source: Source, writer: ImportWriter, metrics: list[str], timed: bool = True
    ) -> None:
        self._source = source
        self._writer = writer
        self._metrics = metrics
        self._timed = timed
        self._chunk = max(CHUNK // (len(metrics) + 10), 1)
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
        """Add a launch; `values` in the order of `metrics`, `grid` in work-groups."""
        call = self._calls[kernel] = self._calls.get(kernel, 0) + 1
        if call == 1:
            self._source.hold(NAME_COST + 4 * len(kernel))
        self._kernels.append(kernel)
        self._call.append(call)
        self._shapes.append((*grid, *block))
        self._places.append((device, stream))
        self._values.append(values)
        if len(self._kernels) >= self._chunk:
            self.flush()

    def flush(self) -> None:
        """Check and write the buffered launches. Raises InputError for an invalid launch."""
        import numpy as np  # imported late: `--help` lists formats without it

        if not self._kernels:
            return
        sizes = self._integers(self._shapes)
        places = self._integers(self._places)
        values = np.array(self._values, dtype=np.float64)
        if self._timed:
            bad = np.flatnonzero(~(values[:, 0] >= 0))
            if len(bad):
                self._refuse(int(bad[0]), "its duration is missing or negative")
        # Work-items, as in OpenCL and recorded runs.
        sizes[:, :3] *= sizes[:, 3:]
        columns: dict[str, npt.NDArray[np.generic]] = {
            "kernel": self._writer.codes("kernel", self._kernels),
            "call": np.array(self._call, dtype=np.int32),
            "process": np.zeros(len(sizes), dtype=np.int32),
            "device": places[:, 0].astype(np.int32),
            "stream": places[:, 1].astype(np.int32),
        }
        columns |= {name: sizes[:, i] for i, name in enumerate((*GRID, *BLOCK))}
        for i, name in enumerate(self._metrics):
            if name not in RESERVED:  # a second column of that name
                columns.setdefault(name, values[:, i])
        self._writer.append(columns)
        for held in (self._kernels, self._call, self._shapes, self._places, self._values):
            held.clear()

    def finish(self, advice: str) -> None:
        """Write the rest. Raises InputError when there was no launch."""
        self.flush()
        if not self._writer.rows:
            self._source.refuse(f"holds no kernel launch; {advice}")

    def _integers(self, rows: Sequence[tuple[int, ...]]) -> npt.NDArray[np.int64]:
        import numpy as np

        for i, row in enumerate(rows):
            if min(row) < 0 or max(row) > LARGEST:
                self._refuse(i, f"a grid, block, device or stream number is not 0 to {LARGEST}")
        return np.array(rows, dtype=np.int64)

    def _refuse(self, row: int, reason: str) -> NoReturn:
        self._source.refuse(
            f"has a bad launch {self._writer.rows + row + 1} ({self._kernels[row][:80]!r}): "
            f"{reason}; export it again"
        )


def index(header: list[str]) -> Mapping[str, int]:
    """Position of each column; the first of equal names is used."""
    result: dict[str, int] = {}
    for i, name in enumerate(header):
        result.setdefault(name.strip(), i)
    return result
