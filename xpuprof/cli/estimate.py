# SPDX-License-Identifier: Apache-2.0
"""xpuprof estimate"""

from __future__ import annotations

from pathlib import Path

import click

from xpuprof.cli import options

ENOUGH = 0.05
"""Half-width of an interval, over the estimate, from which more regions are suggested."""


@click.command(name="estimate")
@click.argument("selection", type=options.PATH)
@click.option(
    "--results",
    multiple=True,
    metavar="[REGION=]FILE|FOLDER",
    help="CSV, JSON, gem5 stats.txt, Accel-Sim log, CSV of ncu, output of rocprofv3 or "
    "rocprof-compute, or a folder of them; several files together cover all regions.",
)
@click.option("--metric", multiple=True, metavar="NAME", help="Only these metrics.")
@click.option(
    "--rate",
    multiple=True,
    metavar="NAME[:WEIGHT]",
    help="Treat NAME as a rate, such as IPC; weight it by the metric WEIGHT.",
)
@click.option("--sum", "sums", multiple=True, metavar="NAME", help="Treat NAME as a count.")
@click.option(
    "--same-machine",
    is_flag=True,
    help="The results are of the machine where the selection was made; intervals rely on that.",
)
@click.option(
    "--timeline",
    metavar="RUN",
    type=options.PATH,
    help="Replay RUN's recorded order with these kernel times: length, critical path, busy shares.",
)
@options.as_json
@options.quiet
def command(
    selection: Path,
    results: tuple[str, ...],
    metric: tuple[str, ...],
    rate: tuple[str, ...],
    sums: tuple[str, ...],
    same_machine: bool,
    timeline: Path | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Estimate whole-run metrics from those of the selection's regions.

    Counts (time, instructions, misses) are multiplied and summed. A rate (IPC, CPI, a miss ratio)
    is averaged, weighted by the cycles or instructions that it refers to. A table names each region
    by `region` (1, 2, ... in the selection's order), `slice`, or `kernel` and `call`.

    \b
    xpuprof estimate app.selection --results regions.csv
    xpuprof estimate app.selection --results 1=r1/stats.txt --results 2=r2/stats.txt
    xpuprof estimate app.selection --results accelsim.log --metric gpu_sim_cycle --metric gpu_ipc
    xpuprof estimate app.selection --timeline RUN

    --timeline replays RUN's kernels in their recorded order, on their streams and devices, with the
    representatives' recorded times or, with --results, those in the given --metric (time_us, ...).

    A region without a result is an error. Where the drawn slices are too few to show how times
    differ from the selection's machine, the interval says "this machine only".
    """
    if not results and timeline is None:
        raise click.UsageError("name the regions' results (--results FILE), or --timeline RUN")
    # Loaded here, so that --help is quick.
    from xpuprof.report import estimate as report
    from xpuprof.report import timeline as timeline_report
    from xpuprof.selection.selection import Selection
    from xpuprof.trace.manifest import MANIFEST
    from xpuprof.workflow.estimate import estimate_results
    from xpuprof.workflow.next_step import command as line
    from xpuprof.workflow.timeline import replay_run

    chosen = Selection.read(selection)
    if timeline is not None:
        if len(metric) > 1 or rate or sums:
            raise click.UsageError("--timeline takes one --metric, the kernels' times")
        name = metric[0] if metric else ""
        replayed = replay_run(chosen, timeline, results, name, same_machine=same_machine)
        if as_json:
            options.print_json({"selection": str(selection), **timeline_report.as_json(replayed)})
        else:
            click.echo(timeline_report.as_text(replayed))
        return
    rates = {name: weight or None for name, _, weight in (text.partition(":") for text in rate)}
    metrics = estimate_results(
        chosen, results, only=metric, rates=rates, sums=sums, same_machine=same_machine
    )
    if as_json:
        options.print_json(
            {
                "selection": str(selection),
                "method": chosen.method,
                "regions": len(chosen.representatives),
                "covered": chosen.covered,
                "metrics": report.as_json(metrics),
            }
        )
    else:
        click.echo(report.as_text(metrics, zeros=bool(metric)))
        folder = selection if selection.is_dir() else selection.parent
        run = folder if (folder / MANIFEST).exists() else "RUN"  # a selection may lie elsewhere
        if any(whole.estimate.half_width > ENOUGH for whole in metrics):
            options.next_step(
                f"{line('select', run, '--target-error', '0.02', '--force')} (for narrower "
                "intervals; then simulate the new regions)",
                quiet,
            )
