# SPDX-License-Identifier: Apache-2.0
"""Converts profiles of other tools to run directories (`xpuprof import`), here or on workers."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from xpuprof.clustering.executors import open_executor
from xpuprof.errors import TraceError, UsageError, XpuprofError, unwritable
from xpuprof.formats.format import Importer, Load
from xpuprof.formats.registry import all_importers, named, recognised
from xpuprof.inputs import Source
from xpuprof.stages import stage
from xpuprof.trace.imported import FOLDER, ImportedSlices, ImportWriter
from xpuprof.trace.manifest import read_manifest
from xpuprof.trace.run_writer import create_run


@dataclass(frozen=True)
class Imported:
    """A run directory made by an import. `kernel_time`: seconds, None if unknown."""

    source: str
    run: str
    format: str
    slices: int
    metrics: list[str]
    vectors: list[str]
    kernel_time: float | None


@dataclass(frozen=True)
class Refused:
    """A source that could not be imported, and why."""

    source: str
    reason: str


def import_(
    source: str | Path,
    output: str | Path,
    *,
    format: str | None = None,
    columns: Sequence[str] = (),
    force: bool = False,
) -> Imported:
    """Makes the run directory `output` from another tool's profile, completely or not at all.

    `format` is detected unless given; `columns` are entries FIELD=COLUMN for tables. Raises
    InputError for a source that cannot be read, UsageError for an output that must not be replaced
    (`force`) or cannot be written.
    """
    return import_one(Path(source), Path(output), format, tuple(columns), force, uuid.uuid4().hex)


def import_all(
    sources: Sequence[Path],
    folder: Path,
    *,
    format: str | None = None,
    columns: Sequence[str] = (),
    force: bool = False,
    workers: int | None = None,
    scheduler: str | None = None,
) -> list[Imported | Refused]:
    """Makes a run directory in `folder` for each source, in order; here, or on Dask workers. A
    source that cannot be read does not stop the others."""
    names = names_of(sources)
    count = len(sources)
    fixed = (format, tuple(columns), force, uuid.uuid4().hex)
    with open_executor(workers, scheduler) as executor:
        handles = executor.map(
            _import_or_refuse,
            [source.absolute() for source in sources],
            [folder.absolute() / name for name in names],
            *([value] * count for value in fixed),
            what="source",
        )
        return list(executor.results(handles))


def import_one(
    source: Path, output: Path, form: str | None, columns: tuple[str, ...], force: bool, token: str
) -> Imported:
    """Imports one source. If a worker dies, another repeats the work: `token`, the same for the
    whole command, marks an existing run directory as the command's own."""
    file = Source(source)
    importer = named(all_importers(), form) if form else recognised(file)
    load = _loader(importer, columns, source)
    try:
        if not _is_own(output, token):
            _make(file, output, importer, load, force, token)
    except OSError as error:
        # Readers turn errors of the source into InputError, so this one comes from writing.
        raise unwritable(output, error) from error
    slices = ImportedSlices(output)
    known = "gpu_time" in slices.metrics
    return Imported(
        source=str(source),
        run=str(output),
        format=importer.name,
        slices=slices.rows,
        metrics=slices.metrics,
        vectors=[side for side in ("gpu", "cpu") if slices.has_vectors(side)],
        kernel_time=float(slices.column("gpu_time").sum()) if known else None,
    )


def _make(
    source: Source, output: Path, importer: Importer, load: Load, force: bool, token: str
) -> None:
    # Made beside the target: a failing source leaves an existing run untouched.
    work = output.absolute().parent / f".{output.name}-{token}"
    shutil.rmtree(work, ignore_errors=True)
    try:
        work.mkdir(parents=True)
    except OSError as error:
        raise unwritable(output, error) from error
    try:
        with ImportWriter(work / "slices") as writer:
            try:
                with stage("launches", lambda: writer.rows):
                    load(source, writer)
            except (MemoryError, RecursionError):
                source.refuse("needs more memory than there is; import it on a larger machine")
            if not writer.rows:
                source.refuse("names no kernel launch; record it again")
        origin = {
            "source": str(source),
            "format": importer.name,
            "slices": writer.rows,
            "token": token,
        }
        run = create_run(work / "run", argv=[], extra={"imported": origin})
        (work / "slices" / FOLDER).rename(work / "run" / FOLDER)
        run.finish("complete")
        # Replaced as in every command: only with --force, and only a run directory.
        create_run(output, argv=[], force=force, needed=[source.path])
        shutil.rmtree(output)
        os.rename(work / "run", output)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _loader(importer: Importer, columns: tuple[str, ...], source: Path) -> Load:
    if not columns:
        return importer.load
    if importer.mapped is None:
        takers = [name for name, each in all_importers().items() if each.mapped]
        raise UsageError(f"--map is for {', '.join(takers)}; {source} is read as {importer.name}")
    return importer.mapped(columns)


def _import_or_refuse(
    source: Path, output: Path, form: str | None, columns: tuple[str, ...], force: bool, token: str
) -> Imported | Refused:
    try:
        return import_one(source, output, form, columns, force, token)
    except XpuprofError as error:
        return Refused(str(source), str(error))


def names_of(sources: Sequence[Path]) -> list[str]:
    """A name for each source: its file name without suffixes, preceded by as many parent folders as
    are needed to distinguish the sources. Raises UsageError if a source is given twice."""
    paths = [source.absolute() for source in sources]
    if len(set(paths)) < len(paths):
        twice = next(path for path in paths if paths.count(path) > 1)
        raise UsageError(f"{twice} is named twice: name each source once")
    for depth in range(1, max(len(path.parts) for path in paths) + 1):
        names = ["-".join((*path.parts[-depth:-1], _stem(path))).strip("/-") for path in paths]
        if len(set(names)) == len(names):
            return names
    names = [path.name for path in paths]
    if len(set(names)) == len(names):
        return names
    raise UsageError("the sources' names do not distinguish them: import them one by one")


def _stem(path: Path) -> str:
    return path.name.partition(".")[0] or path.name


def _is_own(output: Path, token: str) -> bool:
    try:
        imported = read_manifest(output).get("imported")
    except TraceError:
        return False
    return isinstance(imported, dict) and imported.get("token") == token
