# SPDX-License-Identifier: Apache-2.0
"""xpuprof run"""

from __future__ import annotations

from typing import Any

import click

from xpuprof.cli import method_options, options, program_options
from xpuprof.cli.lines import coloured, show
from xpuprof.errors import NO_RESULT
from xpuprof.launch.ending import end_after


@click.command(name="run", cls=program_options.ProgramCommand)
@options.output
@options.force
@program_options.redact
@program_options.engines
@program_options.filters
@program_options.gpu_tool
@program_options.max_size
@program_options.timer
@program_options.repeat_or_auto
@method_options.method
@method_options.memory_weight
@options.processes
@options.seed
@options.full_names
@options.as_json
@options.quiet
@program_options.program
def command(argv: tuple[str, ...], as_json: bool, quiet: bool, **how: Any) -> int:
    """Find slices that represent the whole program, and check their projection of its native time.

    Runs the program natively (you see the output of this run), once under the engines to record
    what every slice executes, and natively again (--repeat) to time every slice. Then chooses
    representatives and compares their projected time with the measured time.

    \b
    xpuprof run -- ./app args
    xpuprof run --cpu none -o RUN -- python train.py
    xpuprof run -- mpirun -n 2 ./app               every rank, and the whole job

    The run directory keeps everything; RUN/selection.json stands alone and works on other machines.
    The table is printed after the program's own output; with --json, one JSON object as the last
    line. Where that output must stay alone (./app >data), use profile, time and select. The exit
    code is the program's; 3 if that is 0 but there is no result.
    """
    # Loaded here, so that --help is quick.
    from xpuprof.cli.progress import show_progress
    from xpuprof.workflow.next_step import command as line
    from xpuprof.workflow.next_step import of_program, of_run
    from xpuprof.workflow.repeats import limits
    from xpuprof.workflow.run import run

    show_progress(quiet, *limits(how["repeat"]))
    done = run(argv, say=options.notes(quiet), **how)
    # Loaded when the program has run: with pandas, most of it during the profile.
    from xpuprof.report import result as report
    from xpuprof.report.warnings import notes

    folder, result = done.run.path, done.result
    if result is None:
        if as_json:
            options.print_json(report.unfinished_json(done))
        options.note(f"no result in {folder}: {done.unfinished}", quiet=False)
        if not done.last.undisturbed and done.run.profile:  # what was recorded may do
            options.next_step(of_run(done.run), quiet or as_json)
        return end_after(done.ending, done.last, has_result=False) or NO_RESULT
    if as_json:
        options.print_json(report.as_json(result))
    else:
        show(coloured(report.as_text(result)))
    for sentence in notes(result):
        options.note(sentence, quiet)
    again = of_program("validate", folder / "selection.json", argv=done.run.manifest["argv"])
    validate = f"{again} (here or elsewhere)"
    watched = result.execution.record.gpu_engine != "none"
    options.next_step(validate if watched else line("report", folder), quiet or as_json)
    return end_after(done.ending, done.last)
