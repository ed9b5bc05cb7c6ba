# SPDX-License-Identifier: Apache-2.0
"""xpuprof import"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from xpuprof.cli import options
from xpuprof.cli.format_option import FormatCommand, FormatName
from xpuprof.errors import InputError
from xpuprof.formats.registry import all_importers

if TYPE_CHECKING:
    from xpuprof.workflow.imports import Imported

SHOWN = 12
"""Metrics named in the text; --json names all."""


@click.command(name="import", cls=FormatCommand)
@click.argument(
    "sources", metavar="SOURCE...", type=click.Path(path_type=Path), nargs=-1, required=True
)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), required=True, metavar="RUN",
    help="Run directory to write; for several sources, the folder for their run directories.",
)  # fmt: skip
@click.option(
    "--format", "form", type=FormatName(all_importers), metavar="FORMAT",
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
    sources: tuple[Path, ...],
    output: Path,
    form: str | None,
    columns: tuple[str, ...],
    force: bool,
    workers: int | None,
    scheduler: str | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Convert a profile that another tool recorded into a run directory.

    \b
    xpuprof import report.sqlite -o RUN
    xpuprof import rank*/report.sqlite -o FOLDER --workers 8     one run directory per source
    xpuprof compare RUN
    """
    # Loads pandas, which --help does not need.
    from xpuprof.workflow.imports import Imported, Refused, import_, import_all

    if len(sources) == 1 and not (workers or scheduler):
        done = import_(sources[0], output, format=form, columns=columns, force=force)
        if as_json:
            options.print_json(_document(done))
        else:
            _print([done], quiet)
        return
    results = import_all(
        sources,
        output,
        format=form,
        columns=columns,
        force=force,
        workers=workers,
        scheduler=scheduler,
    )
    made = [each for each in results if isinstance(each, Imported)]
    refused = [each for each in results if isinstance(each, Refused)]
    if as_json:
        failed = [{"source": each.source, "reason": each.reason} for each in refused]
        runs = [_document(each) for each in made]
        single = len(runs) == 1 and not failed
        options.print_json(runs[0] if single else {"runs": runs, "failed": failed})
    else:
        _print(made, quiet)
        for one in refused:
            click.echo(f"{one.source}: {one.reason}", err=True)
    if refused:
        others = "; the others were" if made else ""
        raise InputError(
            f"{len(refused)} of {len(sources)} sources were not imported (see above){others}"
        )


def _print(done: list[Imported], quiet: bool) -> None:
    from xpuprof.report.text import seconds  # loads numpy

    for each in done:
        total = "" if each.kernel_time is None else f", {seconds(each.kernel_time)} of kernels"
        click.echo(f"{each.run}: {each.slices} slices from {each.format}{total}")
        more = f" and {len(each.metrics) - SHOWN} more" * (len(each.metrics) > SHOWN)
        click.echo(f"metrics: {', '.join(each.metrics[:SHOWN]) or 'none'}{more}")
    if done:
        options.note(f"next: xpuprof compare {' '.join(each.run for each in done[:3])}", quiet)


def _document(each: Imported) -> dict[str, object]:
    return {
        "run": each.run,
        "format": each.format,
        "slices": each.slices,
        "metrics": each.metrics,
        "vectors": each.vectors,
    }
