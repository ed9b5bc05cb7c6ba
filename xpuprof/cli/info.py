# SPDX-License-Identifier: Apache-2.0
"""xpuprof info"""

from __future__ import annotations

from pathlib import Path

import click

from xpuprof.cli import options


@click.command(name="info")
@click.argument("run", type=options.RUN)
@options.full_names
@options.as_json
@options.quiet
def command(run: Path, as_json: bool, quiet: bool) -> int:
    """Summarize a run directory: slices, kernels, threads, warps, engines, sizes.

    \b
    xpuprof info RUN
    xpuprof info RUN --json
    """
    # Loaded here, so that --help is quick.
    from xpuprof.cli.progress import working
    from xpuprof.report import info
    from xpuprof.trace.run import Run
    from xpuprof.trace.summary import summarize
    from xpuprof.workflow.next_step import of_run

    opened = Run.open(run)
    with working("info", quiet):
        summary = summarize(opened)
    if as_json:
        options.print_json(summary.as_json())
        return 0
    click.echo(info.as_text(summary))
    if opened.status != "complete":
        options.note(f"the run is {opened.status}: {opened.reason}", quiet)
    options.next_step(of_run(opened), quiet)
    return 0
