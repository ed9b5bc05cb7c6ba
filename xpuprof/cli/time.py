"""xpuprof time"""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from xpuprof.cli import options
from xpuprof.engines.base import Timer
from xpuprof.engines.filters import Filters
from xpuprof.launch.ending import end_after


@click.command(name="time", context_settings=options.PROGRAM_CONTEXT)
@options.output
@options.force
@click.option(
    "--gpu", default="auto", show_default=True, metavar="ENGINE", help="GPU engine, or none."
)
@options.window
@options.gpu_tool
@options.timer
@options.repeat
@click.option(
    "--regions",
    type=click.Path(path_type=Path),
    metavar="SELECTION",
    help="Report the times of the selection's regions.",
)
@click.option(
    "--kernel",
    "kernels",
    multiple=True,
    metavar="NAME:CALL[:COUNT]",
    help="Report the times of these calls of a kernel.",
)
@click.option(
    "--warmup",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="With these, also report the N slices before each region.",
)
@options.quiet
@options.as_json
@options.program
def command(
    output: Path | None,
    force: bool,
    gpu: str,
    filters: Filters,
    gpu_tool: str | None,
    timer: Timer,
    repeat: int,
    regions: Path | None,
    kernels: tuple[str, ...],
    warmup: int,
    quiet: bool,
    as_json: bool,
    argv: tuple[str, ...],
) -> int:
    """Run the program natively with a time stamp at its start, its end and every kernel's end.

    The slices' times add up to the whole run. The first of the runs is the one whose output you
    see; the others write to files in the run directory.

    \b
    xpuprof time --repeat 5 -o TIMES -- ./app args
    xpuprof time --regions app.selection --warmup 2 -- ./app args
    xpuprof time --kernel gemm:3:2 -- ./app args      calls 3 and 4 of gemm
    """
    # Loaded here, so that --help is quick.
    from xpuprof.report.result import time_json
    from xpuprof.report.text import number_of, of_runs, seconds
    from xpuprof.report.validation import regions_text
    from xpuprof.workflow.time import time

    done = time(
        argv,
        output=output,
        force=force,
        gpu=gpu,
        filters=filters,
        gpu_tool=gpu_tool,
        timer=timer,
        repeat=repeat,
        regions=regions,
        kernels=kernels,
        warmup=warmup,
        say=options.notes(quiet),
    )
    if done.last.undisturbed:
        if as_json:
            options.print_json(time_json(done))
        elif done.regions is not None:
            click.echo(regions_text(done.regions))
        options.note(
            f"{number_of(done.slices, 'slice')}, measured {seconds(done.measured)} "
            f"({of_runs(len(done.seconds))}), in {done.run.path}; next: xpuprof profile -o P -- "
            f"{shlex.join(argv)}, then: xpuprof select P --times {done.run.path}",
            quiet or as_json,
        )
    return end_after(done.ending, done.last)
