# SPDX-License-Identifier: Apache-2.0
"""The engines of this installation: the files of `cpu/` and `gpu/`, and the entry points
`xpuprof.engines` of other packages, each of which names an `Engine`."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar, cast

import xpuprof.engines.cpu
import xpuprof.engines.gpu
from xpuprof.declarations import Declarations
from xpuprof.engines.base import CpuEngine, Engine, GpuEngine
from xpuprof.errors import EngineError, unknown

E = TypeVar("E", CpuEngine, GpuEngine)


def engines(side: type[E]) -> list[Engine[E]]:
    """The engines of a side, in `auto`'s order of preference."""
    found = cast("list[Engine[E]]", [e for e in _declared.all if issubclass(e.kind, side)])
    return sorted(found, key=lambda engine: engine.preference)


def engine(side: type[E], name: str) -> Engine[E]:
    """The engine of that name. Raises EngineError if it is unknown."""
    known: dict[str, Engine[E]] = {declared.name: declared for declared in engines(side)}
    if name in known:
        return known[name]
    if fault := _declared.faults.get(name):
        raise EngineError(fault)
    if other := next((e.kind.side for e in _declared.all if e.name == name), ""):
        raise EngineError(f"{name} is a {other} engine; name it with --{other.lower()} {name}")
    raise EngineError(unknown(f"{side.side} engine", name, ["auto", "none", *known]))


def faults() -> list[str]:
    """Entry points that declare no engine, one sentence each, for `doctor`."""
    return list(_declared.faults.values())


def _own() -> Iterator[Engine[Any]]:
    for package in (xpuprof.engines.cpu, xpuprof.engines.gpu):
        for path in sorted(Path(package.__path__[0]).glob("[!_]*.py")):
            yield importlib.import_module(f"{package.__name__}.{path.stem}").ENGINE


_declared: Declarations[Engine[Any]] = Declarations(
    "xpuprof.engines", Engine, _own, lambda declared: [declared.name]
)
