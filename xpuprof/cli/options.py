# SPDX-License-Identifier: Apache-2.0
"""Options that several commands share."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import click

from xpuprof.cli.ends import promise_json
from xpuprof.cli.lines import show
from xpuprof.errors import UsageError, missing_run
from xpuprof.report.kernel_names import FULL_NAMES

F = TypeVar("F", bound=Callable[..., Any])


class _Path(click.Path):
    """A file or folder. An empty name is refused: it is more likely an unset shell variable than
    the current folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "" and param is not None:
            name = param.opts[-1] if isinstance(param, click.Option) else param.human_readable_name
            raise UsageError(f"{name} is empty; is a shell variable unset?")
        if value == "-" and param is not None and "--output" in param.opts:
            raise UsageError("output to stdout is not supported; name a file or folder")
        return super().convert(value, param, ctx)


class _Run(_Path):
    """A run directory, or what a command takes in its place. A missing one is refused before
    modules that read it are loaded."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        path = super().convert(value, param, ctx)
        try:
            path.stat()
        except FileNotFoundError:
            raise missing_run(path) from None
        except OSError:
            pass  # the command says more
        return path


PATH = _Path(path_type=Path)
RUN = _Run(path_type=Path)


class Size(click.ParamType[int]):
    """Bytes, with a decimal prefix: 500M."""

    name = "size"
    WANTED = "a size like 500M or 2G"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        found = re.fullmatch(r"(\d{1,6}(?:\.\d{1,6})?)([kmgt]?)b?", str(value).lower())
        size = int(float(found[1]) * 1000.0 ** " kmgt".index(found[2] or " ")) if found else 0
        if not size:
            self.fail(f"{value!r} is not a size", param, ctx)
        return size


output = click.option(
    "-o",
    "--output",
    type=PATH,
    default=None,
    metavar="DIR",
    help="Run directory to write.  [default: xpuprof-run-<program>]",
)
force = click.option("--force", is_flag=True, help="Replace an existing run directory.")
quiet = click.option("-q", "--quiet", is_flag=True, help="Print no notes and no next command.")


def _promise(_: click.Context, __: click.Parameter, value: bool) -> bool:
    if value:
        promise_json()
    return value


def _full_names(_: click.Context, __: click.Parameter, value: bool) -> None:
    FULL_NAMES.set(value)


full_names = click.option(
    "--full-names",
    is_flag=True,
    expose_value=False,
    callback=_full_names,
    help="Show C++ kernel names with namespaces, template arguments and parameters.",
)
as_json = click.option(
    "--json",
    "as_json",
    is_flag=True,
    is_eager=True,  # so that a refusal of another parameter is JSON, too
    callback=_promise,
    help="Print one JSON object.",
)


def _times(whose: str) -> Callable[[F], F]:
    return click.option(
        "--times",
        "timed",
        multiple=True,
        type=PATH,
        metavar="TIMERUN",
        help=f"Folder of `xpuprof time`, if not {whose}; one per rank.",
    )


times = _times("RUN")
times_of_one = _times("the only RUN")
seed = click.option(
    "--seed",
    type=click.IntRange(0, 2**32 - 1),
    default=1,
    show_default=True,
    metavar="N",
    help="Seed of every random draw.",
)
processes = click.option(
    "--processes",
    type=click.Choice(["job", "each"]),
    default="job",
    show_default=True,
    help="For several processes: one selection for the whole job, or one per process.",
)


def workers(function: F) -> F:
    """--workers and --scheduler: where many runs are processed."""
    several = click.option(
        "--workers", type=click.IntRange(1), metavar="N", help="Use N Dask workers on this machine."
    )
    where = click.option(
        "--scheduler", metavar="ADDRESS", help="Use the workers of a running Dask scheduler."
    )
    return several(where(function))


def note(text: str, quiet: bool) -> None:
    """Prints a note to the user on stderr; a note that cannot be written harms nothing."""
    if not quiet:
        with suppress(OSError):
            show(f"xpuprof: {text}", err=True)


def notes(quiet: bool) -> Callable[[str], None]:
    """Prints a workflow's notes."""
    return lambda text: note(text, quiet)


def next_step(text: str, quiet: bool) -> None:
    """Ends a command with what to do next (`workflow.next_step` has the lines)."""
    note(f"next: {text}", quiet)


def print_json(value: object) -> None:
    """Prints a command's JSON object on one line."""
    show(json.dumps(value, sort_keys=True))
