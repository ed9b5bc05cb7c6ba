# SPDX-License-Identifier: Apache-2.0
"""xpuprof time"""

from __future__ import annotations

from typing import Any

import click

from xpuprof.cli import options, program_options
from xpuprof.cli.lines import show
from xpuprof.errors import NO_RESULT
from xpuprof.launch.ending import end_after


@click.command(name="time", cls=program_options.ProgramCommand)
@options.output
@options.force
@program_options.redact
@program_options.gpu_engine
@program_options.window
@program_options.gpu_tool
@program_options.max_size
@program_options.timer
@program_options.repeat
@click.option(
    "--regions",
    type=options.PATH,
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
@program_options.program
def command(argv: tuple[str, ...], as_json: bool, quiet: bool, **how: Any) -> int:
    """Time every slice of the program in native runs.

    Time stamps at the program's start, the end of every kernel, and the program's end make the
    slice times add up to the whole run. You see the output of the first run; the others write to
    files in the run directory. The exit code is the program's, also where the recording is partial;
    3 if that is 0 but no slice was timed, or if a kernel or region that was named never occurs.

    \b
    xpuprof time --repeat 5 -o TIMES -- ./app args         then: xpuprof select RUN --times TIMES
    xpuprof time --regions app.selection --warmup 2 -- ./app args
    xpuprof time --kernel gemm:3:2 -- ./app args      calls 3 and 4 of gemm
    """
    # Loaded here, so that --help is quick.
    from xpuprof.cli.progress import show_progress
    from xpuprof.report.text import number_of, of_runs
    from xpuprof.units import seconds
    from xpuprof.workflow.next_step import of_run
    from xpuprof.workflow.time import time

    show_progress(quiet, how["repeat"])
    done = time(argv, say=options.notes(quiet), **how)
    if as_json:
        from xpuprof.report.result import time_json  # loads pandas

        options.print_json(time_json(done))
    empty = done.last.undisturbed and not done.seconds
    if empty:
        options.note(f"no slice was timed in {done.run.path}: {done.run.reason}", quiet=False)
    elif done.last.undisturbed:
        if not as_json and done.regions is not None:
            from xpuprof.report.validation import regions_text  # loads pandas

            show(regions_text(done.regions))
        for sentence in done.doubts:
            options.note(sentence, quiet)
        options.note(
            f"{number_of(done.slices, 'slice')}, measured {seconds(done.measured)} "
            f"({of_runs(len(done.seconds))}), in {done.run.path}",
            quiet or as_json,
        )
        options.next_step(of_run(done.run), quiet or as_json)
    enough = bool(done.seconds) or how["repeat"] == 1
    return end_after(done.ending, done.last, has_result=enough) or NO_RESULT * empty
