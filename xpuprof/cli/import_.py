# SPDX-License-Identifier: Apache-2.0
"""xpuprof import"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from xpuprof.cli import options
from xpuprof.cli.names import FormatCommand, FormatName
from xpuprof.errors import InputError
from xpuprof.formats.registry import all_importers

if TYPE_CHECKING:
    from xpuprof.workflow.imports import Refused


@click.command(name="import", cls=FormatCommand)
@click.argument("sources", metavar="SOURCE...", type=options.PATH, nargs=-1, required=True)
@click.option(
    "-o", "--output", type=options.PATH, required=True, metavar="RUN",
    help="Run directory to write; for several sources, the folder for their run directories.",
)  # fmt: skip
@click.option(
    "--format", "format", type=FormatName(all_importers), metavar="FORMAT",
    help="One of the formats below [default: detected from the file].",
)  # fmt: skip
@click.option(
    "--map", "columns", multiple=True, metavar="FIELD=COLUMN",
    help="For csv: the column that holds kernel, time (time=COLUMN:UNIT), gridx, lx, ...",
)  # fmt: skip
@options.force
@options.workers
@options.quiet
@options.as_json
def command(
    sources: tuple[Path, ...], output: Path, quiet: bool, as_json: bool, **how: Any
) -> None:
    """Convert a profile that another tool recorded into a run directory.

    \b
    xpuprof import report.sqlite -o RUN
    xpuprof import rank*/report.sqlite -o FOLDER --workers 8     one run directory per source
    xpuprof import times.csv -o RUN --map kernel=op --map time=took:us
    xpuprof select RUN
    """
    # Loads pandas, which --help does not need.
    from xpuprof.cli.progress import working
    from xpuprof.report import imported as report
    from xpuprof.workflow.imports import Imported, Refused, import_, import_all
    from xpuprof.workflow.next_step import command as line

    several = len(sources) > 1 or how["workers"] or how["scheduler"]
    with working("import", quiet):
        if several:
            results = import_all(sources, output, **how)
        else:
            del how["workers"], how["scheduler"]
            results = [import_(sources[0], output, **how)]
    made = [each for each in results if isinstance(each, Imported)]
    refused = [each for each in results if isinstance(each, Refused)]
    if as_json:
        options.print_json(report.as_json(results))
    elif made:
        click.echo(report.as_text(made))
        options.next_step(line("select", made[0].run), quiet)
    if refused:
        if not as_json:
            click.echo("\n".join(_sentence(one) for one in refused), err=True)
        others = "; the others were" if made else ""
        raise InputError(
            f"{len(refused)} of {len(sources)} sources were not imported (see above){others}"
        )


def _sentence(refused: Refused) -> str:
    """Most reasons begin with the source."""
    named = refused.reason.startswith(refused.source)
    return refused.reason if named else f"{refused.source}: {refused.reason}"
