# SPDX-License-Identifier: Apache-2.0
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
@options.redact
@options.gpu_engine
@options.window
@options.gpu_tool
@options.timer
@options.repeat
@click.option(
    "--regions",
    type=click.Path(path_type=Path),
    metavar="SELECTION",
    help="Report the times of this selection's regions.",
)
@click.option(
    "--kernel",
    "kernels",
    multiple=True,
    metavar="NAME:CALL[:COUNT]",
    help="Report the times of COUNT calls of this kernel, starting at CALL (1-based).",
)
@click.option(
    "--warmup",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="Also report the time of the N slices before each region.",
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
    """Time every slice of the program in native runs.

    Time stamps at the program's start, the end of every kernel, and the program's end make the
    slice times add up to the whole run. You see the output of the first run; the others write to
    files in the run directory.

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
