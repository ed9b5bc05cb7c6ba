# SPDX-License-Identifier: Apache-2.0
"""The group of commands. Help and completion read the table below; a command's module is imported
only when the command runs, so start-up stays short."""

from __future__ import annotations

import importlib
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from xpuprof.cli import usage
from xpuprof.errors import UsageError, unknown

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

COMMANDS = {
    "run": "Profile, time, select and validate in one go.",
    "profile": "Record the block vectors of every slice.",
    "time": "Time every slice in native runs.",
    "select": "Choose representatives of a recorded or imported run.",
    "validate": "Check a selection against native runs on this machine.",
    "info": "Summarize a run directory.",
    "check": "Verify that a run directory is complete and consistent.",
    "doctor": "List engines, what is missing, and how to get it.",
    "compare": "Compare the errors of every sampling method.",
    "estimate": "Estimate whole-run metrics from simulated regions.",
    "transfer": "Test one selection on several machines.",
    "export": "Write a selection for a simulator or another tool.",
    "import": "Convert another tool's profile into a run directory.",
    "report": "Show a finished run as a table, JSON, picture or page.",
    "demo": "Run the whole method on an example.",
    "help": "Show the help of a command.",
}
"""One line of help for each command, in the order of work."""


class CommandGroup(click.Group):
    """Lists commands from the table; imports `xpuprof.cli.<command>` on use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = "import_" if cmd_name == "import" else cmd_name
        command = importlib.import_module(f"xpuprof.cli.{module}").command
        assert isinstance(command, click.Command)
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            self._refuse_before_command(ctx, error.option_name, given)
            raise

    def _refuse_before_command(self, ctx: click.Context, option: str, args: list[str]) -> None:
        """Raises UsageError if the option belongs to the command that follows it."""
        name = next((word for word in args if word in COMMANDS), "")
        command = self.get_command(ctx, name)
        if command and option in usage.options(command):
            raise UsageError(
                f"{option} is an option of {name}; put it after the command: xpuprof {name} "
                f"{option}"
            )

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in COMMANDS and not ctx.resilient_parsing:
            raise UsageError(_no_command(args))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem  # only for a shell's completion

        own = [
            CompletionItem(name, help=text)
            for name, text in COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return own + click.Command.shell_complete(self, ctx, incomplete)


def _no_command(args: list[str]) -> str:
    """The sentence for a first word that is no command: perhaps a program, or a run directory."""
    path = Path(args[0] or "nothing")
    if path.is_file():
        return f"no command {args[0]!r}; to run a program: xpuprof run -- {shlex.join(args)}"
    if (path / "manifest.json").is_file():
        return f"no command {args[0]!r}; to see a run: xpuprof report {shlex.join(args)}"
    return unknown("command", args[0], COMMANDS)
