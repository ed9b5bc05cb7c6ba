"""xpuprof time"""

from __future__ import annotations

import shlex
from pathlib import Path

import click
import numpy as np

from xpuprof.cli import options
from xpuprof.engines.base import Timer
from xpuprof.engines.choose import gpu_engine
from xpuprof.engines.filters import Filters
from xpuprof.engines.gpu_tool import gpu_tool as load_beside
from xpuprof.errors import UsageError
from xpuprof.estimation.typical_times import typical_times
from xpuprof.launch.ending import end_after, end_like
from xpuprof.launch.execute import Program, time
from xpuprof.launch.finish import finish
from xpuprof.launch.program import resolve
from xpuprof.launch.streams import Input
from xpuprof.report.text import number_of, of_runs, seconds
from xpuprof.report.validation import regions_text
from xpuprof.selection.file import read_selection
from xpuprof.trace.processes import job_of
from xpuprof.trace.run import create_run
from xpuprof.validation.regions import named_regions, parse_spec, selected_regions
from xpuprof.validation.timed import from_executions


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
    help="With them, that of the N slices before each.",
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
    chosen = read_selection(regions) if regions else None
    specs = [parse_spec(text) for text in kernels]
    if warmup and not (chosen or specs):
        raise UsageError("--warmup is of regions; name them with --regions or --kernel")
    if repeat > 1:
        options.refuse_within_job(f"--repeat is {repeat}")
    resolved = resolve(argv)
    engine = gpu_engine(gpu)
    tool = load_beside(gpu_tool, None, engine) if gpu_tool else None
    program = Program(resolved, None, engine, filters=filters, gpu_tool=tool)
    folder = options.run_folder(output, argv)
    writer = create_run(folder, force=force, argv=list(argv), extra=options.recorded(filters))
    options.note(filters.text(), quiet)
    source = Input()
    ending = last = time(writer, program, source, timer, 0, user=True, again=repeat > 1)
    for i in range(1, repeat):
        if last.undisturbed:
            last = time(writer, program, source, timer, i, user=False, again=True)
    run = finish(writer, folder)
    if not last.undisturbed:
        return end_after(ending, last)
    if run.reason:
        options.note(f"the run is {run.status}: {run.reason}", quiet)
    walls = [job_of(execution).times() for execution in run.times]
    found = None
    if chosen or specs:
        timed = from_executions("this run", run.times, dict(run.manifest["machine"]))
        found = selected_regions(chosen, timed, warmup) if chosen else []
        found += named_regions(specs, timed, warmup)
    if as_json:
        options.print_json(
            {
                "run": str(folder),
                "status": run.status,
                "exit_code": ending.exit_code,
                "slices": len(walls[0]),
                "seconds": [float(times.sum()) for times in walls],
                **({"regions": [r.as_json() for r in found]} if found is not None else {}),
            }
        )
    else:
        if found is not None:
            click.echo(regions_text(found))
        measured = float(typical_times(np.array([[times.sum()] for times in walls])).sum())
        options.note(
            f"{number_of(len(walls[0]), 'slice')}, measured {seconds(measured)} "
            f"({of_runs(len(walls))}), in {folder}; next: xpuprof profile -o P -- "
            f"{shlex.join(argv)}, then: xpuprof select P --times {folder}",
            quiet,
        )
    return end_like(ending)
