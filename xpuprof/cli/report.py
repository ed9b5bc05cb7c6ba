"""xpuprof report"""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from xpuprof.cli import options
from xpuprof.errors import InputError, UsageError
from xpuprof.formats.output import replacing
from xpuprof.report import chosen as chosen_report
from xpuprof.report.page import write_page
from xpuprof.report.picture import SUFFIXES, draw
from xpuprof.report.result import as_json as result_json
from xpuprof.report.result import as_text
from xpuprof.selection.file import read_selection
from xpuprof.selection.selection import Selection
from xpuprof.trace.imported import ImportedSlices
from xpuprof.trace.run import Run
from xpuprof.workflow.evaluate import evaluate
from xpuprof.workflow.subjects import imported_times


@click.command(name="report")
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--selection", type=click.Path(path_type=Path), help="[default: RUN/selection.json]")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="Write a page (.html) or a picture (.png, .svg, .pdf) instead of the table.",
)
@click.option("--force", is_flag=True, help="Overwrite the output file.")
@options.as_json
def command(
    run: Path, selection: Path | None, output: Path | None, force: bool, as_json: bool
) -> int:
    """Show a finished run again: as a table, as JSON, as a picture, as a page.

    \b
    xpuprof report RUN
    xpuprof report RUN -o run.html
    """
    opened = Run.open(run)
    file = selection or run / "selection.json"
    if not file.exists():
        raise InputError(f"{file} does not exist; {_first(opened, selection)}")
    chosen = read_selection(file)
    if ImportedSlices.present(run):
        return _imported(run, chosen, output, as_json)
    result = evaluate(opened, chosen)
    if output is None:
        if as_json:
            options.print_json(result_json(result))
        else:
            click.echo(as_text(result))
        return 0
    if output.suffix not in (".html", *SUFFIXES):
        raise UsageError(f"{output} has no known suffix; use .html, .png, .svg or .pdf")
    with replacing(output, force) as new:
        if output.suffix == ".html":
            write_page(result, new, list(opened.manifest["argv"]))
        else:
            draw(result, new)
    return 0


def _first(run: Run, selection: Path | None) -> str:
    """What is to be done before there is a selection."""
    if run.profile is None and not ImportedSlices.present(run.path):
        program = shlex.join(run.manifest["argv"]) or "./app args"
        return (
            f"{run.path} holds no profile to choose slices from: xpuprof profile -o P -- "
            f"{program}, then xpuprof select P --times {run.path}"
        )
    if selection is not None:
        return f"name another, or leave --selection away after: xpuprof select {run.path}"
    return f"choose slices first with: xpuprof select {run.path}"


def _imported(run: Path, selection: Selection, output: Path | None, as_json: bool) -> int:
    """Of an imported run: the selection and what it projects."""
    if output is not None:
        raise UsageError(
            f"{run} was imported, and pictures and pages are of recorded runs; leave -o away, or "
            f"draw its methods with: xpuprof compare {run} --plot {output.with_suffix('.svg')}"
        )
    metric, times = imported_times(run)
    chosen = chosen_report.with_times(chosen_report.Chosen(str(run), selection), times, metric)
    if as_json:
        options.print_json(chosen_report.as_json(chosen))
    else:
        click.echo(chosen_report.as_text(chosen))
    return 0
