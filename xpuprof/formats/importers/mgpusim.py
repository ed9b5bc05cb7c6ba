# SPDX-License-Identifier: Apache-2.0
"""MGPUSim's database (`-timing -trace-vis`): the driver's launches on the simulated timeline. It
names neither kernels nor grids, so launches are told apart by their order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xpuprof.formats.format import Head, Importer, Match
from xpuprof.formats.importers.database import Column, Database
from xpuprof.inputs import Source, finite

if TYPE_CHECKING:
    from xpuprof.trace.imported import ImportWriter

LAUNCH = "*driver.LaunchKernelCommand"
NAME = "kernel"
REMEDY = "`SAMPLE -timing -trace-vis`"
_TASK = (
    Column("What", kind="text"),
    Column("StartTime", kind="real"),
    Column("EndTime", kind="real"),
)


def load(source: Source, writer: ImportWriter) -> None:
    """Import a database. Raises InputError when it has no traced launch."""
    from xpuprof.formats.importers.timeline import Kernels  # loads numpy

    kernels = Kernels(source)
    last = 0.0
    with Database(source, "MGPUSim database", REMEDY) as database:
        if "trace" not in database.tables:
            source.refuse(f"has no table trace: no task was traced; simulate with {REMEDY}")
        database.check("trace", _TASK, f"What = '{LAUNCH}'")
        rows = database.rows(
            f"SELECT StartTime, EndTime FROM trace WHERE What = '{LAUNCH}' ORDER BY 1, 2"
        )
        for start, end in rows:
            if finite(start) is None or finite(end) is None:
                source.refuse(
                    f"is damaged: a launch lasts from {start} to {end}; simulate it again"
                )
            last = max(last, end)
            kernels.add(NAME, start, end - start)
    if not len(kernels):
        source.refuse(f"holds no kernel launch; simulate with {REMEDY}")
    kernels.write(writer, min(0.0, kernels.first), last, 1.0)


def _match(head: Head) -> Match:
    own = head.data.startswith(b"SQLite format 3\0") and b"mgpusim_metrics" in head.data
    return Match.YES if own else Match.NO


FORMAT = Importer(
    name="mgpusim",
    help="MGPUSim's database, from -timing -trace-vis",
    load=load,
    match=_match,
)
