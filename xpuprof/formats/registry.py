# SPDX-License-Identifier: Apache-2.0
"""The formats of this installation: of our three folders, and of other packages by the entry point
group `xpuprof.formats`, each of which names a declaration (`formats.format`)."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import TypeVar

from xpuprof.errors import UsageError
from xpuprof.formats import exporters, importers, simulator_results
from xpuprof.formats.format import HEAD, Exporter, Format, Head, Importer, Match, ResultReader
from xpuprof.inputs import Source

GROUP = "xpuprof.formats"
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
    """The format of a name or alias. Raises UsageError when there is none."""
    found = next((f for f in formats.values() if name in f.names), None)
    if found is None:
        if fault := _declared()[1].get(name):
            raise UsageError(f"{fault}; reinstall or remove that package")
        raise UsageError(f"no format {name!r}; choose one of: {', '.join(formats)}")
    return found


def recognised(source: Source) -> Importer:
    """The importer for a file or folder, by its first bytes and its name. Raises InputError when it
    is missing, empty, or not told by exactly one."""
    path = source.path
    if not path.exists():
        source.refuse("does not exist; check its name and folder")
    head = Head(path, b"" if path.is_dir() else source.head(HEAD))
    if not path.is_dir() and not head.data:
        source.refuse("is empty; copy it or export it again")
    known = all_importers()
    for importer in known.values():
        if advice := importer.reports.get(path.suffix):
            source.refuse(f"is {advice.format(path)}")
    matches = {name: importer.match(head) for name, importer in known.items()}
    best = max(matches.values())
    names = [name for name, match in matches.items() if match is best]
    if best is Match.NO and path.is_dir():
        source.refuse(
            "is a directory without vector files (T.<n>.bb, thread.bbv); name a file, or the "
            "folder that the reference implementation wrote"
        )
    if best is Match.NO:
        source.refuse(
            f"is none of the formats known here ({', '.join(known)}); name one with --format"
        )
    if len(names) > 1:
        source.refuse(f"may be {' or '.join(names)}; name one of them with --format")
    return known[names[0]]


def _of_kind(kind: type[F]) -> dict[str, F]:
    return {f.name: f for f in _declared()[0] if isinstance(f, kind)}


@cache
def _declared() -> tuple[list[Format], dict[str, str]]:
    """Every declaration; and why entry points, by name, have none. Our names cannot be taken."""
    found = list(_own())
    faults: dict[str, str] = {}
    for entry in entry_points(group=GROUP):
        package = entry.dist.name if entry.dist else "an unknown package"
        try:
            declared = entry.load()
        except Exception as error:  # whatever another package's module raises
            faults[entry.name] = f"format {entry.name} of {package} cannot be loaded ({error})"
            continue
        if not isinstance(declared, Format):
            faults[entry.name] = f"{package} declares no format at {entry.value}"
        elif any(type(f) is type(declared) and f.names & declared.names for f in found):
            faults[entry.name] = f"{package} declares format {declared.name}, which exists already"
        else:
            found.append(declared)
    return found, faults


def _own() -> Iterator[Format]:
    """Of the files in our folders, those that say so: helpers beside them may import pandas."""
    for package in (importers, exporters, simulator_results):
        for path in sorted(Path(package.__path__[0]).glob("*.py")):
            if MARK in path.read_text(encoding="utf-8"):
                module = importlib.import_module(f"{package.__name__}.{path.stem}")
                yield module.FORMAT
