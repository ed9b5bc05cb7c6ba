# SPDX-License-Identifier: Apache-2.0
"""xpuprof help"""

from __future__ import annotations

import click

from xpuprof.cli.group import COMMANDS
from xpuprof.cli.names import Name


@click.command(name="help")
@click.argument("name", metavar="[COMMAND]", type=Name("command", lambda: COMMANDS), required=False)
@click.pass_context
def command(context: click.Context, name: str | None) -> None:
    """Show the help of a command; without one, list the commands."""
    root = context.parent
    assert root is not None and isinstance(root.command, click.Group)
    if name is None:
        click.echo(root.get_help())
        return
    name, found, _ = root.command.resolve_command(root, [name])
    assert name is not None and found is not None
    with click.Context(found, info_name=name, parent=root, **found.context_settings) as own:
        click.echo(found.get_help(own))
