# SPDX-License-Identifier: Apache-2.0
"""Options that several commands share."""

from __future__ import annotations

import functools
import json
import os
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

import click

from xpuprof.engines.filters import Filters
from xpuprof.errors import UsageError
from xpuprof.methods import registry
from xpuprof.methods.declaration import Option

F = TypeVar("F", bound=Callable[..., Any])

PROGRAM_CONTEXT = {"allow_interspersed_args": False}
"""Context settings of a command that takes the user's program after --."""

program = click.argument("argv", metavar="-- PROGRAM [ARGS]...", nargs=-1, type=click.UNPROCESSED)

output = click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=None,
    metavar="DIR",
    help="Run directory to write.  [default: xpuprof-run-<program>]",
)
force = click.option("--force", is_flag=True, help="Replace an existing run directory.")


def _redact(_: click.Context, __: click.Parameter, value: bool) -> None:
    if value:  # read where the manifest is made
        os.environ["XPUPROF_REDACT"] = "1"


redact = click.option(
    "--redact",
    is_flag=True,
    expose_value=False,
    callback=_redact,
    help="Do not store the program's arguments in the run directory and its selections.",
)
quiet = click.option("-q", "--quiet", is_flag=True, help="Print no notes and no next command.")
as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
seed = click.option(
    "--seed",
    type=click.IntRange(0, 2**32 - 1),
    default=1,
    show_default=True,
    metavar="N",
    help="Seed of every random draw.",
)
method = click.option(
    "--method",
    default=registry.default(),
    show_default=True,
    metavar="NAME",
    help=f"How slices are chosen: {', '.join(registry.names())}.",
)
processes = click.option(
    "--processes",
    type=click.Choice(["job", "each"]),
    default="job",
    show_default=True,
    help="For several processes: one selection for the whole job, or one per process.",
)
timer = click.option(
    "--timer",
    type=click.Choice(["async", "sync"]),
    default="async",
    show_default=True,
    help="async: device time stamps, no delay; sync: wait for every kernel.",
)
repeat = click.option(
    "--repeat",
    type=click.IntRange(1),
    default=5,
    show_default=True,
    metavar="N",
    help="Native runs to time; with 3 or more, slice times are medians.",
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
    pairs = [value.partition("=") for value in values]
    for name, sign, _ in pairs:
        if not (name and sign):
            raise UsageError(f"--set takes NAME=VALUE, not {name + sign!r}")
    return {name: value for name, _, value in pairs}


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


def workers(function: F) -> F:
    """--workers and --scheduler: where many runs are processed."""
    several = click.option(
        "--workers", type=click.IntRange(1), metavar="N", help="Use N Dask workers on this machine."
    )
    where = click.option(
        "--scheduler", metavar="ADDRESS", help="Use the workers of a running Dask scheduler."
    )
    return several(where(function))


_ENGINE = "engine: auto (the best usable), none, or a name that xpuprof doctor lists."


gpu_engine = click.option(
    "--gpu", default="auto", show_default=True, metavar="ENGINE", help=f"GPU {_ENGINE}"
)


def engines(function: F) -> F:
    """--cpu and --gpu."""
    cpu = click.option(
        "--cpu", default="auto", show_default=True, metavar="ENGINE", help=f"CPU {_ENGINE}"
    )
    return cpu(gpu_engine(function))


gpu_tool = click.option(
    "--gpu-tool",
    metavar="[pin:]LIB",
    help="Also load this NVBit, CUPTI, GTPin or other GPU tool (docs/pin.md).",
)


def _given(_: click.Context, option: click.Parameter, value: str | None) -> str:
    """Refuses an empty specification: it is more likely an unset shell variable than intended."""
    if value == "":
        raise UsageError(f"{option.opts[0]} is empty; omit it or give a value")
    return value or ""


def _each_given(
    context: click.Context, option: click.Parameter, values: tuple[str, ...]
) -> tuple[str, ...]:
    return tuple(_given(context, option, value) for value in values)


_glob = functools.partial(click.option, multiple=True, metavar="GLOB", callback=_each_given)
_CODE = (
    _glob(
        "--include-image",
        "filter_include_images",
        help="Count CPU code of these programs and libraries only.",
    ),
    _glob(
        "--exclude-image",
        "filter_exclude_images",
        help="Do not count CPU code of these; takes precedence over --include-image.",
    ),
    click.option(
        "--main-image-only",
        "filter_main_image_only",
        is_flag=True,
        help="Count CPU code of the program's own executable only.",
    ),
    _glob("--routine", "filter_routines", help="Count blocks that start in these routines only."),
    click.option(
        "--thread",
        "filter_threads",
        multiple=True,
        type=click.IntRange(0),
        metavar="N",
        help="Count these CPU threads only; 0 is the main thread.",
    ),
    click.option(
        "--memory",
        "filter_memory",
        is_flag=True,
        help="Also record LRU stack distances of data accesses, CPU and device (slow).",
    ),
    click.option(
        "--kernels",
        "filter_kernels",
        callback=_given,
        metavar="SPEC",
        help="Instrument these launches only, e.g. 2-8@gemm.*,100- (docs/filters.md).",
    ),
)
_WINDOW = (
    click.option(
        "--window",
        "filter_window",
        callback=_given,
        metavar="RANGE|[RANGE]@MARKER",
        help="Cover this part only: launches (100-200), or a marked window (@solve).",
    ),
    click.option(
        "--after-window",
        "filter_after_window",
        type=click.Choice(["continue", "end"]),
        default="continue",
        show_default=True,
        help="After the window: continue natively, or end the program with exit code 0.",
    ),
    click.option(
        "--process",
        "filter_processes",
        multiple=True,
        metavar="GLOB",
        help="Count only processes of these programs, among all that the program starts.",
    ),
)
_PREFIX = "filter_"
"""Prefix of the arguments' names before the field: a command may have its own `processes`."""


def _filtered(chosen: Sequence[Callable[[F], F]]) -> Callable[[F], F]:
    """A decorator that adds these filter options; the command receives them as `filters`."""

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def with_filters(**given: Any) -> Any:
            names = [name for name in given if name.startswith(_PREFIX)]
            own = {name.removeprefix(_PREFIX): given.pop(name) for name in names}
            return function(filters=Filters(**own), **given)

        result: Any = with_filters
        for option in reversed(chosen):
            result = option(result)
        return cast("F", result)

    return decorate


filters = _filtered((*_CODE, *_WINDOW))
window = _filtered(_WINDOW)
"""The options that native runs honour too."""


def note(text: str, quiet: bool) -> None:
    """Prints a note to the user on stderr."""
    if not quiet:
        click.echo(f"xpuprof: {text}", err=True)


def notes(quiet: bool) -> Callable[[str], None]:
    """Prints a workflow's notes."""
    return lambda text: note(text, quiet)


def print_json(value: object) -> None:
    """Prints a command's JSON object on one line."""
    click.echo(json.dumps(value, sort_keys=True))
