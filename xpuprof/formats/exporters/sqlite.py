"""Every table of a run in one SQLite file."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pandas as pd

from xpuprof.errors import UsageError
from xpuprof.formats.exporters.every_table import every_table
from xpuprof.formats.output import replacing
from xpuprof.selection.selection import Selection
from xpuprof.trace.run import Run


def write(run: Run, selection: Selection | None, file: Path, force: bool = False) -> list[Path]:
    """Write `file`, whole or not at all. UsageError when it exists and `force` is false."""
    try:
        with replacing(file, force) as new, closing(sqlite3.connect(new)) as database:
            for name, frame in every_table(run, selection):
                _plain(frame).to_sql(name, database, if_exists="append", index=False)
            database.commit()
    except sqlite3.Error as error:
        raise UsageError(f"cannot write {file}: {error}") from error
    return [file]


def _plain(frame: pd.DataFrame) -> pd.DataFrame:
    """SQLite has no unsigned 64-bit integers; time stamps stay far below 2^63."""
    unsigned = frame.select_dtypes(np.unsignedinteger).columns
    return frame.astype(dict.fromkeys(unsigned, np.int64))
