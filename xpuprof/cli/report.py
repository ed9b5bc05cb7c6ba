# SPDX-License-Identifier: Apache-2.0
"""xpuprof report"""

from __future__ import annotations

from pathlib import Path

import click

from xpuprof.cli import options
from xpuprof.errors import UsageError


@click.command(name="report")
@click.argument("runs", metavar="RUN...", type=click.Path(path_type=Path), nargs=-1, required=True)
@click.option(
    "--selection",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Selection to show.  [default: RUN/selection.json]",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
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
    from xpuprof.formats.output import replacing
    from xpuprof.report import chosen, result
    from xpuprof.report.picture import SUFFIXES, draw
    from xpuprof.report.warnings import notes
    from xpuprof.workflow.evaluate import Result
    from xpuprof.workflow.reopen import reopen

    if output and output.suffix not in (".html", *SUFFIXES):
        raise UsageError(f"{output} has no known suffix; use .html, .png, .svg or .pdf")
    _refuse_several(runs, selection, output, as_json)
    if output and output.suffix == ".html":
        _write_page(runs, selection, output, force)
        options.note(f"wrote {output}", quiet)
        if not as_json:
            return
    run = runs[0]
    found = reopen(run, selection)
    if output and output.suffix != ".html":
        if not isinstance(found, Result):
            raise UsageError(
                f"{run} has no timer runs, which pictures show; write a page with: xpuprof report "
                f"{run} -o {output.with_suffix('.html')}"
            )
        with replacing(output, force) as new:
            draw(found, new)
        options.note(f"wrote {output}", quiet)
    if as_json:
        options.print_json(
            result.as_json(found) if isinstance(found, Result) else chosen.as_json(found)
        )
    elif not output:
        click.echo(result.as_text(found) if isinstance(found, Result) else chosen.as_text(found))
        for sentence in notes(found) if isinstance(found, Result) else found.doubts:
            options.note(sentence, quiet)
        if isinstance(found, Result):
            options.note(f"next: xpuprof report {run} -o run.html", quiet)


def _refuse_several(
    runs: tuple[Path, ...], selection: Path | None, output: Path | None, as_json: bool
) -> None:
    """Raises UsageError unless one run was named, or a page of several asked for."""
    if len(runs) == 1:
        return
    if output is None or output.suffix != ".html" or as_json:
        raise UsageError(
            "several runs are shown beside each other on a page: add -o runs.html, without --json; "
            "or report them one by one"
        )
    if selection:
        raise UsageError("--selection is for one run; the page shows each run's own selection")


def _write_page(runs: tuple[Path, ...], selection: Path | None, output: Path, force: bool) -> None:
    from xpuprof.formats.output import replacing
    from xpuprof.report.page import write_page
    from xpuprof.selection.selection import Selection
    from xpuprof.workflow.opened import open as open_run
    from xpuprof.workflow.overview import overview

    chosen = Selection.read(selection) if selection else None
    found = [overview(open_run(run), chosen) for run in runs]
    with replacing(output, force) as new:
        write_page(found, new)
