"""xpuprof validate"""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

from xpuprof.cli import options
from xpuprof.engines.base import Timer
from xpuprof.engines.choose import gpu_engine
from xpuprof.engines.filters import Filters
from xpuprof.errors import UsageError
from xpuprof.launch.ending import Ending, end_after, end_like
from xpuprof.launch.execute import Program, first, time
from xpuprof.launch.finish import finish
from xpuprof.launch.program import resolve
from xpuprof.launch.streams import Input
from xpuprof.report.validation import validation_text
from xpuprof.selection.file import read_selection
from xpuprof.trace.run import Run, create_run
from xpuprof.validation.timed import from_executions
from xpuprof.validation.validate import as_json as validation_json
from xpuprof.validation.validate import image_differences, input_differences, validate


class _Command(click.Command):
    """Options may stand before or behind SELECTION; what follows -- is the program's alone."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        cut = args.index("--") if "--" in args else len(args)
        ctx.meta["program"] = tuple(args[cut + 1 :])
        return super().parse_args(ctx, args[:cut])

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "-- PROGRAM [ARGS]..."]


@click.command(name="validate", cls=_Command, options_metavar="[OPTIONS]")
@click.argument("selection", type=click.Path(path_type=Path))
@options.output
@options.force
@click.option("--gpu", default="auto", show_default=True, metavar="ENGINE", help="GPU engine.")
@options.timer
@options.repeat
@click.option(
    "--allow-missing",
    is_flag=True,
    help="Leave out regions that never occur, re-weight the others and state the covered share.",
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
    """Run the program natively here and hold a selection, made here or elsewhere, against it.

    Checks that it is the same program (builds, device programs, launch sequence) and that every
    marker fired, in order, with the same grid; then compares projected and measured time. What
    differs is named. A region that never occurred is an error (exit code 3).

    \b
    xpuprof validate xpuprof-run-app/selection.json -- ./app args
    xpuprof validate app.selection --repeat 5 -o B -- ./app args

    Without -o the timer runs are not kept. The exit code is the program's otherwise.
    """
    argv: tuple[str, ...] = context.meta["program"]
    chosen = read_selection(selection)
    options.refuse_within_job("validate executes it several times")
    resolved = resolve(argv)
    differences = [*image_differences(chosen, resolved[0]), *input_differences(chosen)]
    program = Program(
        resolved,
        None,
        gpu_engine(gpu),
        filters=Filters.read(chosen.identity.get("settings", {})).of_timer_runs(),
    )
    options.note(program.filters.text(), quiet)
    with tempfile.TemporaryDirectory(prefix="xpuprof-validate-") as scratch:
        folder = output or Path(scratch) / "run"
        run, ending = _execute(program, folder, force, argv, timer, repeat)
        if not ending.undisturbed:
            stopped = ending.signal or ending.stop
            options.note(f"the program was ended by signal {stopped}: no result", quiet)
            return end_like(ending)
        timed = from_executions("this run", run.times, dict(run.manifest["machine"]))
    result = validate(chosen, timed, allow_missing=allow_missing, differences=differences)
    if as_json:
        kept = {"run": str(output) if output else None, "exit_code": ending.exit_code}
        options.print_json({"selection": str(selection), **kept, **validation_json(result)})
    else:
        click.echo(validation_text(result, repeat))
        if output:
            options.note(f"next: xpuprof transfer {selection} RUN_ON_A {output}", quiet)
    return end_like(ending)


def _execute(
    program: Program, folder: Path, force: bool, argv: tuple[str, ...], timer: Timer, repeat: int
) -> tuple[Run, Ending]:
    """The user's execution, then the timer runs, which find the device runtime's cache warm."""
    if not program.gpu:
        raise UsageError(
            "no GPU engine can be used here, so no kernel would be seen; xpuprof doctor tells why"
        )
    writer = create_run(
        folder, force=force, argv=list(argv), extra=options.recorded(program.filters)
    )
    source = Input()
    ending = last = first(writer, program, source)
    for i in range(repeat):
        if last.undisturbed:
            last = time(writer, program, source, timer, i, user=False)
    run = finish(writer, folder)
    if last is not ending and last.stop is not None:
        end_after(ending, last)
    return run, ending
