# SPDX-License-Identifier: Apache-2.0
"""xpuprof report"""

from __future__ import annotations

from pathlib import Path

import click

from xpuprof.cli import options
from xpuprof.errors import UsageError


@click.command(name="report")
@click.argument("run", type=click.Path(path_type=Path))
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
    help="Write a page (.html) or a picture (.png, .svg, .pdf) instead of the table.",
)
@click.option("--force", is_flag=True, help="Replace an existing output file.")
@options.as_json
def command(
    run: Path, selection: Path | None, output: Path | None, force: bool, as_json: bool
) -> int:
    """Show a finished run as a table, JSON, a picture or a page.

    \b
    xpuprof report RUN
    xpuprof report RUN -o run.html
    """
    # Loaded here, so that --help is quick.
    from xpuprof.formats.output import replacing
    from xpuprof.report import chosen, result
    from xpuprof.report.page import write_page
    from xpuprof.report.picture import SUFFIXES, draw
    from xpuprof.workflow.chosen import Chosen, with_times
    from xpuprof.workflow.reopen import Imported, reopen

    found = reopen(run, selection)
    if isinstance(found, Imported):
        if output is not None:
            picture = output.with_suffix(".svg")
            raise UsageError(
                f"{run} was imported, but pictures and pages show recorded runs only; omit -o, or "
                f"plot the methods with: xpuprof compare {run} --plot {picture}"
            )
        shown = Chosen(str(run), found.selection)
        shown = with_times(shown, found.times, found.metric)
        if as_json:
            options.print_json(chosen.as_json(shown))
        else:
            click.echo(chosen.as_text(shown))
    elif output is None:
        if as_json:
            options.print_json(result.as_json(found))
        else:
            click.echo(result.as_text(found))
    elif output.suffix not in (".html", *SUFFIXES):
        raise UsageError(f"{output} has no known suffix; use .html, .png, .svg or .pdf")
    else:
        with replacing(output, force) as new:
            if output.suffix == ".html":
                write_page(found, new)
            else:
                draw(found, new)
    return 0
