"""The command line: one file a command, loaded when it is asked for."""

from __future__ import annotations

import sys

import click

from xpuprof.cli.group import CommandGroup
from xpuprof.errors import XpuprofError
from xpuprof.version import __version__


@click.group(cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="xpuprof")
def cli() -> None:
    """Find the few weighted slices that stand for a whole CPU-GPU program.

    \b
    xpuprof run -- ./app args       profile, time, select and validate in one go
    xpuprof doctor                  what this machine can do, and what is missing
    """


def main() -> None:
    """Entry point. The one place that prints our errors: one sentence, no traceback."""
    try:
        status = cli.main(standalone_mode=False)
    except click.exceptions.Abort:
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except XpuprofError as error:
        click.echo(f"xpuprof: {error}", err=True)
        sys.exit(error.exit_code)
    sys.exit(status if isinstance(status, int) else 0)
