"""xpuprof compare"""

from __future__ import annotations

from pathlib import Path

import click

from xpuprof.cli import options
from xpuprof.errors import UsageError
from xpuprof.sampling.methods import function_of, names


@click.command(name="compare")
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path))
@click.option("--methods", metavar="A,B,...", help="Which methods [default: all].")
@click.option(
    "--repeats",
    type=click.IntRange(1),
    default=10,
    show_default=True,
    metavar="N",
    help="Seeds, over which errors are taken.",
)
@click.option("--metric", help="What is projected: time, gpu_time, cycles, or any other metric.")
@click.option(
    "--error-bound",
    type=float,
    default=0.05,
    show_default=True,
    help="Error bound or target of the methods that have one.",
)
@click.option("--confidence", type=float, default=0.95, show_default=True)
@options.seed
@click.option("--plot", type=click.Path(path_type=Path), help="Draw error against speedup.")
@click.option("--force", is_flag=True, help="Replace an existing picture.")
@options.as_json
def command(
    run: Path,
    methods: str | None,
    repeats: int,
    metric: str | None,
    error_bound: float,
    confidence: float,
    seed: int,
    plot: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Run every sampling method on one profile and compare their errors.

    The profile needs times (`xpuprof time`, or an import that has them): an error is the projected
    total against the measured one. A method that needs what the profile lacks is left out, with the
    import that would give it.

    \b
    xpuprof compare RUN
    xpuprof compare RUN --methods stem-root,xpu-stem --repeats 100 --error-bound 0.02
    xpuprof compare RUN --plot methods.svg
    """
    chosen = [name.strip() for name in methods.split(",")] if methods else names()
    for name in chosen:
        function_of(name)
    if plot and plot.exists() and not force:
        raise UsageError(f"{plot} exists: choose another name, or --force to replace it")
    # Tables and statistics are loaded only when the command line is right.
    from xpuprof.report import compare as report
    from xpuprof.timing.comparison import compare
    from xpuprof.timing.profiles import open_subject

    subject = open_subject(run)
    what, rows = compare(
        subject,
        chosen,
        metric=metric,
        repeats=repeats,
        seed=seed,
        epsilon=error_bound,
        confidence=confidence,
    )
    if plot:
        report.draw(str(run), what, rows, plot)
    show = report.as_json if as_json else report.as_text
    result = show(str(run), what, len(subject.profile), rows)
    if isinstance(result, str):
        click.echo(result)
    else:
        options.print_json(result)
