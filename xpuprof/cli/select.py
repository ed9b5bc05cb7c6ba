# SPDX-License-Identifier: Apache-2.0
"""xpuprof select"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from xpuprof.cli import options
from xpuprof.errors import UsageError
from xpuprof.methods import registry

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xpuprof.selection.selection import Selection
    from xpuprof.workflow.chosen import Chosen


@click.command(name="select", epilog=options.methods_listed())
@click.argument(
    "sources", metavar="RUN...|FILE.bb", type=click.Path(path_type=Path), nargs=-1, required=True
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder for selection.json [default: RUN].",
)
@click.option("--force", is_flag=True, help="Replace an existing selection.")
@options.method
@options.processes
@options.method_options
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
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="Store the hash of this input file or folder; validate compares it.",
)
@click.option(
    "--times",
    "timed",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="TIMERUN",
    help="Folder of `xpuprof time`, if not RUN; one per rank.",
)
@click.option("--stability", is_flag=True, help="Report how other seeds and samples change it.")
@options.as_json
@options.quiet
def command(
    sources: tuple[Path, ...],
    method: str,
    flagged: Mapping[str, Any],
    named: dict[str, str],
    seed: int,
    fixed_length: str | None,
    output: Path | None,
    force: bool,
    as_json: bool,
    quiet: bool,
    **others: Any,
) -> None:
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
    # Selections and reports need numpy; help texts do not.
    from xpuprof.formats.frequency import is_frequency_file
    from xpuprof.report import chosen as report
    from xpuprof.workflow.frequency_file import select_frequency_file
    from xpuprof.workflow.select import Places, Request, select_and_write

    stability, processes = others.pop("stability"), others.pop("processes")
    from_file = len(sources) == 1 and is_frequency_file(sources[0])
    if from_file:
        _refuse_for_a_file(named, others)
        result = select_frequency_file(
            sources[0],
            seed=seed,
            options=flagged,
            fixed_length=fixed_length != "off",
            output=output,
            force=force,
        )
    else:
        if fixed_length:
            raise UsageError("--fixed-length is for .bb files: a run's slices have known lengths")
        own = registry.from_command_line(registry.find(method), flagged, named)
        places = Places(sources, output, force, **others)
        request = Request(method, own, seed, processes)
        result = select_and_write(request, places, with_stability=stability)

    if as_json:
        options.print_json(report.as_json(result))
        return
    click.echo(report.as_text(result))
    other_k = [] if processes == "each" else _other_k(flagged, result.selection)
    for sentence in [*result.doubts, *other_k]:
        options.note(sentence, quiet)
    if len(sources) == 1 and not from_file:
        options.note(f"next: xpuprof {_next(result, sources[0], output)}", quiet)


def _refuse_for_a_file(named: dict[str, str], given: Mapping[str, Any]) -> None:
    if given["timed"]:
        raise UsageError("--times is for run directories; a .bb file has no launches to time")
    if given["inputs"]:
        raise UsageError("--input is for the selection of one run directory")
    if named or given["workers"] or given["scheduler"]:
        raise UsageError("--set, --workers and --scheduler are for run directories, not .bb files")


def _next(result: Chosen, source: Path, output: Path | None) -> str:
    if not result.program:  # an import has no program to run here
        return f"compare {source}"
    return f"validate {output or source}/selection.json -- {shlex.join(result.program)}"


def _other_k(flagged: Mapping[str, Any], selection: Selection) -> list[str]:
    """Why the number of clusters differs from -k."""
    wanted, found = flagged.get("k"), selection.k
    if wanted is None:
        return []
    if found < wanted and "coverage" not in flagged:
        return [f"-k {wanted} gave {found} clusters: there are no more distinct slices"]
    if found > wanted:
        return [
            f"-k {wanted} gave {found} clusters: some were divided by their times, for "
            "--target-error or --budget"
        ]
    return []
