# SPDX-License-Identifier: Apache-2.0
"""Tables of text, as CSV profilers write them: shared by ncu, nvprof, csv and rocprof.

Rows are read in chunks, which become columns of numbers at once. In a table without a timeline
every row is a launch and becomes a slice: the time between launches is unknown, so there is no
slice after the last kernel, and a row's duration is `gpu_time`.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

from xpuprof.formats.units import TIME_UNITS
from xpuprof.inputs import LONGEST_LINE, Source, finite

if TYPE_CHECKING:
    from xpuprof.arrays import F64, I64
    from xpuprof.trace.imported import ImportWriter

CHUNK = 1 << 18
"""Values in a chunk."""
CHUNK_CHARACTERS = 1 << 24
MOST_COLUMNS = 1 << 14
LARGEST = (1 << 31) - 1
"""Largest grid, block, device or stream number."""
LARGEST_PRODUCT = (1 << 53) - 1
"""Largest grid whose work-items are one number: a double holds it exactly."""
Columns = Mapping[str, Sequence[Any]]
"""Columns of a chunk: texts, or numbers that were converted already."""

T = TypeVar("T")

_GROUPS = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?\s*%?")
"""A number with thousands separators."""
_COMMA = re.compile(r"\s*[+-]?\d+,\d+\s*%?\s*")
"""A number with a decimal comma, or one group of thousands."""

csv.field_size_limit(LONGEST_LINE)


class Table:
    """A header, and rows below it, each with as many fields."""

    def __init__(self, source: Source, rows: Iterator[list[str]]) -> None:
        self._source = source
        self.header = [name.strip() for name in next(rows, [])]
        self._rows = self._whole(rows)

    @classmethod
    def csv(cls, source: Source, lines: Iterable[str], separator: str = ",") -> Table:
        """The table in lines of text."""
        rows = _csv(source, lines, separator)
        return cls(source, _without_commas(source, rows) if separator == ";" else rows)

    def units(self, column: str, are_units: Callable[[str], bool]) -> dict[str, str]:
        """The unit of each column, if the first row gives units, as its value in `column` shows."""
        first = next(self._rows, None)
        if first is None:
            return {}
        units = self._by_name(first)
        if are_units(units[column]):
            return units
        self._rows = chain([first], self._rows)
        return {}

    def chunks(self) -> Iterator[Columns]:
        """The rows by columns."""
        rows: list[list[str]] = []
        size, most = 0, max(CHUNK // max(len(self.header), 1), 1)
        for row in self._rows:
            rows.append(row)
            size += sum(map(len, row))
            if len(rows) == most or size > CHUNK_CHARACTERS:
                yield self._by_name(list(zip(*rows, strict=True)))
                rows, size = [], 0
        if rows:
            yield self._by_name(list(zip(*rows, strict=True)))

    def _by_name(self, values: Sequence[T]) -> dict[str, T]:
        """One value a column; the first of columns with the same name."""
        found: dict[str, T] = {}
        for name, value in zip(self.header, values, strict=True):
            found.setdefault(name, value)
        return found

    def _whole(self, rows: Iterator[list[str]]) -> Iterator[list[str]]:
        fields = len(self.header)
        for number, row in enumerate(rows, start=1):
            if len(row) == fields:
                yield row
            elif any(row):
                self._source.refuse(
                    f"has {len(row)} field{'s' * (len(row) != 1)} in row {number} below a header "
                    f"of {fields}: it is cut short, or a field that holds the separator has no "
                    "quotes; export it again"
                )


def _csv(source: Source, lines: Iterable[str], separator: str) -> Iterator[list[str]]:
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


def _without_commas(source: Source, rows: Iterable[list[str]]) -> Iterator[list[str]]:
    """Semicolons separate fields where the comma is the decimal point; `1,234` could be either."""
    for number, row in enumerate(rows):
        if cell := next(filter(_COMMA.fullmatch, row), ""):
            source.refuse(
                f"has {cell.strip()[:80]!r} in row {number}, a number with a comma; write numbers "
                "with a decimal point"
            )
        yield row


def after_log(lines: Iterator[str], is_header: Callable[[str], bool]) -> Iterator[str]:
    """The table that begins with the first header line: the program's output is before it, and
    NVIDIA's tools put ==PROF== lines of their own anywhere."""
    for line in lines:
        if is_header(line):
            return chain([line], (rest for rest in lines if not rest.startswith("==")))
    return iter(())


def numbers(texts: Sequence[Any]) -> F64:
    """Numbers as profilers print them (thousands separators, "%"); NaN where there is none."""
    import numpy as np  # imported late: `--help` lists formats without it

    try:
        values = np.array(texts, dtype=np.float64)
    except (ValueError, OverflowError):
        values = np.fromiter(map(_number, texts), np.float64, len(texts))
    values[~np.isfinite(values)] = math.nan
    return values


def _number(text: str) -> float:
    value = finite(text)
    if value is None and ("," not in text or _GROUPS.fullmatch(text.strip())):
        value = finite(text.replace(",", "").strip().rstrip("%").strip())
    return math.nan if value is None else value


def seconds(source: Source, unit: str) -> float:
    """Factor from `unit` to seconds; InputError when it is not a unit of time."""
    factor = TIME_UNITS.get(unit.strip().lower())
    if factor is None:
        source.refuse(
            f"gives durations in {unit!r}, which is not a unit of time known here "
            f"({', '.join(sorted(set(TIME_UNITS)))}); export it with --print-units base"
        )
    return factor


@dataclass(frozen=True)
class Places:
    """Which columns hold what. `grid` and `block`: three columns, "" for none, or one that holds
    "(x, y, z)", or nothing if they are unknown; grids count work-groups, or `work_items`. `time` is
    written as the metric `measure`, `unit` is its factor to base units."""

    kernel: str
    time: str = ""
    unit: float = 1.0
    measure: str = "gpu_time"
    grid: Sequence[str] = ()
    block: Sequence[str] = ()
    work_items: bool = False
    device: str = ""
    stream: str = ""

    @property
    def taken(self) -> set[str]:
        """The columns that are not metrics."""
        return {self.kernel, self.time, *self.grid, *self.block, self.device, self.stream}


def write(
    source: Source,
    writer: ImportWriter,
    chunks: Iterator[Columns],
    places: Places,
    *,
    others: Collection[str] = (),
    scale: Callable[[str], float] = lambda _: 1.0,
    advice: str,
) -> None:
    """Write a row a launch. Columns that hold a number in the first row are metrics, times the
    `scale` of their name, except for `others`. Raises InputError for a bad launch, or without
    any."""
    from xpuprof.formats.importers.launches import Launches, LaunchWriter, work_items
    from xpuprof.trace.imported import TABLE

    launches = LaunchWriter(source, writer)
    names: list[str] | None = None
    for columns in chunks:
        if names is None:
            not_metrics = {"", places.measure, *TABLE, *others}
            names = [
                name
                for name, values in columns.items()
                if name not in not_metrics and not math.isnan(numbers(values[:1])[0])
            ]
        kernel = columns[places.kernel]
        faults = _Faults(source, writer.rows, kernel)
        metrics = {name: numbers(columns[name]) * scale(name) for name in names}
        if places.time:
            time = numbers(columns[places.time]) * places.unit
            faults.refuse(~(time >= 0), "its duration {!r} is not a number of 0 or "
                          "more", columns[places.time])  # fmt: skip
            metrics = {places.measure: time, **metrics}
        most = LARGEST_PRODUCT if places.work_items else LARGEST
        grid = faults.sizes(columns, places.grid, most)
        block = faults.sizes(columns, places.block, LARGEST)
        launches.add(
            Launches(
                kernel=kernel,
                grid=grid if places.work_items else work_items(grid, block),
                block=block,
                device=faults.natural(columns, places.device),
                stream=faults.natural(columns, places.stream),
                metrics=metrics,
            )
        )
    if not writer.rows:
        source.refuse(f"holds no kernel launch; {advice}")


class _Faults:
    """Checked whole numbers of a chunk's launches."""

    def __init__(self, source: Source, before: int, kernel: Sequence[str]) -> None:
        self._source, self._before, self._kernel = source, before, kernel

    def sizes(self, columns: Columns, names: Sequence[str], most: int) -> I64:
        """A grid or block by launch: 0, unknown, without any size, else a missing one is 1."""
        import numpy as np

        if len(names) == 1:
            sizes = np.array([_shape(text) for text in columns[names[0]]], dtype=np.float64)
            return self._integers(sizes, most)
        result = np.full((len(self._kernel), 3), math.nan)
        for i, name in enumerate(names):
            if name:
                given = np.array([bool(text.strip()) for text in columns[name]])
                result[given, i] = np.nan_to_num(numbers(columns[name]), nan=-1)[given]
        missing = np.isnan(result)
        return self._integers(np.where(missing, ~missing.all(axis=1)[:, None], result), most)

    def natural(self, columns: Columns, name: str) -> I64:
        """A device or stream by launch; 0 if missing, or a name."""
        import numpy as np

        found = numbers(columns[name]) if name else np.zeros(len(self._kernel))
        return self._integers(np.nan_to_num(found, nan=0.0)[:, None])[:, 0]

    def refuse(self, bad: Any, reason: str, values: Sequence[Any] = ()) -> None:
        """Raise InputError if a launch is bad."""
        if bad.any():
            row = int(bad.argmax())
            reason = reason.format(str(values[row])[:80]) if len(values) else reason
            self._source.refuse(
                f"has a bad launch {self._before + row + 1} ({self._kernel[row][:80]!r}): "
                f"{reason}; export it again"
            )

    def _integers(self, values: F64, most: int = LARGEST) -> I64:
        import numpy as np

        bad = ((values < 0) | (values > most)).any(axis=1)
        self.refuse(bad, f"a grid, block, device or stream number is not 0 to {most}")
        return values.astype(np.int64)


@lru_cache(maxsize=1 << 12)
def _shape(text: str) -> tuple[float, float, float]:
    """(x, y, z) of "(x, y, z)", "x y z" or "x"; missing sizes are 1, and all of "" are 0."""
    parts = text.strip().strip("()[]").replace(",", " ").split()[:3]
    if not parts:
        return 0.0, 0.0, 0.0
    sizes = [finite(part) for part in parts]
    x, y, z = (*(1.0 if size is None else size for size in sizes), *[1.0] * (3 - len(sizes)))
    return x, y, z
