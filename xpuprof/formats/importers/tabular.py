"""Plain CSV (also .gz, comma, semicolon or tab) and Parquet, with a map of columns.

A row is a launch. The map says which column is the kernel's name and which its duration, in which
unit; every other column of numbers is a metric under its own name.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path

from xpuprof.errors import InputError, UsageError
from xpuprof.formats.importers.table import BLOCK, Rows, index, number, open_text, seconds
from xpuprof.trace.imported import ImportWriter

FIELDS = ("kernel", "time", "gridx", "gridy", "gridz", *BLOCK, "device", "stream")
"""What a column can be mapped to; grid in work-groups."""

GUESSES: Mapping[str, tuple[str, ...]] = {
    "kernel": ("kernel", "Kernel Name", "kernel_name", "name", "Name", "KernelName"),
    "time": (
        "time",
        "duration",
        "Duration",
        "gpu_time",
        "Kernel Dur (ns)",
        "Duration (ns)",
        "DurationNs",
        "duration_ns",
        "duration_us",
        "time_ns",
        "time_us",
        "dur",
    ),
    "gridx": ("gridx", "grid_x", "GrdX", "gridX"),
    "gridy": ("gridy", "grid_y", "GrdY", "gridY"),
    "gridz": ("gridz", "grid_z", "GrdZ", "gridZ"),
    "lx": ("lx", "block_x", "BlkX", "blockX"),
    "ly": ("ly", "block_y", "BlkY", "blockY"),
    "lz": ("lz", "block_z", "BlkZ", "blockZ"),
    "device": ("device", "Device", "deviceId", "gpu"),
    "stream": ("stream", "Stream", "Strm", "streamId"),
}
MAP_HELP = "name the column with --map {field}=COLUMN"


def parse_map(entries: tuple[str, ...]) -> dict[str, tuple[str, str]]:
    """{field: (column, unit)} of `FIELD=COLUMN[:UNIT]` entries. UsageError when malformed."""
    result = {}
    for entry in entries:
        field, mark, column = entry.partition("=")
        if not mark or not column:
            raise UsageError(f"--map {entry!r} is not FIELD=COLUMN or time=COLUMN:UNIT")
        if field not in FIELDS:
            raise UsageError(f"--map knows no field {field!r}; it has: {', '.join(FIELDS)}")
        unit = ""
        if field == "time" and ":" in column:
            column, _, unit = column.rpartition(":")
        result[field] = (column, unit)
    return result


def load(
    source: Path, writer: ImportWriter, columns: Mapping[str, tuple[str, str]] | None = None
) -> None:
    """Import a table. InputError: no column for the kernel, mixed units, no row."""
    chosen = dict(columns or {})
    if source.suffix in (".parquet", ".pq"):
        header, rows = _parquet(source)
        _load(source, header, rows, chosen, writer)
        return
    with open_text(source) as text:
        first = text.readline()
        mark = max(",;\t", key=first.count)
        table = csv.reader(chain([first], text), delimiter=mark)
        _load(source, next(table, []), table, chosen, writer)


def _parquet(source: Path) -> tuple[list[str], Iterator[list[str]]]:
    try:
        import pyarrow.parquet as parquet
    except ImportError:
        raise InputError(
            f"{source} is a Parquet file, which needs pyarrow: pip install 'xpuprof[parquet]'"
        ) from None
    try:
        file = parquet.ParquetFile(source)
    except Exception as error:
        raise InputError(
            f"{source} is not a readable Parquet file: {error}; copy or write it again"
        ) from error

    def rows() -> Iterator[list[str]]:
        for batch in file.iter_batches():
            names = batch.to_pydict()
            yield from ([_text(v) for v in row] for row in zip(*names.values(), strict=True))

    return list(file.schema_arrow.names), rows()


def _text(value: object) -> str:
    return "" if value is None else str(value)


def _load(
    source: Path,
    header: list[str],
    table: Iterator[list[str]],
    chosen: dict[str, tuple[str, str]],
    writer: ImportWriter,
) -> None:
    columns = index(header)
    place: dict[str, int] = {}
    unit = ""
    for field in FIELDS:
        if field in chosen:
            name, unit_given = chosen[field]
            if name not in columns:
                raise InputError(
                    f"{source} has no column {name!r}; take one of these for --map {field}=COLUMN: "
                    f"{', '.join(columns) or 'none'}"
                )
            place[field] = columns[name]
            unit = unit_given or unit
        else:
            found = next((g for g in GUESSES[field] if g in columns), None)
            if found is not None:
                place[field] = columns[found]
    if "kernel" not in place:
        raise InputError(
            f"{source} has no column that looks like a kernel's name; "
            + MAP_HELP.format(field="kernel")
        )
    factor = 1.0
    if "time" in place:
        factor = _factor(source, header[place["time"]], unit)
        writer.units["gpu_time"] = "s"
    _rows(source, header, table, place, factor, writer)


def _rows(
    source: Path,
    header: list[str],
    table: Iterator[list[str]],
    place: dict[str, int],
    factor: float,
    writer: ImportWriter,
) -> None:
    taken = set(place.values())
    metrics: dict[str, int] = {}
    rows: Rows | None = None
    for line, row in enumerate(table, start=2):
        if not any(row):
            continue
        if len(row) != len(header):
            raise InputError(
                f"{source}, line {line}: {len(row)} fields, the header has {len(header)}; quote "
                "fields that hold the separator, or export it again"
            )
        if rows is None:
            metrics = {
                name: i
                for i, name in enumerate(header)
                if i not in taken and name and not math.isnan(number(row[i]))
            }
            # Our own names of times would clash with what an import measures itself.
            metrics = {n: i for n, i in metrics.items() if n not in ("gpu_time", "call", "process")}
            rows = Rows(writer, [*(["gpu_time"] if "time" in place else []), *metrics])
        values = [number(row[i]) for i in metrics.values()]
        if "time" in place:
            values.insert(0, _time(source, line, row[place["time"]]) * factor)
        rows.add(
            row[place["kernel"]],
            values,
            _sizes(row, place, ("gridx", "gridy", "gridz")),
            _sizes(row, place, BLOCK),
            device=_one(row, place, "device", 0),
            stream=_one(row, place, "stream", 0),
        )
    if rows is None:
        raise InputError(f"{source} holds no row below its header; export it again")
    rows.finish(source, "name another file")


def _factor(source: Path, name: str, unit: str) -> float:
    """Seconds a unit of the duration column: given, or told by its name ("dur (ns)", "time_us")."""
    if unit:
        return seconds(source, unit)
    words = name.replace("(", " ").replace(")", " ").replace("_", " ").lower().split()
    if name == "DurationNs":
        return 1e-9
    known = [word for word in words if word in ("ns", "us", "ms", "s")]
    return seconds(source, known[-1]) if known else 1.0


def _time(source: Path, line: int, text: str) -> float:
    value = number(text)
    if math.isnan(value):
        raise InputError(
            f"{source}, line {line}: duration {text!r} is not a number; give all durations in "
            "one unit, named as --map time=COLUMN:UNIT"
        )
    return value


def _sizes(row: list[str], place: dict[str, int], names: tuple[str, ...]) -> tuple[int, int, int]:
    sizes = [_one(row, place, name, 1) for name in names]
    return (sizes[0], sizes[1], sizes[2])


def _one(row: list[str], place: dict[str, int], name: str, default: int) -> int:
    if name not in place:
        return default
    value = number(row[place[name]])
    return default if math.isnan(value) else int(value)
