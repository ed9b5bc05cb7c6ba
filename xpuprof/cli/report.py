# SPDX-License-Identifier: Apache-2.0
"""xpuprof report"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from xpuprof.cli import options
from xpuprof.cli.lines import coloured
from xpuprof.errors import UsageError

if TYPE_CHECKING:
    from xpuprof.trace.run import Run
    from xpuprof.workflow.evaluate import Result

KERNELS = 10
"""Kernels above the table of representatives; `info` lists more."""


@click.command(name="report")
@click.argument("runs", metavar="RUN...", type=options.RUN, nargs=-1, required=True)
@click.option(
    "--selection",
    type=options.PATH,
    metavar="FILE",
    help="Selection to show.  [default: RUN/selection.json]",
)
@options.times_of_one
@click.option(
    "-o",
    "--output",
    type=options.PATH,
    metavar="FILE",
    help="Write a page (.html: any runs, imports too) or a picture (.png, .svg, .pdf) instead of "
    "the table.",
)
@click.option("--force", is_flag=True, help="Replace an existing output file.")
@options.full_names
@options.as_json
@options.quiet
def command(
    runs: tuple[Path, ...],
    selection: Path | None,
    timed: tuple[Path, ...],
    output: Path | None,
    force: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Show a finished run as a table, JSON, a picture or a page.

    The page is one file that needs no network: slices over time, clusters, representatives and
    kernels, to zoom, sort and hover; several runs stand beside each other.

    \b
    xpuprof report RUN
    xpuprof report RUN -o run.html
    xpuprof report RUN RUN2 -o both.html
    """
    # Loaded here, so that --help is quick.
    from xpuprof.cli.progress import working
    from xpuprof.formats.output import refuse_existing
    from xpuprof.report import chosen, result
    from xpuprof.report.picture import SUFFIXES
    from xpuprof.report.warnings import notes
    from xpuprof.trace.run import Run
    from xpuprof.workflow.evaluate import Result
    from xpuprof.workflow.next_step import command as line
    from xpuprof.workflow.next_step import of_run
    from xpuprof.workflow.reopen import reopen

    suffix = output.suffix.lower() if output else ""
    if output and suffix not in (".html", *SUFFIXES):
        raise UsageError(f"{output} has no known suffix; use .html, .png, .svg or .pdf")
    if output:
        refuse_existing(output, force)  # before the work, not after it
    _refuse_several(runs, selection, timed, suffix == ".html" and not as_json)
    run = runs[0]
    export = line("export", selection or run, "--format", "NAME", "-o", "OUT")
    given = [*(["--selection", selection] if selection else ())]
    given += [word for folder in timed for word in ("--times", folder)]
    if output and suffix == ".html":
        with working("report", quiet):
            chosen_from = _write_page(runs, selection, timed, output, force)
        options.note(f"wrote {output}", quiet)
        if not as_json:
            options.next_step(export if chosen_from else of_run(Run.open(run)), quiet)
            return
    kernels = ""
    with working("report", quiet):
        if not (output or as_json):  # first, so that its memory is free again
            kernels = _kernels(Run.open(run), selection, timed)
        found = reopen(run, selection, timed)
    if output and suffix != ".html":
        if not isinstance(found, Result):
            raise UsageError(
                f"{run} has no timer runs of its own, which pictures show; write a page: "
                + line("report", run, *given, "-o", output.with_suffix(".html"))
            )
        _draw(found, output, force)
        options.note(f"wrote {output}", quiet)
    if as_json:
        options.print_json(
            result.as_json(found) if isinstance(found, Result) else chosen.as_json(found)
        )
    elif output:
        options.next_step(export, quiet)
    else:
        text = result.as_text(found) if isinstance(found, Result) else chosen.as_text(found)
        click.echo(coloured(f"{kernels}\n\n{text}" if kernels else text))
        for sentence in notes(found) if isinstance(found, Result) else found.doubts:
            options.note(sentence, quiet)
        page = Path(f"{run.resolve().name}.html")
        given += ["-o", page, *(["--force"] * page.exists())]
        options.next_step(line("report", run, *given), quiet)


def _kernels(run: Run, selection: Path | None, timed: Sequence[Path]) -> str:
    """The kernels with their times, from the timer runs that the report shows."""
    from xpuprof.report.info import kernels_text
    from xpuprof.selection.selection import Selection
    from xpuprof.trace.summary import summarize
    from xpuprof.workflow.reopen import timer_folders

    file = selection or run.path / "selection.json"
    chosen = Selection.read(file) if file.exists() else None
    return kernels_text(summarize(run, timer_folders(run, chosen, timed)), KERNELS)


def _refuse_several(
    runs: tuple[Path, ...], selection: Path | None, timed: tuple[Path, ...], page: bool
) -> None:
    """Raises UsageError unless one run was named, or only a page of several asked for."""
    if len(runs) == 1:
        return
    if not page:
        raise UsageError(
            "several runs are shown beside each other on a page: add -o runs.html, without --json; "
            "or report them one by one"
        )
    if selection or timed:
        raise UsageError(
            "--selection and --times are for one run; the page shows each run's own selection"
        )


def _draw(found: Result, output: Path, force: bool) -> None:
    from xpuprof.formats.output import replacing
    from xpuprof.report.picture import draw

    with replacing(output, force) as new:
        draw(found, new)


def _write_page(
    runs: tuple[Path, ...],
    selection: Path | None,
    timed: tuple[Path, ...],
    output: Path,
    force: bool,
) -> bool:
    """Writes the page; returns whether every run on it has a selection."""
    from xpuprof.formats.output import replacing
    from xpuprof.report.page import write_page
    from xpuprof.selection.selection import Selection
    from xpuprof.stages import counted
    from xpuprof.workflow.opened import open as open_run
    from xpuprof.workflow.overview import overview

    chosen = Selection.read(selection) if selection else None
    found = [overview(open_run(run), chosen, timed) for run in counted("run", runs)]
    with replacing(output, force) as new:
        write_page(found, new)
    return all(each.selection is not None for each in found)
