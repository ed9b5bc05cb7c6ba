"""xpuprof profile"""

from __future__ import annotations

from pathlib import Path

import click

from xpuprof.cli import options
from xpuprof.engines.choose import choose
from xpuprof.engines.filters import Filters
from xpuprof.engines.gpu_tool import gpu_tool as load_beside
from xpuprof.launch.ending import end_like, exit_doubts
from xpuprof.launch.execute import Program, profile
from xpuprof.launch.finish import finish
from xpuprof.launch.program import resolve
from xpuprof.launch.streams import Input
from xpuprof.report.result import launches_json, warnings, window_sentences
from xpuprof.trace.processes import job_of
from xpuprof.trace.run import create_run
from xpuprof.trace.window import window_facts


@click.command(name="profile", context_settings=options.PROGRAM_CONTEXT)
@options.output
@options.force
@options.engines
@options.filters
@options.gpu_tool
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
    as_json: bool,
    quiet: bool,
    argv: tuple[str, ...],
) -> int:
    """Record the basic-block vectors of every slice, CPU and GPU, in one instrumented execution.

    The program's output, exit code and signals are its own. Under valgrind, which hides AVX2 and
    FMA, libraries take other code (PoCL compiles other kernels), so the last digits of floating
    point results may differ from a native run's.

    \b
    xpuprof profile -o RUN -- ./app args
    xpuprof profile --cpu none -- ./app        GPU vectors only, much faster
    mpirun -n 2 xpuprof profile -o P -- ./app  one run a rank: P-rank0, P-rank1
    """
    resolved = resolve(argv)
    chosen = choose(cpu, gpu, filters, lambda text: options.note(text, quiet))
    tool = load_beside(gpu_tool, chosen.cpu, chosen.gpu) if gpu_tool else None
    program = Program(resolved, chosen.cpu, chosen.gpu, filters, tool, fallbacks=chosen.fallbacks)
    folder = options.run_folder(output, argv)
    writer = create_run(folder, force=force, argv=list(argv), extra=options.recorded(filters))
    options.note(filters.text(), quiet)
    for sentence in chosen.notes:
        options.note(sentence, quiet)
    ending = profile(writer, program, Input(), user=True)
    run = finish(writer, folder)
    assert run.profile is not None
    job = job_of(run.profile)
    for sentence in window_sentences(job):
        options.note(sentence, quiet)
    if as_json:
        options.print_json(
            {
                "run": str(folder),
                "status": run.status,
                "reason": run.reason,
                "exit_code": ending.exit_code,
                "slices": len(job.slices),
                "window": window_facts(job.processes),
                "processes": [key.label for key in job.keys] if job.several else [],
                "launches": launches_json(job),
            }
        )
    for sentence in [*exit_doubts(ending), *warnings(job)]:
        options.note(sentence, quiet)
    reason = f" ({run.reason})" if run.reason else ""
    options.note(f"{run.status} profile in {folder}{reason}; next: xpuprof select {folder}", quiet)
    return end_like(ending)
