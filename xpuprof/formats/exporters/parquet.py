# SPDX-License-Identifier: Apache-2.0
"""Every table of a run as Parquet, one file per table."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from xpuprof.errors import UsageError, unwritable
from xpuprof.formats.format import Exporter, Needs
from xpuprof.formats.output import refuse_existing, within

if TYPE_CHECKING:
    import pandas as pd

    from xpuprof.selection.selection import Selection
    from xpuprof.trace.run import Run


def write(run: Run, selection: Selection | None, folder: Path, force: bool = False) -> list[Path]:
    """Write `folder`/<table>.parquet. Raises UsageError without pyarrow, or when a file exists and
    `force` is false."""
    try:
        import pyarrow as pa
    except ModuleNotFoundError as error:
        raise UsageError(
            "Parquet needs pyarrow: pip install xpuprof[parquet], or use --format sqlite"
        ) from error
    # Imported late: `--help` lists formats without pandas.
    from xpuprof.formats.exporters.every_table import every_table

    refuse_existing(folder / "slices.parquet", force)
    try:
        with within(folder):
            return _files(every_table(run, selection), folder, force)
    except OSError as error:
        raise unwritable(folder, error) from error
    except pa.ArrowException as error:
        raise UsageError(f"cannot write to {folder}: {error}") from error


def _files(tables: Iterable[tuple[str, pd.DataFrame]], folder: Path, force: bool) -> list[Path]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    writers: dict[str, Any] = {}
    files: dict[str, BinaryIO] = {}
    paths: dict[str, Path] = {}
    try:
        for name, frame in tables:
            # A dictionary's type would depend on how many names the first process has.
            texts = dict.fromkeys(frame.select_dtypes("category").columns, "str")
            table = pa.Table.from_pandas(frame.astype(texts), preserve_index=False)
            if name not in writers:
                paths[name] = folder / f"{name}.parquet"
                refuse_existing(paths[name], force)
                # Arrow opens no path that is not UTF-8.
                files[name] = _temporary(paths[name]).open("wb")
                writers[name] = pq.ParquetWriter(files[name], table.schema)
            writers[name].write_table(table.cast(writers[name].schema))
        for name, writer in writers.items():
            writer.close()
            files[name].close()
            os.replace(_temporary(paths[name]), paths[name])
    finally:
        for name, path in paths.items():
            _forget(writers.get(name))
            if name in files:
                with suppress(OSError):
                    files[name].close()
            _temporary(path).unlink(missing_ok=True)
    return list(paths.values())


def _forget(writer: Any) -> None:
    """Closes a writer whose file is not wanted. One that cannot be closed would try again when
    Python forgets it, and print why it failed."""
    if writer is not None and writer.is_open:
        with suppress(OSError):
            writer.close()
        writer.is_open = False


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}")


FORMAT = Exporter(
    name="parquet",
    help="OUT/<table>.parquet, every table",
    write=lambda source, out, options: write(
        source.run, source.selection_if_any, out, options.force
    ),
    needs=Needs.RUN,
    folder=True,
)
