# SPDX-License-Identifier: Apache-2.0
"""Declarations of methods, formats and engines: ours, and those of other packages.

Other packages register a declaration as an entry point. A broken one must not break our commands:
listings skip it, and asking for it by name gives the reason.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

D = TypeVar("D")


def _entry_points(group: str) -> Iterable[EntryPoint]:
    """The entry points of other packages, at the price of loading their metadata only if there may
    be some: that would take a third of the time to print help or complete a word."""
    if not any(_may_name(Path(folder), group.encode()) for folder in sys.path):
        return ()
    from importlib.metadata import entry_points

    return entry_points(group=group)


def _may_name(folder: Path, group: bytes) -> bool:
    """Whether a package in this folder of sys.path may have entry points of the group."""
    try:
        return folder.is_file() or any(  # a file: an archive
            group in file.read_bytes() for file in folder.glob("*-info/entry_points.txt")
        )
    except OSError:
        return True


@dataclass(frozen=True)
class Declarations(Generic[D]):
    """Declarations of type `kind`: those that `own` finds in our files, and the entry points
    `group`. `names`: the names of a declaration; each may be declared only once.
    """

    group: str
    kind: type[Any]
    own: Callable[[], Iterable[D]]
    names: Callable[[D], Iterable[Hashable]]

    @property
    def all(self) -> list[D]:
        """Ours, then the valid ones of other packages."""
        return self._found[0]

    @property
    def faults(self) -> dict[str, str]:
        """Why each faulty entry point, by name, was skipped; one sentence each."""
        return self._found[1]

    @cached_property
    def _found(self) -> tuple[list[D], dict[str, str]]:
        found, faults = list(self.own()), {}
        taken = {name for one in found for name in self.names(one)}
        for entry in _entry_points(self.group):
            declared, fault = self._loaded(entry)
            if declared is None or taken.intersection(self.names(declared)):
                fault = fault or "declares a name that is taken"
                faults[entry.name] = f"{self._where(entry)} {fault}; update or remove that package"
                continue
            taken.update(self.names(declared))
            found.append(declared)
        return found, faults

    def _loaded(self, entry: EntryPoint) -> tuple[D | None, str]:
        try:
            declared = entry.load()
        except Exception as error:  # another package's module may raise anything
            return None, f"cannot be loaded ({error})"
        if not isinstance(declared, self.kind):
            return None, f"is not a {self.kind.__name__}"
        return declared, ""

    def _where(self, entry: EntryPoint) -> str:
        package = entry.dist.name if entry.dist else entry.module
        return f"{self.kind.__name__.lower()} {entry.name} of {package}"
