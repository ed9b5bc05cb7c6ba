# SPDX-License-Identifier: Apache-2.0
"""Plain CSV (also .gz, comma, semicolon or tab) and Parquet, with a map of columns.

A row is a launch. The map names the columns for the kernel's name and its duration with unit; every
other numeric column is a metric under its own name.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from xpuprof.errors import UsageError
from xpuprof.formats.format import Head, Importer, Load, Match
from xpuprof.formats.importers.table import BLOCK, Rows, index, integer, number, rows, seconds
from xpuprof.inputs import LINE, Source

if TYPE_CHECKING:
    from xpuprof.trace.imported import ImportWriter

FIELDS = ("kernel", "time", "gridx", "gridy", "gridz", *BLOCK, "device", "stream")
"""Fields that a column can be mapped to; grid in work-groups."""

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
PARQUET = b"PAR1"
PARQUET_ROWS = 4096
"""Rows decoded at once."""
MAP_HELP = "name the column with --map {field}=COLUMN"


def parse_map(entries: Sequence[str]) -> dict[str, tuple[str, str]]:
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
    source: Source, writer: ImportWriter, columns: Mapping[str, tuple[str, str]] | None = None
) -> None:
    """Import a table. Raises InputError without a kernel column or rows, and for mixed units."""
    chosen = dict(columns or {})
    if source.path.suffix in (".parquet", ".pq") or source.head(len(PARQUET)) == PARQUET:
        table = _parquet(source)
        _load(source, next(table, []), table, chosen, writer)
        return
    with source.lines() as lines:
        first = next(lines, "")
        mark = max(",;\t", key=first.count)
        table = rows(source, chain([first], lines), mark)
        _load(source, next(table, []), table, chosen, writer)


def _parquet(source: Source) -> Iterator[list[str]]:
    """Yield the column names, then the rows."""
    try:
        import pyarrow
        import pyarrow.parquet as parquet
    except ImportError:
        source.refuse("is a Parquet file, which needs pyarrow: pip install 'xpuprof[parquet]'")
    try:
        file = parquet.ParquetFile(source.path)
        names = list(file.schema_arrow.names)
        source.unpacked(LINE * file.metadata.num_rows)
        yield names
        for batch in file.iter_batches(PARQUET_ROWS):
            source.unpacked(batch.nbytes)
            columns = batch.to_pydict()
            yield from ([_text(v) for v in row] for row in zip(*columns.values(), strict=True))
    except (OSError, ValueError, TypeError, MemoryError, pyarrow.ArrowException) as error:
        source.refuse(f"is not a readable Parquet file: {error}; copy or write it again")


def _text(value: object) -> str:
    return "" if value is None else str(value)


def _load(
    source: Source,
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
                source.refuse(
                    f"has no column {name!r}; take one of these for --map {field}=COLUMN: "
                    f"{', '.join(columns)[:1000] or 'none'}"
                )
            place[field] = columns[name]
            unit = unit_given or unit
        else:
            found = next((g for g in GUESSES[field] if g in columns), None)
            if found is not None:
                place[field] = columns[found]
    if "kernel" not in place:
        source.refuse(
            "has no column that looks like a kernel's name; " + MAP_HELP.format(field="kernel")
        )
    factor = 1.0
    if "time" in place:
        factor = _factor(source, header[place["time"]], unit)
        writer.units["gpu_time"] = "s"
    _rows(source, header, table, place, factor, writer)


def _rows(
    source: Source,
    header: list[str],
    table: Iterator[list[str]],
    place: dict[str, int],
    factor: float,
    writer: ImportWriter,
) -> None:
    taken = set(place.values())
    metrics: dict[str, int] = {}
    launches: Rows | None = None
    for line, row in enumerate(table, start=2):
        if not any(row):
            continue
        if len(row) != len(header):
            source.refuse(
                f"has {len(row)} fields in line {line}, the header has {len(header)}; quote "
                "fields that hold the separator, or export it again"
            )
        if launches is None:
            metrics = {
                name: i
                for i, name in enumerate(header)
                if i not in taken and name and not math.isnan(number(row[i]))
            }
            # Reserved time names would clash with those that an import sets.
            metrics = {n: i for n, i in metrics.items() if n not in ("gpu_time", "call", "process")}
            timed = "time" in place
            launches = Rows(source, writer, ["gpu_time"] * timed + [*metrics], timed)
        values = [number(row[i]) for i in metrics.values()]
        if "time" in place:
            values.insert(0, _time(source, line, row[place["time"]]) * factor)
        launches.add(
            row[place["kernel"]],
            values,
            _sizes(row, place, ("gridx", "gridy", "gridz")),
            _sizes(row, place, BLOCK),
            device=_one(row, place, "device", 0),
            stream=_one(row, place, "stream", 0),
        )
    if launches is None:
        source.refuse("holds no row below its header; export it again")
    launches.finish("name another file")


def _factor(source: Source, name: str, unit: str) -> float:
    """Seconds per unit of the duration column: given, or derived from its name ("dur (ns)",
    "time_us")."""
    if unit:
        return seconds(source, unit)
    words = name.replace("(", " ").replace(")", " ").replace("_", " ").lower().split()
    if name == "DurationNs":
        return 1e-9
    known = [word for word in words if word in ("ns", "us", "ms", "s")]
    return seconds(source, known[-1]) if known else 1.0


def _time(source: Source, line: int, text: str) -> float:
    value = number(text)
    if math.isnan(value):
        source.refuse(
            f"has a duration {text!r} in line {line}, which is not a number; give all durations "
            "in one unit, named as --map time=COLUMN:UNIT"
        )
    return value


def _sizes(row: list[str], place: dict[str, int], names: tuple[str, ...]) -> tuple[int, int, int]:
    sizes = [_one(row, place, name, 1) for name in names]
    return (sizes[0], sizes[1], sizes[2])


def _one(row: list[str], place: dict[str, int], name: str, default: int) -> int:
    return integer(row[place[name]], default) if name in place else default


def _match(head: Head) -> Match:
    first = head.text.partition("\n")[0]
    other = first.startswith(("{", "[", "SQLite format 3\0", "T:"))
    table = head.data.startswith(PARQUET) or any(mark in first for mark in ",;\t")
    return Match.PERHAPS if table and not other else Match.NO


def _with_map(entries: Sequence[str]) -> Load:
    columns = parse_map(entries)
    return lambda source, writer: load(source, writer, columns)


FORMAT = Importer(
    name="csv",
    help="any table (CSV, Parquet) with --map kernel=NAME --map time=DURATION:us",
    load=load,
    match=_match,
    mapped=_with_map,
    aliases=("table", "parquet"),
)
