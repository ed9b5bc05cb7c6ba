# SPDX-License-Identifier: Apache-2.0
"""xpuprof compare"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from xpuprof.cli import method_options, options
from xpuprof.cli.names import Name
from xpuprof.errors import UsageError


@click.command(name="compare")
@click.argument("runs", metavar="RUN...", type=options.RUN, nargs=-1, required=True)
@click.option(
    "--methods",
    type=Name("method", method_options.helps, several=True),
    metavar="A,B,...",
    help="Methods to compare [default: all].",
)
@click.option(
    "--repeats",
    type=click.IntRange(1),
    default=10,
    show_default=True,
    metavar="N",
    help="Number of seeds; errors are means and maxima over them.",
)
@click.option(
    "--metric",
    help="Metric to project: time, gpu_time, cycles, ... [default: the best that all runs have].",
)
@click.option(
    "--error-bound",
    type=float,
    default=0.05,
    show_default=True,
    help="Error bound or target, for the methods that have one.",
)
@click.option(
    "--confidence",
    type=float,
    default=0.95,
    show_default=True,
    help="Confidence of bounds and intervals.",
)
@options.seed
@options.times_of_one
@click.option(
    "-o",
    "--output",
    "--plot",
    type=options.PATH,
    metavar="FILE",
    help="Also draw error against time speedup, as a page (.html) or a picture (.png, .svg, .pdf).",
)
@click.option("--force", is_flag=True, help="Replace an existing output file.")
@options.workers
@options.as_json
@options.quiet
def command(
    runs: tuple[Path, ...],
    methods: str | None,
    output: Path | None,
    force: bool,
    as_json: bool,
    quiet: bool,
    **how: Any,
) -> None:
    """Run every sampling method on each profile and compare their errors.

    The error compares the projected total time with the measured one, so the profile needs times
    (`xpuprof run`, an import that has them, or --times). Without times gpu_instructions are
    projected, which says nothing about the error in time. The time speedup is the time of the whole
    run over that of the chosen slices. A method that lacks data is left out, with the import that
    would provide it. For several runs the table shows means, and the sums of slices and samples;
    --json shows each run.

    \b
    xpuprof compare RUN
    xpuprof compare RUN --methods NAME,NAME --repeats 100 --error-bound 0.02
    xpuprof compare PROFILE --times TIMES
    xpuprof compare RUN -o methods.html
    xpuprof compare RANK0 RANK1 ... --workers 8
    """
    # Loaded here, so that --help is quick.
    from xpuprof.formats.output import refuse_existing, replacing
    from xpuprof.report.picture import SUFFIXES

    if output:
        if output.suffix.lower() not in (".html", *SUFFIXES):
            raise UsageError(f"{output} has no known suffix; use .html, .png, .svg or .pdf")
        refuse_existing(output, force)
    # Tables and statistics are loaded only if the command line is valid.
    from xpuprof.cli.progress import working
    from xpuprof.report import compare as report
    from xpuprof.workflow.compare import compare

    names = None if methods is None else [name.strip() for name in methods.rstrip(",").split(",")]
    with working("compare", quiet):
        found = compare(runs, methods=names, **how)
    whole = found.together
    if as_json:
        options.print_json(report.as_json(found))
    else:
        click.echo(report.as_text(whole))
    if output:
        with replacing(output, force) as new:
            if output.suffix.lower() == ".html":
                report.write_page(found, new)
            else:
                report.draw(whole.run, whole.metric, whole.rows, new)
        options.note(f"wrote {output}", quiet)
    for one in found.each:
        for doubt in one.doubts:
            options.note(f"{one.run}: {doubt}", quiet)
    if not as_json:
        options.next_step(_next(runs, how["timed"]), quiet)


def _next(runs: tuple[Path, ...], timed: tuple[Path, ...]) -> str:
    from xpuprof.trace.imported import ImportedSlices
    from xpuprof.workflow.next_step import command as line

    which = "NAME: one of the table"
    if len(runs) > 1 and any(ImportedSlices.present(run) for run in runs):
        runs, which = runs[:1], f"{which}; imports are selected from one by one"
    alone = len(runs) == 1
    chosen = alone and (runs[0] / "selection.json").exists()
    where = ["--force"] * chosen if alone else ["-o", "DIR"]
    times = [word for folder in timed for word in ("--times", folder)]
    return f"{line('select', *runs, *times, '--method', 'NAME', *where)} ({which})"
