# SPDX-License-Identifier: Apache-2.0
"""rocpd: the SQLite database of rocprofv3 (its default output since ROCm 7): kernels on their
timeline, or durations and counters when those were collected.

Tables carry the recording's UUID in their names. Times of a launch stand beside it or, in later
versions, in a table of their own; queues likewise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from xpuprof.formats.format import Head, Importer, Match
from xpuprof.formats.importers.database import Column, Database
from xpuprof.formats.importers.rocprof import Count, write_counters
from xpuprof.formats.importers.table import LARGEST
from xpuprof.inputs import Source

if TYPE_CHECKING:
    from xpuprof.trace.imported import ImportWriter

DISPATCH, SYMBOL, TIME, TRACK, VALUE, COUNTER = (
    "rocpd_kernel_dispatch",
    "rocpd_info_kernel_symbol",
    "rocpd_timestamp",
    "rocpd_track",
    "rocpd_pmc_event",
    "rocpd_info_pmc",
)
LATEST = 1 << 61
NS = 1e-9
REMEDY = "`rocprofv3 --kernel-trace --output-format rocpd -- ./app`"
_SIZES = [f"{what}_size_{axis}" for what in ("grid", "workgroup") for axis in "xyz"]
_LAUNCH = (Column("kernel_id"), *(Column(name, 0, LARGEST) for name in _SIZES))
_TIMES = tuple(Column(name, -LATEST, LATEST) for name in ("start", "end"))
_SHAPE = ", ".join(f"d.{name}" for name in _SIZES)


def load(source: Source, writer: ImportWriter) -> None:
    """Import a recording. Raises InputError when it is not one, damaged, or has no kernels."""
    from xpuprof.formats.importers.timeline import Kernels  # loads numpy

    with Database(source, "rocpd database", REMEDY) as database:
        dispatch, symbol = (_table(source, database, name) for name in (DISPATCH, SYMBOL))
        query = _launches(source, database, dispatch)
        text = Column("display_name", kind="text", null=True)
        database.check(symbol, (Column("id"), text))
        names = database.names(f'SELECT id, display_name FROM "{symbol}"')
        if _is_counted(database):
            counts = _counts(source, database, dispatch, names)
            write_counters(source, writer, counts, f"record with {REMEDY}")
            return
        kernels = Kernels(source)
        origin = last = 0
        for kernel, device, stream, start, end, *sizes in database.rows(query):
            if not len(kernels):
                origin = start
            last = max(last, end)
            kernels.add(
                names.get(kernel, f"kernel {kernel}"),
                start - origin,
                end - start,
                device=device,
                stream=stream,
                shape=sizes,
            )
    if not len(kernels):
        source.refuse(f"holds no kernel launch; record with {REMEDY}")
    kernels.write(writer, kernels.first, last - origin, NS)


def _is_counted(database: Database) -> bool:
    """Whether counters were collected; the tables exist in every recording."""
    found = [table for table in database.tables if table.startswith(VALUE)]
    return any(True for table in found for _ in database.rows(f'SELECT 1 FROM "{table}" LIMIT 1'))


def _counts(
    source: Source, database: Database, dispatch: str, names: Mapping[int, str]
) -> Iterator[Count]:
    """Counters of each launch. A counter has a row for each instance of its unit."""
    value, counter = (_table(source, database, name) for name in (VALUE, COUNTER))
    database.check(dispatch, (Column("event_id"), *_TIMES))
    database.check(value, (Column("event_id"), Column("pmc_id"), Column("value", kind="real")))
    database.check(counter, (Column("id"), Column("name", kind="text")))
    rows = database.rows(
        f"SELECT d.id, d.kernel_id, {_SHAPE}, d.end - d.start, c.name, sum(v.value) "
        f'FROM "{value}" v JOIN "{counter}" c ON c.id = v.pmc_id '
        f'JOIN "{dispatch}" d ON d.event_id = v.event_id GROUP BY d.id, c.name '
        "ORDER BY d.id, c.name"
    )
    for launch, kernel, *sizes, duration, name, number in rows:
        grid, block = (" ".join(map(str, part)) for part in (sizes[:3], sizes[3:]))
        kernel = names.get(kernel, f"kernel {kernel}")
        yield Count(launch, kernel, grid, block, duration, name, number)


def _table(source: Source, database: Database, name: str) -> str:
    found = sorted(table for table in database.tables if table.startswith(name))
    if not found:
        source.refuse(
            f"has no table {name}, so it is not a rocpd database; make it again with {REMEDY}"
        )
    if len(found) > 1:
        source.refuse(f"holds {len(found)} recordings; import the database of each process")
    if not found[0].replace("_", "").replace("-", "").isalnum():
        source.refuse(f"is damaged: it has a table {found[0][:60]!r}; make it again with {REMEDY}")
    return found[0]


def _launches(source: Source, database: Database, dispatch: str) -> str:
    """The query for kernel, device, stream, start, end, grid and work-group in order of starts."""
    place = (Column("agent_id", 0, LARGEST, null=True), Column("stream_id", 0, LARGEST, null=True))
    if {"start", "end"} <= database.columns(dispatch):
        database.check(dispatch, (*_LAUNCH, *_TIMES, *place))
        return (
            "SELECT d.kernel_id, coalesce(d.agent_id, 0), coalesce(d.stream_id, 0), d.start, "
            f'd.end, {_SHAPE} FROM "{dispatch}" d ORDER BY d.start, d.id'
        )
    time, track = (_table(source, database, name) for name in (TIME, TRACK))
    links = tuple(Column(name) for name in ("start_id", "end_id", "track_id"))
    database.check(dispatch, (*_LAUNCH, *links))
    database.check(time, (Column("id"), Column("value", -LATEST, LATEST)))
    database.check(track, (Column("id"), *place))
    return (
        "SELECT d.kernel_id, coalesce(t.agent_id, 0), coalesce(t.stream_id, 0), s.value, e.value, "
        f'{_SHAPE} FROM "{dispatch}" d JOIN "{time}" s ON s.id = d.start_id '
        f'JOIN "{time}" e ON e.id = d.end_id JOIN "{track}" t ON t.id = d.track_id '
        "ORDER BY s.value, d.id"
    )


def _match(head: Head) -> Match:
    own: Any = head.data.startswith(b"SQLite format 3\0") and b"rocpd_" in head.data
    return Match.YES if own else Match.NO


FORMAT = Importer(
    name="rocpd",
    help="rocprofv3's SQLite database (rocpd)",
    load=load,
    match=_match,
)
