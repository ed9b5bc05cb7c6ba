# SPDX-License-Identifier: Apache-2.0
"""Plain CSV (also .gz, comma, semicolon or tab) and Parquet, with a map of columns.

A row is a launch. The map names the columns for the kernel's name and its duration with unit; every
other numeric column is a metric under its own name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from xpuprof.errors import UsageError
from xpuprof.formats.format import Head, Importer, Load, Match
from xpuprof.formats.importers.table import TIME_UNITS, Places, Table, seconds, write
from xpuprof.inputs import LINE, Source

if TYPE_CHECKING:
    from xpuprof.trace.imported import ImportWriter

GRID = ("gridx", "gridy", "gridz")
BLOCK = ("lx", "ly", "lz")
FIELDS = ("kernel", "time", *GRID, *BLOCK, "device", "stream")
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
            if unit.lower() not in TIME_UNITS:
                raise UsageError(
                    f"--map {entry}: {unit!r} is not a unit of time; use one of: s, ms, us, ns"
                )
        result[field] = (column, unit)
    return result


def load(
    source: Source, writer: ImportWriter, columns: Mapping[str, tuple[str, str]] | None = None
) -> None:
    """Import a table. Raises InputError without a kernel column or rows, and for mixed units."""
    if source.path.suffix in (".parquet", ".pq") or source.head(len(PARQUET)) == PARQUET:
        _load(source, Table(source, _parquet(source)), columns or {}, writer)
        return
    with source.lines() as lines:
        first = next(lines, "")
        mark = max(",;\t", key=first.count)
        _load(source, Table.csv(source, chain([first], lines), mark), columns or {}, writer)


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
    source: Source, table: Table, chosen: Mapping[str, tuple[str, str]], writer: ImportWriter
) -> None:
    place = dict.fromkeys(FIELDS, "")
    for field in FIELDS:
        place[field] = next((guess for guess in GUESSES[field] if guess in table.header), "")
        if field in chosen:
            place[field] = chosen[field][0]
            if place[field] not in table.header:
                source.refuse(
                    f"has no column {place[field]!r}; take one of these for --map {field}=COLUMN: "
                    f"{', '.join(table.header)[:1000] or 'none'}"
                )
    if not place["kernel"]:
        source.refuse(
            "has no column that looks like a kernel's name; name it with --map kernel=COLUMN"
        )
    unit = 1.0
    if place["time"]:
        given = chosen.get("time", ("", ""))[1]
        unit = _unit(source, place["time"], given, "time" in chosen)
        writer.units["gpu_time"] = "s"
    places = Places(
        kernel=place["kernel"],
        time=place["time"],
        unit=unit,
        grid=_three(place, GRID),
        block=_three(place, BLOCK),
        device=place["device"],
        stream=place["stream"],
    )
    advice = "name another file"
    write(source, writer, table.chunks(), places, others=places.taken, advice=advice)


def _three(place: Mapping[str, str], fields: tuple[str, ...]) -> list[str]:
    names = [place[field] for field in fields]
    return names if any(names) else []


def _unit(source: Source, name: str, unit: str, mapped: bool) -> float:
    """Seconds per unit of the duration column: given, or derived from its name ("dur (ns)",
    "time_us")."""
    if unit:
        return seconds(source, unit)
    words = name.replace("(", " ").replace(")", " ").replace("_", " ").lower().split()
    if name == "DurationNs":
        return 1e-9
    known = [word for word in words if word in ("ns", "us", "ms", "s")]
    if mapped and not known:
        source.refuse(f"does not tell the unit of {name!r}; name it, as in --map time={name}:us")
    return seconds(source, known[-1]) if known else 1.0


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
