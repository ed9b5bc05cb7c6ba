"""The command line: one file a command, loaded when it is asked for."""

from __future__ import annotations

import importlib
import sys

import click

from xpuprof.errors import XpuprofError
from xpuprof.version import __version__

# In the order of work; `--help` lists them so.
COMMANDS = [
    "run",
    "profile",
    "time",
    "select",
    "validate",
    "info",
    "check",
    "doctor",
    "compare",
    "estimate",
    "transfer",
    "export",
    "import",
    "report",
]


class _Group(click.Group):
    """Imports a command's module only when it is used: start-up stays short."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for name in COMMANDS if self.get_command(ctx, name)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = "import_" if cmd_name == "import" else cmd_name
        try:
            command = importlib.import_module(f"xpuprof.cli.{module}").command
        except ModuleNotFoundError as error:
            if error.name == f"xpuprof.cli.{module}":
                return None
            raise
        assert isinstance(command, click.Command)
        return command


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
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
