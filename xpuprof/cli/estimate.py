"""xpuprof estimate"""

from __future__ import annotations

from pathlib import Path

import click

from xpuprof.cli import options
from xpuprof.estimation.metrics import Whole, whole_run
from xpuprof.formats.simulator_results.results import read_results
from xpuprof.report.text import percent, table
from xpuprof.selection.file import read_selection


@click.command(name="estimate")
@click.argument("selection", type=click.Path(path_type=Path))
@click.option(
    "--results",
    required=True,
    multiple=True,
    metavar="[REGION=]FILE",
    help="CSV, JSON, gem5 stats.txt or Accel-Sim log; several files add up to all regions.",
)
@click.option("--metric", multiple=True, metavar="NAME", help="Only these metrics.")
@click.option(
    "--rate",
    multiple=True,
    metavar="NAME[:WEIGHT]",
    help="NAME is a rate (as IPC is); weight it with the metric WEIGHT.",
)
@click.option("--sum", "sums", multiple=True, metavar="NAME", help="NAME adds up, whatever it is.")
@options.as_json
def command(
    selection: Path,
    results: tuple[str, ...],
    metric: tuple[str, ...],
    rate: tuple[str, ...],
    sums: tuple[str, ...],
    as_json: bool,
) -> None:
    """Metrics of the whole run from those of the selection's regions.

    What adds up (time, instructions, misses) is multiplied and summed; a rate (IPC, CPI, a miss
    ratio) is averaged by the cycles or instructions that it is measured over. A table names each
    region by `region` (1, 2, ... in the selection's order), `slice`, or `kernel` and `call`.

    \b
    xpuprof estimate app.selection --results regions.csv
    xpuprof estimate app.selection --results 1=r1/stats.txt --results 2=r2/stats.txt
    xpuprof estimate app.selection --results accelsim.log --metric gpu_sim_cycle --metric gpu_ipc

    A region without a result is an error.
    """
    chosen = read_selection(selection)
    found = read_results(results, chosen)
    rates = {name: weight or None for name, _, weight in (text.partition(":") for text in rate)}
    metrics = whole_run(chosen, found, rates, sums, only=metric or None)
    if as_json:
        options.print_json(
            {
                "selection": str(selection),
                "method": chosen.method,
                "regions": len(found),
                "covered": chosen.covered,
                "metrics": [whole.as_json() for whole in metrics],
            }
        )
    else:
        click.echo(_text(metrics))


def _text(metrics: list[Whole]) -> str:
    rows = []
    for whole in metrics:
        e = whole.estimate
        known = e.low is not None and e.high is not None and e.confidence is not None
        interval = f"{e.low:,.6g} to {e.high:,.6g}" if known else "none"
        rows.append([whole.name, f"{e.value:,.6g}", interval, whole.kind])
    lines = [table(["metric", "whole run", "interval", "how"], rows, "lrll")]
    confidence = next((w.estimate.confidence for w in metrics if w.estimate.confidence), None)
    if confidence:
        lines.append(f"intervals at {percent(confidence)}")
    without = next((w.estimate.basis for w in metrics if w.estimate.low is None), None)
    return "\n".join([*lines, without] if without else lines)
