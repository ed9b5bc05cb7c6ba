# SPDX-License-Identifier: Apache-2.0
"""xpuprof validate"""

from __future__ import annotations

import shlex
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from xpuprof.cli import options, program_options
from xpuprof.cli.lines import show
from xpuprof.errors import NO_RESULT, UsageError
from xpuprof.launch.ending import end_after


class _Command(click.Command):
    """Options may stand before or after SELECTION; everything after -- is the program's."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        cut = args.index("--") if "--" in args else len(args)
        self._refuse_program(ctx, args[:cut])
        rest = super().parse_args(ctx, args[:cut])
        ctx.params["argv"] = tuple(args[cut + 1 :])
        return rest

    def _refuse_program(self, ctx: click.Context, args: list[str]) -> None:
        """Raises UsageError for a program without -- before it."""
        parser = self.make_parser(ctx)
        parser.ignore_unknown_options = True  # they may be the program's
        with suppress(click.UsageError):  # reported later
            given, rest, _ = parser.parse_args(list(args))
            if rest and not rest[0].startswith("-"):
                raise UsageError(
                    "put -- before the program: xpuprof validate "
                    f"{shlex.join([given['selection'], '--', *rest])}"
                )

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- PROGRAM [ARGS]...]"]


@click.command(name="validate", cls=_Command, options_metavar="[OPTIONS]")
@click.argument("selection", type=options.PATH)
@click.option(
    "-o",
    "--output",
    type=options.PATH,
    metavar="DIR",
    help="Keep the timer runs in this run directory.",
)
@options.force
@program_options.redact
@program_options.gpu_engine
@program_options.timer
@program_options.repeat
@click.option(
    "--allow-missing",
    is_flag=True,
    help="Omit regions that never occur, re-weight the others and state the covered share.",
)
@options.full_names
@options.as_json
@options.quiet
def command(
    selection: Path,
    argv: tuple[str, ...],
    output: Path | None,
    repeat: int,
    as_json: bool,
    quiet: bool,
    **how: Any,
) -> int:
    """Check a selection, made here or elsewhere, against native runs on this machine.

    Compares the program (builds, device programs, launch sequence) and every region's markers
    (order, grid) with the selection's and names each difference; then compares the projected time
    with the measured one. A region that never occurs is an error (exit code 3); a program in which
    none occurs is another one (exit code 2).

    \b
    xpuprof validate RUN                           the recorded command, in this folder
    xpuprof validate RUN/selection.json -- ./app args
    xpuprof validate app.selection --repeat 5 -o B -- ./app args

    Without -o the timer runs are not kept. The exit code is the program's; 3 if a region is
    missing, or if that is 0 but there is no result.
    """
    # Loaded here, so that --help is quick.
    from xpuprof.cli.progress import show_progress
    from xpuprof.report.validation import validation_json, validation_text
    from xpuprof.workflow.validate import validate

    show_progress(quiet, repeat)
    done = validate(selection, argv, output=output, repeat=repeat, say=options.notes(quiet), **how)
    why = f"no result: {done.unfinished}"
    if as_json:
        kept = {"run": str(output) if output else None, "exit_code": done.ending.exit_code}
        shown = validation_json(done.validation) if done.validation else {"reason": why}
        options.print_json({"selection": str(selection), **kept, **shown})
    elif done.validation is None:
        options.note(why, quiet)
    else:
        show(validation_text(done.validation))
        for sentence in done.doubts:
            options.note(sentence, quiet)
        options.next_step(_next(selection, output, how["allow_missing"]), quiet)
    if done.validation is None:
        return end_after(done.ending, done.last, has_result=False) or NO_RESULT
    return end_after(done.ending, done.last)


def _next(selection: Path, output: Path | None, allow_missing: bool) -> str:
    from xpuprof.workflow.next_step import command as line

    if output:
        return line("transfer", *["--allow-missing"] * allow_missing, selection, "RUN_ON_A", output)
    export = line("export", selection, "--format", "NAME", "-o", "OUT")
    return f"{export} ({line('help', 'export')} lists formats)"
