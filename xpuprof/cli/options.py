# SPDX-License-Identifier: Apache-2.0
"""Options that several commands share."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

output = click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=None,
    metavar="DIR",
    help="Run directory to write.  [default: xpuprof-run-<program>]",
)
force = click.option("--force", is_flag=True, help="Replace an existing run directory.")
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
    """Prints a note to the user on stderr."""
    if not quiet:
        click.echo(f"xpuprof: {text}", err=True)


def notes(quiet: bool) -> Callable[[str], None]:
    """Prints a workflow's notes."""
    return lambda text: note(text, quiet)


def print_json(value: object) -> None:
    """Prints a command's JSON object on one line."""
    click.echo(json.dumps(value, sort_keys=True))
