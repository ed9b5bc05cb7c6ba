# SPDX-License-Identifier: Apache-2.0
"""Options that choose a method and set its own options, built from the methods' declarations."""

from __future__ import annotations

import functools
import textwrap
from collections.abc import Callable
from typing import Any, TypeVar, cast

import click

from xpuprof.cli.names import Name
from xpuprof.errors import UsageError
from xpuprof.methods import registry
from xpuprof.methods.declaration import Option

F = TypeVar("F", bound=Callable[..., Any])


def helps() -> dict[str, str]:
    """The methods with their help."""
    return {method.name: method.help for method in registry.methods()}


method = click.option(
    "--method",
    type=Name("method", helps, lambda name: registry.find(name).name),
    metavar="NAME",
    help=f"How slices are chosen: {', '.join(registry.names())}. [default: "
    f"{registry.default()}; for an import the first that it has the data for]",
)


def _method_option(option: Option) -> Callable[[F], F]:
    if "/" in option.flags[0]:
        return click.option(*option.flags, option.name, default=None, help=option.help)
    return click.option(
        *option.flags, option.name, type=option.type, metavar=option.metavar, help=option.help
    )


memory_weight = next(
    _method_option(option)
    for option in registry.flagged_options()
    if option.name == "memory_weight"
)


def _assigned(
    context: click.Context, option: click.Parameter, values: tuple[str, ...]
) -> dict[str, str]:
    for value in values:
        if value.find("=") < 1:
            raise UsageError(f"--set takes NAME=VALUE, not {value!r}")
    return dict(value.split("=", 1) for value in values)


def method_options(function: F) -> F:
    """All method options. The command receives those given by their own flag as `flagged`, and
    those of --set as `named`."""
    declared = registry.flagged_options()

    @functools.wraps(function)
    def with_options(*args: Any, **given: Any) -> Any:
        values = {option.name: given.pop(option.name) for option in declared}
        flagged = {name: value for name, value in values.items() if value is not None}
        return function(*args, flagged=flagged, **given)

    result: Any = click.option(
        "--set",
        "named",
        multiple=True,
        callback=_assigned,
        metavar="NAME=VALUE",
        help="Set an option of the method, see Methods below.",
    )(with_options)
    for option in reversed(declared):
        result = _method_option(option)(result)
    return cast("F", result)


def methods_listed() -> str:
    """The methods with their descriptions and own options, for a help text."""
    lines = ["\b\nMethods:"]
    for method in registry.methods():
        lines += textwrap.wrap(
            method.help, 96, initial_indent=f"  {method.name:<10} ", subsequent_indent=" " * 13
        )
        own = [option for option in method.options if not option.flags]
        lines += [f"{'':<13}{option.name}: {option.help}" for option in own]
    return "\n".join(lines)
