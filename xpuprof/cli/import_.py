"""xpuprof import"""

from __future__ import annotations

import uuid
from pathlib import Path

import click

from xpuprof.cli import options
from xpuprof.clustering.executors import open_farm
from xpuprof.errors import InputError
from xpuprof.formats.importers.detect import FORMATS
from xpuprof.formats.importers.importing import (
    Imported,
    Refused,
    import_one,
    import_or_refuse,
    names_of,
)
from xpuprof.report.text import seconds

SHOWN = 12
"""Metrics that are named in the text; --json names all."""


@click.command(name="import")
@click.argument(
    "sources", metavar="SOURCE...", type=click.Path(path_type=Path), nargs=-1, required=True
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    metavar="RUN",
    help="Run directory to make; of several sources the folder for theirs.",
)
@click.option("--format", "form", type=click.Choice(FORMATS), help="Instead of finding it out.")
@click.option(
    "--map",
    "columns",
    multiple=True,
    metavar="FIELD=COLUMN",
    help="csv: which column is kernel, time (time=COLUMN:UNIT), gridx, lx, ...",
)
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
    """Make a run directory of a profile that another tool recorded.

    \b
    nsys      Nsight Systems: nsys export --type sqlite REPORT.nsys-rep
    ncu       Nsight Compute: ncu --import R.ncu-rep --csv --page raw
    nvprof    nvprof --csv --print-gpu-trace
    kineto    PyTorch profiler, Chrome trace (.json, .json.gz), CUDA and ROCm
    simpoint  frequency vectors (.bb), with stack distances beside them (.ldv)
    xpupoint  the folder of vectors that the reference implementation writes
    csv       any table (CSV, Parquet) with --map kernel=NAME --map time=DURATION:us

    \b
    xpuprof import report.sqlite -o RUN
    xpuprof import rank*/report.sqlite -o FOLDER --workers 8     one run directory each
    xpuprof compare RUN
    """
    token = uuid.uuid4().hex
    if len(sources) == 1 and not (workers or scheduler):
        _report([import_one(sources[0], output, form, columns, force, token)], [], as_json, quiet)
        return
    names = names_of(sources)
    count = len(sources)
    with open_farm(workers, scheduler) as farm:
        handles = farm.keep(
            import_or_refuse,
            [source.absolute() for source in sources],
            [output.absolute() / name for name in names],
            *([value] * count for value in (form, columns, force, token)),
        )
        done = list(farm.get(handles))
    refused = [each for each in done if isinstance(each, Refused)]
    _report([each for each in done if isinstance(each, Imported)], refused, as_json, quiet)
    if refused:
        others = "; the others were" if len(refused) < count else ""
        raise InputError(f"{len(refused)} of {count} sources were not imported (see above){others}")


def _report(done: list[Imported], refused: list[Refused], as_json: bool, quiet: bool) -> None:
    if as_json:
        runs = [_document(each) for each in done]
        single = len(runs) == 1 and not refused
        failed = [{"source": each.source, "reason": each.reason} for each in refused]
        options.print_json(runs[0] if single else {"runs": runs, "failed": failed})
        return
    for each in done:
        total = "" if each.kernel_time is None else f", {seconds(each.kernel_time)} of kernels"
        click.echo(f"{each.run}: {each.slices} slices from {each.format}{total}")
        more = f" and {len(each.metrics) - SHOWN} more" * (len(each.metrics) > SHOWN)
        click.echo(f"metrics: {', '.join(each.metrics[:SHOWN]) or 'none'}{more}")
    for one in refused:
        click.echo(f"{one.source}: {one.reason}", err=True)
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
