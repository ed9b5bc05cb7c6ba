# SPDX-License-Identifier: Apache-2.0
"""xpuprof transfer"""

from __future__ import annotations

from pathlib import Path

import click

from xpuprof.cli import options


@click.command(name="transfer")
@click.argument("selection", type=options.PATH)
@click.argument("runs", metavar="RUN_A RUN_B...", type=options.RUN, nargs=-1)
@click.option(
    "--allow-missing",
    is_flag=True,
    help="Omit regions that a run lacks, re-weight the others and state the covered share.",
)
@click.option(
    "--metric",
    help="For imports: time, gpu_time, ... [default: the metric that the selection was made by].",
)
@options.quiet
@options.as_json
def command(
    selection: Path,
    runs: tuple[Path, ...],
    allow_missing: bool,
    metric: str | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Test one selection on several machines.

    RUN_A holds the timer runs of the machine where the selection was made, the others those of
    other machines: run directories of `xpuprof time`, `run`, `validate -o` or `import`. Each line
    shows measured and projected time, sampling error, and the machine's speedup over the first, as
    measured and as projected. For imports the metric of the selection replaces time.

    \b
    xpuprof transfer app.selection TIMES-A TIMES-B TIMES-C
    """
    if not runs:
        raise click.UsageError("name at least one run directory with timer runs")
    # Loaded here, so that --help is quick.
    from xpuprof.cli.progress import working
    from xpuprof.report.validation import transfer_json, transfer_text
    from xpuprof.selection.selection import Selection
    from xpuprof.workflow.next_step import command as line
    from xpuprof.workflow.transfer import transfer

    chosen = Selection.read(selection)
    metric = metric or chosen.metric
    with working("transfer", quiet):
        rows = transfer(chosen, runs, metric=metric, allow_missing=allow_missing)
    if len(runs) == 1:
        options.note(
            f"{runs[0]} is the only run, so there is no ratio to compare; add the runs of other "
            "machines",
            quiet,
        )
    if metric != chosen.metric:
        options.note(
            f"the selection was made by {chosen.metric}, so the error in {metric} may be larger",
            quiet,
        )
    if as_json:
        options.print_json(
            {
                "selection": str(selection),
                "metric": metric,
                "runs": transfer_json(rows),
            }
        )
    else:
        click.echo(transfer_text(rows, metric))
        options.next_step(line("export", selection, "--format", "NAME", "-o", "OUT"), quiet)
