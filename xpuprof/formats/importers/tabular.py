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
from xpuprof.formats.importers.table import Places, Table, seconds, write
from xpuprof.formats.units import TIME_UNITS, unit_of, words_of
from xpuprof.inputs import LINE, Source

if TYPE_CHECKING:
    from xpuprof.trace.imported import ImportWriter

GRID = ("gridx", "gridy", "gridz")
BLOCK = ("lx", "ly", "lz")
FIELDS = ("kernel", "time", *GRID, *BLOCK, "device", "stream")
"""Fields that a column can be mapped to; grid in work-groups."""

GUESSES: Mapping[str, tuple[str, ...]] = {
    "kernel": ("kernel", "kernel name", "name"),
    "time": ("time", "duration", "gpu time", "kernel dur", "dur"),
    "gridx": ("gridx", "grid x", "grd x"),
    "gridy": ("gridy", "grid y", "grd y"),
    "gridz": ("gridz", "grid z", "grd z"),
    "lx": ("lx", "block x", "blk x"),
    "ly": ("ly", "block y", "blk y"),
    "lz": ("lz", "block z", "blk z"),
    "device": ("device", "device id", "gpu"),
    "stream": ("stream", "stream id", "strm"),
}
"""The words of columns that need no --map, without a unit at their end; the first that is there."""
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
        if not _is_text(first):
            source.refuse("is not text; name a table (CSV or Parquet)")
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


def _guessed(field: str, header: Sequence[str]) -> str:
    """The column that holds a field, by its name; empty if there is none."""
    plain: dict[str, str] = {}
    for name in header:
        words = words_of(name)
        known = words[:-1] if field == "time" and unit_of(name) else words
        plain.setdefault(" ".join(known), name)
    return next((plain[guess] for guess in GUESSES[field] if guess in plain), "")


def _load(
    source: Source, table: Table, chosen: Mapping[str, tuple[str, str]], writer: ImportWriter
) -> None:
    place = dict.fromkeys(FIELDS, "")
    for field in FIELDS:
        place[field] = _guessed(field, table.header)
        if field in chosen:
            place[field] = chosen[field][0]
            if place[field] not in table.header:
                source.refuse(
                    f"has no column {place[field]!r}; take one of these for --map {field}=COLUMN: "
                    f"{', '.join(table.header)[:1000] or 'none'}"
                )
    if not place["kernel"]:
        source.refuse(
            "has no column that looks like a kernel's name; name it with --map kernel=COLUMN; the "
            f"columns are {', '.join(table.header)[:1000] or 'none'}"
        )
    unit = 1.0
    if place["time"]:
        if table.header.count(place["time"]) > 1:
            source.refuse(f"has several columns {place['time']!r}; rename all but one")
        unit = seconds(source, _unit(source, place["time"], chosen.get("time", ("", ""))[1]))
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


def _unit(source: Source, name: str, given: str) -> str:
    """The unit of the duration column: given, or told by its name."""
    unit = given or unit_of(name)
    if not unit:
        source.refuse(f"does not tell the unit of {name!r}; name it, as in --map time={name}:us")
    return unit


def _is_text(line: str) -> bool:
    """Whether every byte of it was a character (others were replaced), none of them NUL."""
    return not {"\0", "\ufffd"} & set(line)


def _match(head: Head) -> Match:
    if head.data.startswith(PARQUET):
        return Match.PERHAPS
    first = head.text.partition("\n")[0]
    other = first.startswith(("{", "[", "T:")) or not _is_text(first)
    table = any(mark in first for mark in ",;\t")
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
