# SPDX-License-Identifier: Apache-2.0
"""Options of the commands that execute the user's program."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import click

from xpuprof.cli import usage
from xpuprof.cli.names import Name
from xpuprof.cli.options import Size, note
from xpuprof.errors import UsageError

F = TypeVar("F", bound=Callable[..., Any])


class ProgramCommand(click.Command):
    """A command that runs the user's program, which comes last; what follows the program's name is
    the program's."""

    allow_interspersed_args = False

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given = list(args)
        rest = super().parse_args(ctx, args)
        argv = ctx.params.get("argv", ())
        separated = given[-len(argv) - 1 : -len(argv)] == ["--"]
        if argv and not separated and not ctx.params["quiet"]:
            self._point_out(ctx, argv)
        return rest

    def _point_out(self, ctx: click.Context, argv: Sequence[str]) -> None:
        """Says so if the program gets an option that is ours as well; -- before it says that this
        is meant."""
        own = usage.options(self)
        ours = [word for word in argv[1:] if word.partition("=")[0] in own]
        if ours:
            note(
                f"{', '.join(ours)} is passed to {argv[0]}; to give it to {ctx.command_path}, put "
                f"it before {argv[0]}",
                quiet=False,
            )


program = click.argument("argv", metavar="-- PROGRAM [ARGS]...", nargs=-1, type=click.UNPROCESSED)


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


max_size = click.option(
    "--max-size",
    type=Size(),
    metavar="SIZE",
    help="End the recording of an execution when its traces reach SIZE (500M, 2G); the program "
    "goes on, and the run is partial.",
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


class _OrAuto(click.IntRange):
    OTHER = ", or auto"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value if value == "auto" else super().convert(value, param, ctx)


repeat_or_auto = click.option(
    "--repeat",
    type=_OrAuto(1),
    default="auto",
    show_default=True,
    metavar="N|auto",
    help="Native runs to time after the first; with 3 or more, slice times are medians. auto: 2 if "
    "they and the first agree, else 3, or up to 5 of a short program (docs/launch.md).",
)


def _engine_option(side: str) -> Callable[[F], F]:
    def known() -> dict[str, str]:
        from xpuprof.engines.base import CpuEngine, GpuEngine
        from xpuprof.engines.registry import engines  # loads every engine

        found = engines(CpuEngine) if side == "cpu" else engines(GpuEngine)
        return {"auto": "the best usable", "none": "no engine"} | {e.name: e.help for e in found}

    return click.option(
        f"--{side}",
        default="auto",
        show_default=True,
        type=Name("engine", known),
        metavar="ENGINE",
        help=f"{side.upper()} engine: auto (the best usable), none, or one from xpuprof doctor.",
    )


gpu_engine = _engine_option("gpu")


def engines(function: F) -> F:
    """--cpu and --gpu."""
    return _engine_option("cpu")(gpu_engine(function))


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
        "--start-up",
        "filter_start_up",
        type=click.Choice(["auto", "native", "counted"]),
        default="auto",
        show_default=True,
        help="native: until the first launch the main thread runs natively, uncounted; auto: "
        "native under dynamorio with a GPU engine, unless a filter chooses CPU code.",
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
            from xpuprof.engines.filters import Filters  # would lengthen completion

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
