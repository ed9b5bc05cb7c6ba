# SPDX-License-Identifier: Apache-2.0
"""Writes selections and runs in the formats of other tools (`xpuprof export`)."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from xpuprof.errors import UsageError, series, unwritable
from xpuprof.formats.exporters.source import ExportSource
from xpuprof.formats.format import Exporter, ExportOptions, Needs
from xpuprof.formats.registry import all_exporters, named
from xpuprof.trace.imported import FOLDER
from xpuprof.trace.manifest import MANIFEST, REDACTED
from xpuprof.workflow.next_step import command

_PART = "{} is a part of what is exported; name another path"


@dataclass(frozen=True)
class Exported:
    """The files written, and their format."""

    format: str
    files: tuple[Path, ...]
    then: str = ""
    """What to do with them."""
    cold: bool = False
    """Whether regions begin with cold caches, although the format can carry warm-up."""


def export(
    source: str | Path,
    format: str,
    output: str | Path,
    *,
    selection: str | Path | None = None,
    warmup: int = 0,
    warm_cache: int | None = None,
    image_base: int | None = None,
    kernelslist: str | Path | None = None,
    force: bool = False,
) -> Exported:
    """Writes a run directory or a selection file (`source`) to `output`, for another tool.

    `selection` [RUN/selection.json]; `warmup` slices before each region, or as many as fill a cache
    of `warm_cache` bytes; `image_base`: load address of a position-independent program;
    `kernelslist`: Accel-Sim's list of the whole run. Each of several processes gets its own files.
    Raises UsageError for an option that the format does not take and for files that exist (`force`)
    or cannot be written, InputError or TraceError for a source that lacks what the format needs.
    """
    exporter = named(all_exporters(), format)
    lists = Path(kernelslist) if kernelslist else None
    options = ExportOptions(force, warmup, warm_cache, image_base, lists)
    _refuse_unused(exporter, options)
    if warmup and warm_cache:
        raise UsageError("--warmup and --warm-cache both choose the warm-up; give one")
    path = Path(source)
    if not path.exists():
        raise UsageError(f"{path} does not exist; check its path")
    whole = ExportSource(path, Path(selection) if selection else None)
    if exporter.needs is not Needs.SELECTION:
        whole.run  # refuses a selection alone before anything is written  # noqa: B018
    files: list[Path] = []
    targets = _targets(exporter, whole, Path(output), options)
    for _, target in targets:
        _refuse_source(path, whole, target)
    if exporter.folder:
        _refuse_recorded(path, Path(output))
    try:
        for one, target in targets:
            files += exporter.write(one, target, options)
    except OSError as error:
        raise unwritable(output, error) from error
    outputs = [target for _, target in targets]
    then = _then(exporter, whole, Path(output), outputs)
    cold = "warmup" in exporter.takes and not (warmup or warm_cache)
    return Exported(exporter.name, tuple(files), then, cold)


def _refuse_source(path: Path, source: ExportSource, target: Path) -> None:
    """Raises UsageError if the target is a file that the export reads, even with `force`."""
    run, at = path.resolve(), target.resolve()
    recorded = run / FOLDER in at.parents or (run in at.parents and at.suffix == ".xpt")
    read = recorded or at in (run, run / MANIFEST, source.selection_file().resolve())
    if read and target.is_file():
        raise UsageError(_PART.format(target))


def _refuse_recorded(path: Path, folder: Path) -> None:
    """Raises UsageError if files in the folder would lie among those of the run."""
    run, at = path.resolve(), folder.resolve()
    if not run.is_dir():
        run = run.parent  # of a selection
    if not (run / MANIFEST).is_file() or run not in (at, *at.parents):
        return
    inside = at.relative_to(run).parts[:1]
    if not inside or inside[0] == FOLDER or any((run / inside[0]).rglob("*.xpt")):
        raise UsageError(_PART.format(folder))


def _then(exporter: Exporter, source: ExportSource, output: Path, outputs: Sequence[Path]) -> str:
    """How to use the outputs, of one or several processes, and how to read the results."""
    recorded: Sequence[str] = []
    if exporter.needs in (Needs.SELECTION, Needs.VECTORS):
        recorded = source.selection.identity.arguments
    if REDACTED in recorded:
        recorded = ()
    app, *arguments = recorded or ["./app", "args"]
    each = {
        "program": "" if recorded else " ./app args",
        "command": shlex.join([app, *arguments]),
        "app": shlex.quote(app),
        "arguments": shlex.quote(shlex.join(arguments)),
        "out": shlex.quote(str(outputs[0])),
    }
    use = exporter.use.format(**each)
    if use and len(outputs) > 1:
        use += " (likewise for each other process)"
    if exporter.needs not in (Needs.SELECTION, Needs.VECTORS):
        return use
    results = exporter.results or output if use else "FILE"
    estimate = command("estimate", source.selection_file(), "--results", results)
    return f"{use or 'simulate the regions'}, then: {estimate}"


def _targets(
    exporter: Exporter, source: ExportSource, output: Path, options: ExportOptions
) -> list[tuple[ExportSource, Path]]:
    """Sources and their targets: one, or one per process that has regions."""
    parts = source.by_process(exporter.kernels_only) if exporter.per_process else []
    if not parts:
        return [(source, output)]
    if options.kernelslist:
        raise UsageError(
            "--kernelslist belongs to one process; select with --processes each and export the "
            "selection of that process"
        )
    return [(part, _named(output, label, exporter.folder)) for label, part in parts]


def _named(output: Path, label: str, folder: bool) -> Path:
    """OUT/rank0 for a folder, app-rank0.json for app.json."""
    if folder:
        return output / label
    stem, dot, suffix = output.name.partition(".")
    return output.with_name(f"{stem}-{label}{dot}{suffix}")


def _refuse_unused(exporter: Exporter, options: ExportOptions) -> None:
    """Raises UsageError for an option that the format does not take."""
    unset = ExportOptions()
    for option in ("warmup", "warm_cache", "image_base", "kernelslist"):
        given = getattr(options, option) != getattr(unset, option)
        if given and option not in exporter.takes:
            takers = [name for name, each in all_exporters().items() if option in each.takes]
            raise UsageError(
                f"--{option.replace('_', '-')} is for {series(takers, 'and')}; omit it with "
                f"--format {exporter.name}"
            )
