"""xpuprof import"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import click

from xpuprof.cli import options
from xpuprof.errors import InputError, UsageError
from xpuprof.formats.detect import FORMATS, detect
from xpuprof.report.text import seconds
from xpuprof.trace.imported import FOLDER, ImportedSlices, ImportWriter
from xpuprof.trace.run import create_run

SHOWN = 12
"""Metrics that are named in the text; --json names all."""


@click.command(name="import")
@click.argument("source", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, metavar="RUN")
@click.option("--format", "form", type=click.Choice(FORMATS), help="Instead of finding it out.")
@click.option(
    "--map",
    "columns",
    multiple=True,
    metavar="FIELD=COLUMN",
    help="csv: which column is kernel, time (time=COLUMN:UNIT), gridx, lx, ...",
)
@options.force
@options.quiet
@options.as_json
def command(
    source: Path,
    output: Path,
    form: str | None,
    columns: tuple[str, ...],
    force: bool,
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
    xpuprof compare RUN
    """
    form = form or detect(source)
    if columns and form != "csv":
        raise UsageError(f"--map is for csv; {source} is read as {form}")
    output.absolute().parent.mkdir(parents=True, exist_ok=True)
    # Imported beside the target first: a source that fails leaves the run that is there alone.
    work = Path(tempfile.mkdtemp(prefix=f".{output.name}-", dir=output.absolute().parent))
    try:
        with ImportWriter(work) as writer:
            _importer(form, columns)(source, writer)
        run = create_run(
            output,
            argv=[],
            force=force,
            extra={"imported": {"source": str(source), "format": form, "slices": writer.rows}},
        )
        shutil.move(work / FOLDER, output / FOLDER)
        run.finish("complete")
    finally:
        shutil.rmtree(work, ignore_errors=True)
    _report(output, form, ImportedSlices(output), as_json, quiet)


def _importer(form: str, columns: tuple[str, ...]) -> Callable[[Path, ImportWriter], None]:
    from importlib import import_module

    if form == "csv":
        from xpuprof.formats import tabular

        chosen = tabular.parse_map(columns)
        return lambda source, writer: tabular.load(source, writer, chosen)
    name = {"simpoint": "frequency"}.get(form, form)
    load: Callable[[Path, ImportWriter], None] = import_module(f"xpuprof.formats.{name}").load
    return load


def _report(output: Path, form: str, slices: ImportedSlices, as_json: bool, quiet: bool) -> None:
    if not slices.rows:
        raise InputError(f"{output} holds no slice")
    metrics = slices.metrics
    if as_json:
        options.print_json(
            {
                "run": str(output),
                "format": form,
                "slices": slices.rows,
                "metrics": metrics,
                "vectors": [side for side in ("gpu", "cpu") if slices.has_vectors(side)],
            }
        )
        return
    total = ""
    if "gpu_time" in metrics:
        total = f", {seconds(float(slices.column('gpu_time').sum()))} of kernels"
    click.echo(f"{output}: {slices.rows} slices from {form}{total}")
    more = f" and {len(metrics) - SHOWN} more" * (len(metrics) > SHOWN)
    click.echo(f"metrics: {', '.join(metrics[:SHOWN]) or 'none'}{more}")
    options.note(f"next: xpuprof compare {output}", quiet)
