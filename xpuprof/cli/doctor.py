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
@click.option(
    "--self-test",
    is_flag=True,
    help="Have every usable engine do a few seconds of real work whose counts are known.",
)
@options.as_json
@options.quiet
def command(include: bool, self_test: bool, as_json: bool, quiet: bool) -> int:
    """List the engines that this machine can use, what is missing, and how to get it.

    \b
    xpuprof doctor
    xpuprof doctor --json
    xpuprof doctor --self-test                  does this installation work?
    cc -I$(xpuprof doctor --include) app.c      with markers (docs/filters.md)

    With --self-test the exit code is 1 if a step failed.
    """
    if include:
        click.echo(include_folder())
        return 0
    if self_test:
        return _self_test(as_json)
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


def _self_test(as_json: bool) -> int:
    from dataclasses import asdict

    from xpuprof.workflow.self_test import self_test

    steps = []
    for step in self_test():
        steps.append(step)
        if not as_json:
            verdict = f"failed: {step.fault}" if step.fault else "ok"
            click.secho(f"{step.name:<30} {verdict}", fg="red" if step.fault else "green")
    if as_json:
        options.print_json({"steps": [asdict(step) for step in steps]})
    return int(any(step.fault for step in steps))
