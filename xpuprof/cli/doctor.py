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
@options.quiet
def command(include: bool, as_json: bool, quiet: bool) -> int:
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
    from xpuprof.workflow.next_step import command as line

    found = diagnose(say=options.notes(quiet))
    if as_json:
        options.print_json(doctor.as_json(found))
    else:
        click.echo(doctor.as_text(found))
        ready = any(probe.available and e.kind.side == "GPU" for e, probe in found.engines)
        step = line("run", "--", "./app", "args") if ready else line("help", "import")
        options.next_step(step, quiet)
    return 0
