# SPDX-License-Identifier: Apache-2.0
"""Declarations of methods, formats and engines: ours, and those of other packages.

Other packages register a declaration as an entry point. A broken one must not break our commands:
listings skip it, and asking for it by name gives the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar

D = TypeVar("D")


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
        for entry in entry_points(group=self.group):
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
