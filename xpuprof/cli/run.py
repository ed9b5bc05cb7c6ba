# SPDX-License-Identifier: Apache-2.0
"""xpuprof run"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Literal

import click

from xpuprof.cli import options
from xpuprof.engines.base import Timer
from xpuprof.engines.filters import Filters
from xpuprof.launch.ending import end_after


@click.command(name="run", context_settings=options.PROGRAM_CONTEXT)
@options.output
@options.force
@options.redact
@options.engines
@options.filters
@options.gpu_tool
@options.timer
@options.repeat
@options.method
@options.memory_weight
@options.processes
@options.seed
@options.as_json
@options.quiet
@options.program
def command(
    output: Path | None,
    force: bool,
    cpu: str,
    gpu: str,
    filters: Filters,
    gpu_tool: str | None,
    timer: Timer,
    repeat: int,
    method: str,
    memory_weight: float | None,
    processes: Literal["job", "each"],
    seed: int,
    as_json: bool,
    quiet: bool,
    argv: tuple[str, ...],
) -> int:
    """Find slices that represent the whole program, and check their projection of its native time.

    Runs the program natively (you see the output of this run), once under the engines to record
    what every slice executes, and --repeat times natively with time stamps. Then chooses
    representatives and compares their projected time with the measured time.

    \b
    xpuprof run -- ./app args
    xpuprof run --cpu none -o RUN -- python train.py
    xpuprof run -- mpirun -n 2 ./app               every rank, and the whole job

    The run directory keeps everything; RUN/selection.json stands alone and works on other machines.
    With --json the last line, after the program's own output, is one JSON object.
    """
    # Loaded here, so that --help is quick.
    from xpuprof.report import result as report
    from xpuprof.report.warnings import warnings
    from xpuprof.workflow.run import run

    done = run(
        argv,
        output=output,
        force=force,
        cpu=cpu,
        gpu=gpu,
        filters=filters,
        gpu_tool=gpu_tool,
        timer=timer,
        repeat=repeat,
        method=method,
        memory_weight=memory_weight,
        processes=processes,
        seed=seed,
        say=options.notes(quiet),
    )
    folder, result = done.run.path, done.result
    if result is None:
        if as_json:
            options.print_json(report.unfinished_json(done))
        options.note(f"the run in {folder} is {done.run.status}: {done.unfinished}", quiet)
        return end_after(done.ending, done.last)
    if as_json:
        options.print_json(report.as_json(result))
    else:
        click.echo(report.as_text(result))
    for sentence in [*done.doubts, *warnings(result.job)]:
        options.note(sentence, quiet)
    if not as_json:
        options.note(
            "next, here or on another machine: "
            + shlex.join(["xpuprof", "validate", str(folder / "selection.json"), "--", *argv]),
            quiet,
        )
    return end_after(done.ending, done.last)
