# SPDX-License-Identifier: Apache-2.0
"""xpuprof validate"""

from __future__ import annotations

from pathlib import Path

import click

from xpuprof.cli import options
from xpuprof.engines.base import Timer
from xpuprof.launch.ending import end_after
from xpuprof.signals import signal_name


class _Command(click.Command):
    """Options may stand before or after SELECTION; everything after -- is the program's."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        cut = args.index("--") if "--" in args else len(args)
        ctx.meta["program"] = tuple(args[cut + 1 :])
        return super().parse_args(ctx, args[:cut])

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "-- PROGRAM [ARGS]..."]


@click.command(name="validate", cls=_Command, options_metavar="[OPTIONS]")
@click.argument("selection", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Keep the timer runs in this run directory.",
)
@options.force
@options.redact
@options.gpu_engine
@options.timer
@options.repeat
@click.option(
    "--allow-missing",
    is_flag=True,
    help="Omit regions that never occur, re-weight the others and state the covered share.",
)
@options.as_json
@options.quiet
@click.pass_context
def command(
    context: click.Context,
    selection: Path,
    output: Path | None,
    force: bool,
    gpu: str,
    timer: Timer,
    repeat: int,
    allow_missing: bool,
    as_json: bool,
    quiet: bool,
) -> int:
    """Check a selection, made here or elsewhere, against native runs on this machine.

    Compares the program (builds, device programs, launch sequence) and every region's markers
    (order, grid) with the selection's and names each difference; then compares the projected time
    with the measured one. A region that never occurs is an error (exit code 3).

    \b
    xpuprof validate xpuprof-run-app/selection.json -- ./app args
    xpuprof validate app.selection --repeat 5 -o B -- ./app args

    Without -o the timer runs are not kept. Otherwise the exit code is the program's.
    """
    # Loaded here, so that --help is quick.
    from xpuprof.report.validation import validation_json, validation_text
    from xpuprof.workflow.validate import validate

    done = validate(
        selection,
        context.meta["program"],
        output=output,
        force=force,
        gpu=gpu,
        timer=timer,
        repeat=repeat,
        allow_missing=allow_missing,
        say=options.notes(quiet),
    )
    if done.validation is None:
        stopped = signal_name(done.last.signal or done.last.stop or 0)
        options.note(f"no result: the program was stopped by {stopped}", quiet)
    elif as_json:
        kept = {"run": str(output) if output else None, "exit_code": done.ending.exit_code}
        shown = validation_json(done.validation)
        options.print_json({"selection": str(selection), **kept, **shown})
    else:
        click.echo(validation_text(done.validation, repeat))
        if output:
            options.note(f"next: xpuprof transfer {selection} RUN_ON_A {output}", quiet)
    return end_after(done.ending, done.last)
