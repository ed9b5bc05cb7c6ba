# SPDX-License-Identifier: Apache-2.0
"""xpuprof select"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from xpuprof.cli import method_options, options
from xpuprof.cli.lines import coloured
from xpuprof.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xpuprof.workflow.chosen import Chosen


@click.command(name="select", epilog=method_options.methods_listed())
@click.argument("sources", metavar="RUN...|FILE.bb", type=options.RUN, nargs=-1, required=True)
@click.option(
    "-o",
    "--output",
    type=options.PATH,
    metavar="DIR",
    help="Folder for selection.json [default: RUN].",
)
@click.option("--force", is_flag=True, help="Replace an existing selection.")
@method_options.method
@options.processes
@method_options.method_options
@options.seed
@click.option(
    "--fixed-length",
    "--fixedLength",
    "-fixedLength",
    type=click.Choice(["on", "off"]),
    help="For .bb: off weights slices by their length [on].",
)
@options.workers
@click.option(
    "--input",
    "inputs",
    multiple=True,
    type=options.PATH,
    metavar="PATH",
    help="Store the hash of this input file or folder; validate compares it.",
)
@options.times
@click.option("--stability", is_flag=True, help="Report how other seeds and samples change it.")
@options.full_names
@options.as_json
@options.quiet
def command(sources: tuple[Path, ...], as_json: bool, quiet: bool, **how: Any) -> None:
    """Choose slices that represent a recorded run, and write RUN/selection.json.

    \b
    xpuprof select RUN
    xpuprof select RUN --maxk 30 --per-cluster 1
    xpuprof select RUN --method NAME --set OPTION=VALUE --force
    xpuprof select RUN --target-error 0.02        as many slices as that needs (timed runs)
    xpuprof select RUN --processes each           one selection per process (mpirun, children)
    xpuprof select PROFILE --times TIMES          profile and times in separate folders
    xpuprof select RANK0 RANK1 ... -o JOB         one selection for all (--workers 8)
    xpuprof select app.bb --maxk 20 --dim 128 -o OUT

    For a SimPoint frequency vector file it also writes .simpoints, .weights and .labels to -o.
    """
    _refuse_file_name(how["output"])
    # Selections and reports need numpy; help texts do not.
    from xpuprof.cli.progress import working
    from xpuprof.formats.frequency import is_frequency_file
    from xpuprof.report import chosen as report

    with working("select", quiet):
        if len(sources) == 1 and is_frequency_file(sources[0]):
            result = _from_file(sources[0], **how)
        else:
            result = _from_runs(sources, **how)
    if as_json:
        options.print_json(report.as_json(result))
        return
    click.echo(coloured(report.as_text(result)))
    for sentence in result.doubts:
        options.note(sentence, quiet)
    options.next_step(_next(result, sources, how["output"]), quiet)


def _refuse_file_name(output: Path | None) -> None:
    if output is not None and output.suffix == ".json" and not output.is_dir():
        raise UsageError(
            f"-o names the folder for selection.json, and {output.name} looks like a file; name a "
            "folder"
        )


def _from_file(
    source: Path,
    *,
    flagged: Mapping[str, Any],
    seed: int,
    fixed_length: str | None,
    output: Path | None,
    force: bool,
    **others: Any,
) -> Chosen:
    from xpuprof.workflow.frequency_file import select_frequency_file

    names = {"named": "--set", "timed": "--times", "inputs": "--input"}
    for name in ("method", "named", "workers", "scheduler", "timed", "inputs", "stability"):
        if others[name]:
            option = names.get(name, f"--{name}")
            raise UsageError(f"{option} is for run directories; omit it with a .bb file")
    return select_frequency_file(
        source,
        seed=seed,
        options=flagged,
        fixed_length=fixed_length != "off",
        output=output,
        force=force,
    )


def _from_runs(
    sources: tuple[Path, ...],
    *,
    method: str | None,
    flagged: Mapping[str, Any],
    named: Mapping[str, str],
    seed: int,
    processes: Any,
    fixed_length: str | None,
    stability: bool,
    **places: Any,
) -> Chosen:
    from xpuprof.methods import registry
    from xpuprof.workflow.select import Places, Request, fitting_method, select_and_write

    if fixed_length:
        raise UsageError("--fixed-length is for .bb files; omit it, a run's slices have lengths")
    reason = ""
    if method is None:
        method, reason = fitting_method(sources)
    own = registry.from_command_line(registry.find(method), flagged, named)
    request = Request(method, own, seed, processes)
    result = select_and_write(request, Places(sources, **places), with_stability=stability)
    if reason:
        doubt = (
            f"{reason}, so the method is {method}; --method NAME takes another, and xpuprof "
            "compare shows what each gives"
        )
        result = replace(result, doubts=[doubt, *result.doubts])
    return result


def _next(result: Chosen, sources: tuple[Path, ...], output: Path | None) -> str:
    from xpuprof.workflow.next_step import command as line
    from xpuprof.workflow.next_step import of_program

    if output is None and not sources[0].is_dir():
        again = line("select", sources[0], "-o", "OUT")
        return f"{again} (with the same options; without -o nothing is written)"
    file = (output or sources[0]) / "selection.json"
    if result.program:
        return of_program("validate", file, argv=result.program)
    export = line("export", file, "--format", "NAME", "-o", "OUT")
    return f"{export} ({line('help', 'export')} lists formats)"
