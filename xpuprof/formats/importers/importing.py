"""One profile of another tool to one run directory: what `xpuprof import` does for each source,
here or on a worker."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from xpuprof.errors import InputError, TraceError, UsageError, XpuprofError
from xpuprof.formats.importers.detect import detect
from xpuprof.trace.imported import FOLDER, ImportedSlices, ImportWriter
from xpuprof.trace.run import create_run, read_manifest


@dataclass(frozen=True)
class Imported:
    """A run directory that was made. `kernel_time`: seconds, None when not known."""

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


def import_one(
    source: Path, output: Path, form: str | None, columns: tuple[str, ...], force: bool, token: str
) -> Imported:
    """Makes the run directory `output` of `source`, whole or not at all.

    A worker that dies on the way is followed by another one that does it again: `token`, the same
    for all of one command, tells that the run directory which is there is this command's own.
    Raises InputError, UsageError.
    """
    form = form or detect(source)
    if columns and form != "csv":
        raise UsageError(f"--map is for csv; {source} is read as {form}")
    if not _is_own(output, token):
        # Made beside the target: a source that fails leaves the run that is there alone.
        work = output.absolute().parent / f".{output.name}-{token}"
        shutil.rmtree(work, ignore_errors=True)
        try:
            work.mkdir(parents=True)
        except OSError as error:
            raise UsageError(
                f"{output} cannot be made ({error.strerror}); name another folder with -o"
            ) from error
        try:
            with ImportWriter(work / "slices") as writer:
                _importer(form, columns)(source, writer)
            origin = {"source": str(source), "format": form, "slices": writer.rows, "token": token}
            run = create_run(work / "run", argv=[], extra={"imported": origin})
            (work / "slices" / FOLDER).rename(work / "run" / FOLDER)
            run.finish("complete")
            # Makes way as every command does: for --force only, and only for a run directory.
            create_run(output, argv=[], force=force)
            shutil.rmtree(output)
            os.rename(work / "run", output)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    slices = ImportedSlices(output)
    if not slices.rows:
        raise InputError(
            f"{output} holds no slice: {source} names no kernel launch; record it again"
        )
    known = "gpu_time" in slices.metrics
    return Imported(
        source=str(source),
        run=str(output),
        format=form,
        slices=slices.rows,
        metrics=slices.metrics,
        vectors=[side for side in ("gpu", "cpu") if slices.has_vectors(side)],
        kernel_time=float(slices.column("gpu_time").sum()) if known else None,
    )


def import_or_refuse(
    source: Path, output: Path, form: str | None, columns: tuple[str, ...], force: bool, token: str
) -> Imported | Refused:
    """As `import_one`, with the reason instead of an error: one bad source of many stops none."""
    try:
        return import_one(source, output, form, columns, force, token)
    except XpuprofError as error:
        return Refused(str(source), str(error))


def names_of(sources: Sequence[Path]) -> list[str]:
    """A name for each source: its own without suffixes, with the folders above it as far as that
    is what tells the sources apart. UsageError when a source is named twice."""
    paths = [source.absolute() for source in sources]
    if len(set(paths)) < len(paths):
        twice = next(path for path in paths if paths.count(path) > 1)
        raise UsageError(f"{twice} is named twice: name every source once")
    for depth in range(1, max(len(path.parts) for path in paths) + 1):
        names = ["-".join((*path.parts[-depth:-1], _stem(path))).strip("/-") for path in paths]
        if len(set(names)) == len(names):
            return names
    names = [path.name for path in paths]
    if len(set(names)) == len(names):
        return names
    raise UsageError("the sources' names do not tell them apart: import them one by one")


def _stem(path: Path) -> str:
    return path.name.partition(".")[0] or path.name


def _is_own(output: Path, token: str) -> bool:
    try:
        imported = read_manifest(output).get("imported")
    except TraceError:
        return False
    return isinstance(imported, dict) and imported.get("token") == token


def _importer(form: str, columns: tuple[str, ...]) -> Callable[[Path, ImportWriter], None]:
    if form == "csv":
        from xpuprof.formats.importers import tabular

        chosen = tabular.parse_map(columns)
        return lambda source, writer: tabular.load(source, writer, chosen)
    name = {"simpoint": "frequency"}.get(form, form)
    load: Callable[[Path, ImportWriter], None] = import_module(
        f"xpuprof.formats.importers.{name}"
    ).load
    return load
