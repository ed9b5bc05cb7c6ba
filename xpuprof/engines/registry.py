# SPDX-License-Identifier: Apache-2.0
"""The engines of this installation: the files of `cpu/` and `gpu/`, and the entry points
`xpuprof.engines` of other packages, each of which names an `Engine`."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from functools import cache
from importlib.metadata import entry_points
from typing import Any, TypeVar, cast

import xpuprof.engines.cpu
import xpuprof.engines.gpu
from xpuprof.engines.base import CpuEngine, Engine, GpuEngine
from xpuprof.errors import EngineError

GROUP = "xpuprof.engines"
E = TypeVar("E", CpuEngine, GpuEngine)


def engines(side: type[E]) -> list[Engine[E]]:
    """The engines of a side, in the order in which `auto` prefers them."""
    found = cast("list[Engine[E]]", [e for e in _declared()[0] if issubclass(e.kind, side)])
    return sorted(found, key=lambda engine: engine.preference)


def engine(side: type[E], name: str) -> Engine[E]:
    """The engine of that name. Raises EngineError for an unknown one."""
    known: dict[str, Engine[E]] = {declared.name: declared for declared in engines(side)}
    if name in known:
        return known[name]
    if fault := _declared()[1].get(name):
        raise EngineError(f"{fault}; reinstall or remove that package")
    names = ", ".join(["auto", "none", *known])
    raise EngineError(f"{side.side} engine {name!r} is unknown; choose one of: {names}")


def faults() -> list[str]:
    """Entry points that declare no engine, one sentence each, for `doctor`."""
    return list(_declared()[1].values())


@cache
def _declared() -> tuple[list[Engine[Any]], dict[str, str]]:
    """Every engine; and why entry points, by name, have none. Our own names cannot be replaced."""
    found = {declared.name: declared for declared in _own()}
    faults: dict[str, str] = {}
    for entry in entry_points(group=GROUP):
        package = entry.dist.name if entry.dist else "an unknown package"
        try:
            declared = entry.load()
        except Exception as error:  # whatever another package's module raises
            faults[entry.name] = f"engine {entry.name} of {package} cannot be loaded ({error})"
            continue
        if not isinstance(declared, Engine) or declared.name != entry.name:
            faults[entry.name] = f"{package} declares no engine {entry.name} at {entry.value}"
        elif found.setdefault(entry.name, declared) is not declared:
            faults[entry.name] = f"{package} declares engine {entry.name}, which exists already"
    return list(found.values()), faults


def _own() -> Iterator[Engine[Any]]:
    for package in (xpuprof.engines.cpu, xpuprof.engines.gpu):
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            yield importlib.import_module(module.name).ENGINE
