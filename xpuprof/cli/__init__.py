# SPDX-License-Identifier: Apache-2.0
"""The command line: one file per command, loaded on use."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

import click

from xpuprof.cli import ends
from xpuprof.cli.group import CommandGroup
from xpuprof.version import __version__


@click.group(
    cls=CommandGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="xpuprof")
def cli() -> None:
    """Find the few weighted slices that stand for a whole CPU-GPU program.

    \b
    xpuprof run -- ./app args       profile, time, select and validate in one go
    xpuprof doctor                  what this machine can do, and what is missing
    """


def main() -> NoReturn:
    """Entry point. An error is one sentence; once the user's program has run, we end as it did."""
    with ends.guarded():
        if "_XPUPROF_COMPLETE" in os.environ:
            cli.main()
        status = _run(sys.argv[1:])
        ends.flush()
        ends.leave(status)


def _run(arguments: list[str]) -> int:
    try:
        with cli.make_context("xpuprof", arguments) as context:
            status = cli.invoke(context)
    except click.exceptions.Exit as request:  # --help, --version
        return request.exit_code
    return status if isinstance(status, int) else 0
