# SPDX-License-Identifier: Apache-2.0
"""xpuprof check"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from xpuprof.cli import options
from xpuprof.errors import NO_RESULT

if TYPE_CHECKING:
    from xpuprof.trace.check import Report


@click.command(name="check")
@click.argument("run", type=options.RUN)
@options.as_json
@options.quiet
def command(run: Path, as_json: bool, quiet: bool) -> int:
    """Verify that a run directory is complete and consistent.

    Verifies checksums, time stamps and numbering, that every independently counted total equals the
    sum of its parts, and that the selection in it is whole. A partial run is checked as far as it
    goes.

    \b
    xpuprof check RUN
    xpuprof check RUN --json

    Exit code 0: all invariants hold; 1: some are violated; 2: the run cannot be read; 3: none is
    violated, but the run is partial, or there was nothing to check.
    """
    # Loaded here, so that --help is quick.
    from xpuprof.cli.progress import working
    from xpuprof.report import check
    from xpuprof.trace.run import Run
    from xpuprof.workflow import check as checking
    from xpuprof.workflow.next_step import of_run

    with working("check", quiet):
        report = checking.check(run)
    if as_json:
        options.print_json(check.as_json(run, report))
        return _exit_code(report)
    click.echo(check.as_text(report))
    for invariant in check.broken(report):
        options.note(f"{invariant} requires: {report.invariants[invariant]}", quiet)
    if report.status != "complete":
        options.note(f"the run is {report.status}: {report.reason or 'no reason given'}", quiet)
    if not report.violations:
        options.next_step(of_run(Run.open(run)), quiet)
    return _exit_code(report)


def _exit_code(report: Report) -> int:
    if report.violations:
        return 1
    return 0 if report.whole else NO_RESULT
