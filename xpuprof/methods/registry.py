# SPDX-License-Identifier: Apache-2.0
"""The methods by name: every file of this package that ends in a declaration, and those that other
packages register under the entry point `xpuprof.methods`."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xpuprof.declarations import Declarations
from xpuprof.errors import UsageError, series, unknown
from xpuprof.methods import declaration
from xpuprof.methods.declaration import Method, Need, Option

if TYPE_CHECKING:
    from xpuprof.methods.profile import SliceProfile, Slices
    from xpuprof.selection.selection import Selection

MARK = "\nMETHOD = "


@dataclass(frozen=True)
class _Select:
    """The function `select` of a method's file, which is imported on the first call."""

    module: str

    def __call__(self, *args: Any, **options: Any) -> Selection:
        selection: Selection = importlib.import_module(self.module).select(*args, **options)
        return selection


def _own() -> list[Method]:
    """The methods of this package, the default first.

    Only the declarations at the ends of their files are run, with the names of `declaration` and
    `select`: the algorithms import numpy and scipy, which would dominate the time to print help.
    """
    found: list[Method] = []
    for path in sorted(Path(__file__).parent.glob("*.py")):
        source = path.read_text(encoding="utf-8")
        if MARK in source:
            names = {**vars(declaration), "select": _Select(f"{__package__}.{path.stem}")}
            found.append(eval(source[source.rindex(MARK) + len(MARK) :].strip(), names))
    found.sort(key=lambda method: (method.rank != 1, method.name))
    return found


_declared: Declarations[Method] = Declarations(
    "xpuprof.methods", Method, _own, lambda method: [method.name]
)


def select(slices: Slices, name: str, *, seed: int, **options: Any) -> Selection:
    """Select representatives by the method `name`. The only entry point, for slices of any source.

    Raises UsageError for an unknown method or option, InputError (NeedsError) when the slices lack
    data that the method needs.
    """
    method = find(name)
    check_options(method, options)
    for option in method.options:
        option.check(options.get(option.name, option.default))
    return method.select(slices if method.clusters else slices.at_hand(), seed=seed, **options)


def methods() -> list[Method]:
    """Every installed method, the default first."""
    return _declared.all


def names() -> list[str]:
    """Names of all installed methods."""
    return [method.name for method in methods()]


def default() -> str:
    """The default method."""
    return names()[0]


def fitting(profile: SliceProfile) -> tuple[str, str]:
    """The method for a profile when none is named, and why it is not the default; "" if it is."""
    ranked = sorted((m for m in methods() if m.rank is not None), key=lambda m: m.rank or 0)
    lacked: list[Need] = []
    for method in ranked:
        missing = [need for need in method.needs if not profile.has(need)]
        if not missing:
            break
        lacked += missing
    reason = f"{profile.name} holds no {series([*map(str, lacked)], 'or')}" if lacked else ""
    return method.name, reason


def find(name: str) -> Method:
    """The declaration of a method. Raises UsageError for an unknown name, or one that another
    package registered without declaring a method."""
    found = next((method for method in methods() if method.name == name), None)
    if found is None:
        if fault := _declared.faults.get(name):
            raise UsageError(fault)
        raise UsageError(unknown("method", name, names()))
    return found


def by_measured_times() -> list[str]:
    """Names of this package's methods that use measured times and have an error bound."""
    return [
        method.name
        for method in methods()
        if method.by_times and method.bound and Need.TIMES in method.needs
    ]


def flagged_options() -> list[Option]:
    """Options of this package's methods that have their own command-line flag."""
    every = [option for method in methods() for option in method.options]
    return list({option.name: option for option in every if option.flags}.values())


def check_options(method: Method, options: Mapping[str, Any]) -> None:
    """Raises UsageError for an option that the method does not have."""
    known = [option.name for option in method.options]
    for name in options:
        if name not in known:
            raise UsageError(
                f"{method.name} has no option {name!r}; it has: {', '.join(known) or 'none'}"
            )


def from_command_line(
    method: Method, flagged: Mapping[str, Any], named: Mapping[str, str]
) -> Mapping[str, Any]:
    """The method's options, from their own flags and from `--set NAME=VALUE`.

    Raises UsageError for an unknown or repeated option.
    """
    options: dict[str, Any] = {}
    for name, value in flagged.items():
        if name == "target_error" and method.bound:
            options[method.bound] = value
        elif (own := method.option(name)) is not None and own.flags:
            options[name] = value
        else:
            raise UsageError(_refusal(method, name))
    check_options(method, named)
    for name, text in named.items():
        own = method.option(name)
        assert own is not None
        if name in options:
            raise UsageError(f"{name} is given twice; give it once")
        options[name] = own.parse(text)
    return options


def _refusal(method: Method, name: str) -> str:
    flag = next(option.flags[0] for option in flagged_options() if option.name == name)
    takers = [
        other.name
        for other in methods()
        if ((own := other.option(name)) and own.flags) or (name == "target_error" and other.bound)
    ]
    takes = [option.flags[0] for option in method.options if option.flags]
    takes += ["--target-error"] if method.bound and "--target-error" not in takes else []
    takes += ["--set"] if method.options else []
    taken = series([*takes, "--seed"], "and")
    return f"{flag} is for {series(takers, 'and')}; {method.name} takes {taken}"
