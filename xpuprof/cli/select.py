"""xpuprof select"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from xpuprof.cli import options
from xpuprof.errors import UsageError
from xpuprof.formats.simpoint import (
    INTERVAL,
    is_frequency_file,
    read_frequency_file,
    write_simpoints,
)
from xpuprof.report import chosen as report
from xpuprof.sampling import frequency, parts
from xpuprof.sampling.file import write_selection
from xpuprof.timing.intervals import estimate

if TYPE_CHECKING:
    from xpuprof.timing.choose import Processes

PLAN = ("dim", "warp_buckets", "cpu_weight", "memory_weight")
"""Options that say how several runs are projected."""


@click.command(name="select")
@click.argument(
    "sources", metavar="RUN...|FILE.bb", type=click.Path(path_type=Path), nargs=-1, required=True
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Where selection.json goes [default: RUN].",
)
@click.option("--force", is_flag=True, help="Replace an existing selection.")
@click.option("--method", default="xpu-point", show_default=True, help="How slices are chosen.")
@options.processes
@click.option("--maxk", "--maxK", "-maxK", type=int, help="Most clusters to try [default: 20].")
@click.option("-k", type=int, help="This many clusters, instead of by the BIC rule.")
@click.option(
    "--dim", "-dim", type=int, help="Dimensions to project to [default: 64 a part; .bb: 15]."
)
@options.seed
@click.option("--per-cluster", metavar="N|auto", help="Representatives a cluster [auto; .bb: 1].")
@click.option(
    "--coverage", "--coveragePct", "-coveragePct", type=float, help="Share of the run to stand for."
)
@click.option("--early", type=float, help="Prefer early slices, this much farther off (0: ties).")
@click.option("--warp-buckets", type=int, help="Cells of the warp axis [default: 32].")
@click.option("--cpu-weight", type=float, help="Weight of the CPU part, 0 to 1 [default: 0.5].")
@options.memory_weight
@click.option("--target-error", type=float, help="Error to stay below, e.g. 0.02; needs times.")
@click.option("--budget", type=float, metavar="SECONDS", help="Representatives' time; needs times.")
@click.option(
    "--bic-threshold", "--bicThreshold", "-bicThreshold", type=float, help="Of the BIC rule [0.9]."
)
@click.option(
    "--restarts", "--numInitSeeds", "-numInitSeeds", type=int, help="Clusterings a k [by size]."
)
@click.option(
    "--fixed-length",
    "--fixedLength",
    "-fixedLength",
    type=click.Choice(["on", "off"]),
    help=".bb: off, when slices are to count by their length [on].",
)
@click.option(
    "--ends/--no-ends", default=None, help="First and last slice stand for themselves [ends]."
)
@options.workers
@click.option(
    "--input",
    "inputs",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="Remember this input file or folder by its hash; validate then compares it.",
)
@click.option("--stability", is_flag=True, help="Say how far other seeds and samples move it.")
@options.as_json
@options.quiet
def command(
    sources: tuple[Path, ...],
    output: Path | None,
    force: bool,
    method: str,
    processes: Processes,
    seed: int,
    workers: int | None,
    scheduler: str | None,
    inputs: tuple[Path, ...],
    stability: bool,
    as_json: bool,
    quiet: bool,
    **chosen: Any,
) -> None:
    """Choose the slices that stand for a recorded run, and write RUN/selection.json.

    \b
    xpuprof select RUN
    xpuprof select RUN --method gpu-point --maxk 30 --per-cluster 1 --force
    xpuprof select RUN --target-error 0.02        as many as that needs (timed runs)
    xpuprof select RUN --processes each           one for each process (mpirun, children)
    xpuprof select RANK0 RANK1 ... -o JOB          one selection for all (--workers 8)
    xpuprof select app.bb --maxk 20 --dim 128 -o OUT

    From a SimPoint frequency vector file it also writes .simpoints, .weights and .labels into -o.
    """
    begin = time.perf_counter()
    settings = {name: value for name, value in chosen.items() if value is not None}
    if "per_cluster" in settings:
        settings["per_cluster"] = _per_cluster(settings["per_cluster"])
    if "fixed_length" in settings:
        if not is_frequency_file(sources[0]):
            raise UsageError("--fixed-length is for .bb files: a run's slices have their lengths")
        settings["fixed_length"] = settings["fixed_length"] == "on"
    source = sources[0]
    if inputs and (len(sources) > 1 or is_frequency_file(source)):
        raise UsageError("--input is for the selection of one run directory")
    if len(sources) > 1 or workers or scheduler:
        result = _from_runs(
            sources, output, force, method, processes, seed, settings, workers, scheduler
        )
    elif is_frequency_file(source):
        result = _from_frequency_file(source, output, force, seed, settings, begin)
    else:
        result = _from_run(
            source, output, force, method, processes, seed, settings, inputs, stability, begin
        )
    if as_json:
        options.print_json(report.as_json(result))
        return
    click.echo(report.as_text(result))
    if len(sources) == 1 and not is_frequency_file(source):
        options.note(f"next: xpuprof validate {output or source}/selection.json -- ./app", quiet)


def _from_frequency_file(
    source: Path,
    output: Path | None,
    force: bool,
    seed: int,
    settings: dict[str, Any],
    begin: float,
) -> report.Chosen:
    """Selects from the file, and writes SimPoint's files and selection.json into `output`."""
    vectors = read_frequency_file(source)
    selection, distance = frequency.select(
        vectors.row_start, vectors.dimension, vectors.value, seed=seed, marker=INTERVAL, **settings
    )
    result = report.Chosen(str(source), selection, time.perf_counter() - begin)
    if output is not None:
        folder = _folder(output)
        stem = source.name.removesuffix(".gz").removesuffix(".bb")
        write_selection(selection, folder / "selection.json", force)
        write_simpoints(selection, folder / stem, distance, force)
    return result


def _from_run(
    source: Path,
    output: Path | None,
    force: bool,
    method: str,
    processes: Processes,
    seed: int,
    settings: dict[str, Any],
    inputs: tuple[Path, ...],
    stability: bool,
    begin: float,
) -> report.Chosen:
    """Selects from a run directory, and writes selection.json into it (or `output`); of each of
    several processes also selection-<process>.json."""
    # Tables need pandas, which a frequency file can do without.
    from xpuprof.sampling.identity import hash_inputs
    from xpuprof.timing.choose import run_stability, run_times, select_run
    from xpuprof.trace.run import Run

    run = Run.open(source)
    selection = select_run(run, method, seed=seed, processes=processes, **settings)
    if inputs:
        identity = {**selection.identity, "inputs": hash_inputs(inputs)}
        selection = replace(selection, identity=identity)
    elapsed = time.perf_counter() - begin
    times = run_times(run, selection.slices)
    result = report.Chosen(
        str(source),
        selection,
        elapsed,
        estimate=None if times is None else estimate(selection, times),
        stability=run_stability(run, method, seed=seed, **settings) if stability else (),
    )
    folder = _folder(output or source)
    write_selection(selection, folder / "selection.json", force)
    if processes == "each":
        for number, process in enumerate(selection.identity.get("processes", [])):
            own = parts.part(selection, number)
            write_selection(own, folder / f"selection-{process['label']}.json", force)
    return result


def _from_runs(
    sources: tuple[Path, ...],
    output: Path | None,
    force: bool,
    method: str,
    processes: Processes,
    seed: int,
    settings: dict[str, Any],
    workers: int | None,
    scheduler: str | None,
) -> report.Chosen:
    """Selects from several runs together, and writes `output`/selection.json."""
    from xpuprof.sampling import job
    from xpuprof.sampling.cluster_method import with_options
    from xpuprof.sampling.farm import open_farm
    from xpuprof.timing.choose import select_runs

    begin = time.perf_counter()
    if processes == "each":
        raise UsageError("--processes each is of one run; select from each of the runs by itself")
    if output is None:
        raise UsageError("several runs need a folder for their selection: -o DIR")
    if method not in ("xpu-point", "gpu-point"):
        raise UsageError(f"{method} selects from one run; for several take xpu-point or gpu-point")
    own = {name: settings.pop(name) for name in PLAN if name in settings}
    if method == "gpu-point":
        own["cpu_weight"] = 0.0
    with open_farm(workers, scheduler) as farm:
        selection = select_runs(
            [str(source.resolve()) for source in sources],
            job.Plan(seed=seed, **own),
            with_options(**settings),
            farm,
            method,
        )
    names = ", ".join(map(str, sources[:3])) + (", ..." if len(sources) > 3 else "")
    write_selection(selection, _folder(output) / "selection.json", force)
    return report.Chosen(names, selection, time.perf_counter() - begin)


def _folder(path: Path) -> Path:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot make the folder {path}: {error.strerror}") from error
    return path


def _per_cluster(text: str) -> int | None:
    if text == "auto":
        return None
    if not text.isdigit():
        raise UsageError(f"--per-cluster takes a number or auto, not {text!r}")
    return int(text)
