"""xpuprof check"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from xpuprof.cli import options
from xpuprof.trace.check import INVARIANTS, Report, check_run


@click.command(name="check")
@click.argument("run", type=click.Path(path_type=Path))
@options.as_json
@options.quiet
def command(run: Path, as_json: bool, quiet: bool) -> int:
    """Verify that a run directory is whole and consistent.

    Checks checksums, time stamps, numbering, and that every sum that was counted on its own equals
    the sum of its parts. A partial run is checked for what it holds.

    \b
    xpuprof check RUN
    xpuprof check RUN --json

    Exit code 0: all is well; 1: something does not hold, and what; 2: the run cannot be read.
    """
    report = check_run(run)
    if as_json:
        options.print_json(
            {
                "run": str(run),
                "status": report.status,
                "reason": report.reason,
                "ok": not report.violations,
                "checked": report.checked,
                "invariants": len(INVARIANTS),
                "violations": [asdict(violation) for violation in report.violations],
            }
        )
    else:
        _print(report, quiet)
    return 1 if report.violations else 0


def _print(report: Report, quiet: bool) -> None:
    for violation in report.violations:
        click.echo(str(violation))
    what = ", ".join(f"{name} {number:,}" for name, number in report.checked.items())
    if report.violations:
        broken = sorted({violation.invariant for violation in report.violations})
        click.echo(f"does not hold: {', '.join(broken)} (checked: {what})")
        for invariant in broken:
            options.note(f"{invariant} asks that: {INVARIANTS[invariant]}", quiet)
    elif report.checked["executions"]:
        click.echo(f"all {len(INVARIANTS)} invariants hold (checked: {what})")
    elif report.checked["slices"]:
        click.echo(
            f"the {report.checked['slices']:,} imported slices can be read; the "
            f"{len(INVARIANTS)} invariants are of recorded runs, and say nothing of this one"
        )
    else:
        click.echo(f"nothing was recorded, so none of the {len(INVARIANTS)} invariants was checked")
    if report.status != "complete":
        options.note(f"the run is {report.status}: {report.reason or 'no reason given'}", quiet)
