# SPDX-License-Identifier: Apache-2.0
"""xpuprof doctor"""

from __future__ import annotations

import click

from xpuprof.cli import options
from xpuprof.engines.native import include as include_folder


@click.command(name="doctor")
@click.option(
    "--include", is_flag=True, help="Print only the folder of xpuprof/marker.h, for cc -I."
)
@options.as_json
def command(include: bool, as_json: bool) -> int:
    """List the engines that this machine can use, what is missing, and how to get it.

    \b
    xpuprof doctor
    xpuprof doctor --json
    cc -I$(xpuprof doctor --include) app.c      with markers (docs/filters.md)
    """
    if include:
        click.echo(include_folder())
        return 0
    # Loaded here, so that --help is quick; the same in every command.
    from xpuprof.report import doctor
    from xpuprof.workflow.doctor import diagnose

    found = diagnose(say=lambda text: options.note(text, quiet=False))
    if as_json:
        options.print_json(doctor.as_json(found))
    else:
        click.echo(doctor.as_text(found))
        options.next_step("xpuprof run -- ./app args", quiet=False)
    return 0
