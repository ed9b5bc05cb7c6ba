# SPDX-License-Identifier: Apache-2.0
"""Every table of a run in one SQLite file."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from xpuprof.errors import UsageError
from xpuprof.formats.format import Exporter, Needs
from xpuprof.formats.output import replacing

if TYPE_CHECKING:
    import pandas as pd

    from xpuprof.selection.selection import Selection
    from xpuprof.trace.run import Run


def write(run: Run, selection: Selection | None, file: Path, force: bool = False) -> list[Path]:
    """Write `file` atomically. Raises UsageError when it exists and `force` is false."""
    # Imported late: `--help` lists formats without pandas and SQLite.
    import sqlite3

    from pandas.errors import DatabaseError

    from xpuprof.formats.exporters.every_table import every_table

    try:
        with replacing(file, force) as new:
            new.touch()  # SQLite does not say why it cannot
            with closing(sqlite3.connect(new)) as database:
                # A file that fails is removed as a whole; a journal would be left beside it.
                database.execute("PRAGMA journal_mode = OFF")
                for name, frame in every_table(run, selection):
                    try:
                        _plain(frame).to_sql(name, database, if_exists="append", index=False)
                    except DatabaseError as error:  # an OSError, of which nobody knows the number
                        raise sqlite3.OperationalError(_reason(error)) from error
                database.commit()
    except sqlite3.Error as error:
        raise UsageError(
            f"cannot write {file}: {error}; free space, or name another path"
        ) from error
    return [file]


def _reason(error: BaseException) -> str:
    """What SQLite said, which pandas wraps in its own statement."""
    while error.__cause__ is not None:
        error = error.__cause__
    return str(error)


def _plain(frame: pd.DataFrame) -> pd.DataFrame:
    """SQLite has no unsigned 64-bit integers; time stamps stay far below 2^63."""
    unsigned = [name for name, dtype in frame.dtypes.items() if dtype.kind == "u"]
    return frame.astype(dict.fromkeys(unsigned, "int64"))


FORMAT = Exporter(
    name="sqlite",
    help="OUT, every table",
    write=lambda source, out, options: write(
        source.run, source.selection_if_any, out, options.force
    ),
    needs=Needs.RUN,
)
