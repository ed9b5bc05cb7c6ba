# SPDX-License-Identifier: Apache-2.0
"""xpuprof profile"""

from __future__ import annotations

from typing import Any

import click

from xpuprof.cli import options, program_options
from xpuprof.errors import NO_RESULT
from xpuprof.launch.ending import end_after


@click.command(name="profile", cls=program_options.ProgramCommand)
@options.output
@options.force
@program_options.redact
@program_options.engines
@program_options.filters
@program_options.gpu_tool
@program_options.max_size
@options.as_json
@options.quiet
@program_options.program
def command(argv: tuple[str, ...], as_json: bool, quiet: bool, **how: Any) -> int:
    """Record the basic-block vectors of every slice, CPU and GPU, in one instrumented execution.

    The program keeps its output, exit code and signals. Engine valgrind has no AVX2, FMA and
    AVX-512, so libraries take different code paths, and the last digits of floating-point results
    computed on the CPU may differ from a native run's. The exit code is the program's, also where
    the recording is partial; 3 if that is 0 but nothing that was chosen was recorded.

    \b
    xpuprof profile -o RUN -- ./app args
    xpuprof profile --cpu none -- ./app        GPU vectors only, much faster
    mpirun -n 2 xpuprof profile -o P -- ./app  one run per rank: P-rank0, P-rank1
    """
    # Loaded here, so that --help is quick.
    from xpuprof.cli.progress import show_progress
    from xpuprof.launch.finish import no_process, none_chosen
    from xpuprof.report.warnings import warnings, window_sentences
    from xpuprof.trace.window import never_opened
    from xpuprof.workflow.next_step import of_run
    from xpuprof.workflow.profile import profile

    show_progress(quiet)
    done = profile(argv, say=options.notes(quiet), **how)
    run, empty = done.run, not done.job.sums.slices
    recorded = done.job.execution
    useless = bool(
        never_opened(done.job.processes) or none_chosen(recorded) or no_process(run, recorded)
    )
    for sentence in window_sentences(done.job):
        options.note(sentence, quiet or empty)
    if as_json:
        from xpuprof.report.result import profile_json  # loads pandas

        options.print_json(profile_json(done))
    for sentence in [*done.doubts, *warnings(done.job)]:
        options.note(sentence, quiet or sentence == run.reason)
    reason = f" ({run.reason})" if run.reason else ""
    options.note(
        f"{run.status} profile in {run.path}{reason}",
        quiet and not useless,
    )
    if not (empty or useless):
        options.next_step(of_run(run), quiet)
    return end_after(done.ending, done.ending) or NO_RESULT * useless
