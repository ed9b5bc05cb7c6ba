# SPDX-License-Identifier: Apache-2.0
"""The installed formats: those of our three folders, and those of other packages, whose entry
points in the group `xpuprof.formats` name a declaration (`formats.format`)."""

from __future__ import annotations

import codecs
import importlib
import shlex
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from xpuprof.declarations import Declarations
from xpuprof.errors import UsageError, unknown
from xpuprof.formats import exporters, importers, simulator_results
from xpuprof.formats.format import HEAD, Exporter, Format, Head, Importer, Match, ResultReader
from xpuprof.inputs import Source, is_selection

MARK = "\nFORMAT = "
F = TypeVar("F", bound=Format)


def all_importers() -> dict[str, Importer]:
    """Importers by name."""
    return _of_kind(Importer)


def all_exporters() -> dict[str, Exporter]:
    """Exporters by name."""
    return _of_kind(Exporter)


def all_result_readers() -> dict[str, ResultReader]:
    """Readers of simulators' results by name."""
    return _of_kind(ResultReader)


def named(formats: Mapping[str, F], name: str) -> F:
    """The format with a name or alias. Raises UsageError when there is none."""
    found = next((f for f in formats.values() if name in f.names), None)
    if found is None:
        for declared in _declared.values():
            if fault := declared.faults.get(name):
                raise UsageError(fault)
        aliases = [alias for f in formats.values() for alias in f.names]
        raise UsageError(unknown("format", name, formats, aliases))
    return found


def recognised(source: Source) -> Importer:
    """The importer for a file or folder, by its first bytes and its name. Raises InputError when it
    is missing, empty, or not recognised by exactly one."""
    path = source.path
    if not path.exists():
        source.refuse("does not exist; check its name and folder")
    from xpuprof.trace.manifest import MANIFEST  # completion, which lists formats, does not need it

    if (path / MANIFEST).exists():
        shown = shlex.join(["xpuprof", "info", str(path)])
        source.refuse(f"is a run directory already; show it with: {shown}")
    head = Head(path, b"" if path.is_dir() else source.head(HEAD))
    if not path.is_dir() and not head.data:
        source.refuse("is empty; copy it or export it again")
    if is_selection(path):
        source.refuse(
            "is a selection of xpuprof, not a profile; show its run with: xpuprof report RUN"
        )
    if head.data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        shown = shlex.quote(str(path))
        source.refuse(
            f"is UTF-16 text; export it as UTF-8, or: iconv -f UTF-16 -t UTF-8 {shown} > FILE"
        )
    known = all_importers()
    for importer in known.values():
        if advice := importer.reports.get(path.suffix):
            source.refuse(f"is {advice.format(path)}")
    matches = {name: importer.match(head) for name, importer in known.items()}
    best = max(matches.values())
    names = [name for name, match in matches.items() if match is best]
    if best is Match.NO and path.is_dir():
        source.refuse(
            "is a folder without files that xpuprof imports; name the profile in it, as in: "
            f"xpuprof import {shlex.quote(str(path / 'PROFILE'))} -o RUN"
        )
    if best is Match.NO:
        source.refuse(f"has none of the known formats ({', '.join(known)}); name one with --format")
    if len(names) > 1:
        source.refuse(f"may be {' or '.join(names)}; name one of them with --format")
    return known[names[0]]


def _of_kind(kind: type[F]) -> dict[str, F]:
    return {f.name: f for f in _declared[kind].all if isinstance(f, kind)}


def _own(package: ModuleType) -> Iterator[Format]:
    """Modules in our folder with a declaration; other modules may import pandas."""
    for path in sorted(Path(package.__path__[0]).glob("*.py")):
        if MARK in path.read_text(encoding="utf-8"):
            module = importlib.import_module(f"{package.__name__}.{path.stem}")
            yield module.FORMAT


_FOLDERS: Mapping[type[Format], ModuleType] = {
    Importer: importers,
    Exporter: exporters,
    ResultReader: simulator_results,
}
_declared: Mapping[type[Format], Declarations[Format]] = {
    kind: Declarations(
        "xpuprof.formats",
        Format,
        partial(_own, package),
        lambda f: [(type(f), name) for name in f.names],
    )
    for kind, package in _FOLDERS.items()
}
"""A folder is imported when its kind is asked for: completion waits for it."""
