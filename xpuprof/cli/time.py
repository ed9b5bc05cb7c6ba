"""xpuprof time"""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np

from xpuprof.cli import options
from xpuprof.engines.base import Timer
from xpuprof.launch.choose import gpu_engine
from xpuprof.launch.execute import Program, time
from xpuprof.launch.finish import finish
from xpuprof.launch.program import resolve
from xpuprof.launch.streams import Input
from xpuprof.launch.supervise import end_like
from xpuprof.report.text import seconds
from xpuprof.timing.slices import main_process, slice_times
from xpuprof.trace.run import create_run


@click.command(name="time", context_settings=options.PROGRAM_CONTEXT)
@options.output
@options.force
@click.option(
    "--gpu", default="auto", show_default=True, metavar="ENGINE", help="GPU engine, or none."
)
@options.timer
@options.repeat
@options.quiet
@options.as_json
@options.program
def command(
    output: Path | None,
    force: bool,
    gpu: str,
    timer: Timer,
    repeat: int,
    quiet: bool,
    as_json: bool,
    argv: tuple[str, ...],
) -> int:
    """Run the program natively with a time stamp at its start, its end and every kernel's end.

    The slices' times add up to the whole run. The first of the runs is the one whose output you
    see; the others write to files in the run directory.

    \b
    xpuprof time --repeat 5 -o TIMES -- ./app args
    """
    resolved = resolve(argv)
    program = Program(resolved, None, gpu_engine(gpu))
    folder = output or options.default_output(argv)
    writer = create_run(folder, force=force, argv=list(argv), seed=0)
    source = Input()
    endings = [
        time(writer, program, source, timer, i, user=i == 0, again=repeat > 1)
        for i in range(repeat)
    ]
    run = finish(writer, folder)
    walls = [slice_times(execution, main_process(execution)) for execution in run.times]
    if as_json:
        options.print_json(
            {
                "run": str(folder),
                "status": run.status,
                "exit_code": endings[0].exit_code,
                "slices": len(walls[0]),
                "seconds": [float(times.sum()) for times in walls],
            }
        )
    else:
        total = np.array([times.sum() for times in walls])
        options.note(
            f"{len(walls[0])} slices, mean {seconds(float(total.mean()))} over {repeat} runs, "
            f"in {folder}; next: xpuprof profile -- {' '.join(argv)}",
            quiet,
        )
    return end_like(endings[0])
