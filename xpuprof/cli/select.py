"""xpuprof select"""

from __future__ import annotations

import shlex
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from xpuprof.cli import options
from xpuprof.errors import UsageError
from xpuprof.formats.exporters.simpoint import write_simpoints
from xpuprof.formats.frequency import (
    INTERVAL,
    is_frequency_file,
    read_frequency_file,
)
from xpuprof.methods import simpoint
from xpuprof.methods.registry import find, from_command_line
from xpuprof.report import chosen as report
from xpuprof.selection import parts
from xpuprof.selection.file import write_selection
from xpuprof.workflow.chosen import Chosen, with_times

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    import numpy.typing as npt

    from xpuprof.selection.selection import Selection
    from xpuprof.trace.joined_times import Joined
    from xpuprof.trace.processes import Key
    from xpuprof.trace.run import Run
    from xpuprof.workflow.select import Processes

    F64 = npt.NDArray[np.float64]

PLAN = ("dim", "warp_buckets", "cpu_weight", "memory_weight")
"""Options that say how several runs are projected."""


@click.command(name="select", epilog=options.methods_listed())
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
@options.method
@options.processes
@options.method_options
@options.seed
@click.option(
    "--fixed-length",
    "--fixedLength",
    "-fixedLength",
    type=click.Choice(["on", "off"]),
    help=".bb: off, when slices are to count by their length [on].",
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
@click.option(
    "--times",
    "timed",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="TIMERUN",
    help="Folder of `xpuprof time`, where it is another one than RUN; of each rank one.",
)
@click.option("--stability", is_flag=True, help="Say how far other seeds and samples move it.")
@options.as_json
@options.quiet
def command(as_json: bool, quiet: bool, **given: Any) -> None:
    """Choose the slices that stand for a recorded run, and write RUN/selection.json.

    \b
    xpuprof select RUN
    xpuprof select RUN --method NAME --set OPTION=VALUE --force
    xpuprof select RUN --maxk 30 --per-cluster 1
    xpuprof select RUN --target-error 0.02        as many as that needs (timed runs)
    xpuprof select RUN --processes each           one for each process (mpirun, children)
    xpuprof select PROFILE --times TIMES           profile and time in folders of their own
    xpuprof select RANK0 RANK1 ... -o JOB          one selection for all (--workers 8)
    xpuprof select app.bb --maxk 20 --dim 128 -o OUT

    From a SimPoint frequency vector file it also writes .simpoints, .weights and .labels into -o.
    """
    asked = _asked(given)
    if len(asked.sources) > 1 or asked.workers or asked.scheduler:
        result = _from_runs(asked)
    elif is_frequency_file(asked.source):
        result = _from_frequency_file(asked)
    else:
        result = _from_run(asked)
    if as_json:
        options.print_json(report.as_json(result))
        return
    click.echo(report.as_text(result))
    for sentence in [*result.doubts, *_other_k(asked, result.selection)]:
        options.note(sentence, quiet)
    if len(asked.sources) == 1 and not is_frequency_file(asked.source):
        folder = asked.output or asked.source
        if result.program:
            ahead = f"validate {folder}/selection.json -- {shlex.join(result.program)}"
        else:  # an import has no program that could run here
            ahead = f"compare {asked.source}"
        options.note(f"next: xpuprof {ahead}", quiet)


@dataclass(frozen=True)
class _Asked:
    """What the user asked for. `flagged` and `named` are options of the method, as far as they were
    given; seconds count from `begin`, a time of `time.perf_counter`."""

    sources: tuple[Path, ...]
    output: Path | None
    force: bool
    method: str
    processes: Processes
    seed: int
    workers: int | None
    scheduler: str | None
    inputs: tuple[Path, ...]
    timed: tuple[Path, ...]
    stability: bool
    fixed_length: str | None
    flagged: dict[str, Any]
    named: dict[str, str]
    begin: float

    @property
    def source(self) -> Path:
        """The first of the sources, which is the only one but for `_from_runs`."""
        return self.sources[0]

    def chosen(self, selection: Selection, **told: Any) -> Chosen:
        """The answer, with the time that it took until now."""
        names = ", ".join(map(str, self.sources[:3])) + (", ..." if len(self.sources) > 3 else "")
        return Chosen(names, selection, time.perf_counter() - self.begin, **told)


def _asked(given: dict[str, Any]) -> _Asked:
    """The options. Raises UsageError where they contradict the sources."""
    asked = _Asked(**given, begin=time.perf_counter())
    if asked.fixed_length and not is_frequency_file(asked.source):
        raise UsageError("--fixed-length is for .bb files: a run's slices have their lengths")
    if asked.timed and is_frequency_file(asked.source):
        raise UsageError("--times is for run directories; a .bb file has no launches to time")
    if asked.inputs and (len(asked.sources) > 1 or is_frequency_file(asked.source)):
        raise UsageError("--input is for the selection of one run directory")
    return asked


def _from_frequency_file(asked: _Asked) -> Chosen:
    """Selects from the file, and writes SimPoint's files and selection.json into the output."""
    vectors = read_frequency_file(asked.source)
    selection, distance = simpoint.select(
        vectors.row_start,
        vectors.dimension,
        vectors.value,
        seed=asked.seed,
        marker=INTERVAL,
        fixed_length=asked.fixed_length != "off",
        **asked.flagged,
    )
    result = asked.chosen(selection)
    if asked.output is not None:
        folder = _folder(asked.output)
        stem = asked.source.name.removesuffix(".gz").removesuffix(".bb")
        write_selection(selection, folder / "selection.json", asked.force)
        write_simpoints(selection, folder / stem, distance, asked.force)
    return result


def _from_run(asked: _Asked) -> Chosen:
    """Selects from a run directory, and writes selection.json into it (or the output); of each of
    several processes also selection-<process>.json."""
    # Tables need pandas, which a frequency file can do without.
    from xpuprof.selection.identity import hash_inputs
    from xpuprof.trace.imported import ImportedSlices
    from xpuprof.trace.run import Run
    from xpuprof.validation.phases import unseen_phases
    from xpuprof.workflow.select import run_stability, run_times, select_run
    from xpuprof.workflow.subjects import imported_times

    run = Run.open(asked.source)
    method, seed = asked.method, asked.seed
    settings = from_command_line(find(method), asked.flagged, asked.named)
    joined = _joined(run, asked.timed)
    selection = select_run(
        run,
        method,
        seed=seed,
        processes=asked.processes,
        measured=joined.times if joined else None,
        **settings,
    )
    if asked.inputs:
        identity = {**selection.identity, "inputs": hash_inputs(asked.inputs)}
        selection = replace(selection, identity=identity)
    result = asked.chosen(selection)
    metric, times = "time", joined.times if joined else run_times(run, selection.slices)
    if ImportedSlices.present(run.path):
        metric, times = imported_times(run.path)
    profiled = run.profile.processes if run.profile else []
    phases = unseen_phases(profiled, joined.runs if joined else run.times, selection)
    result = replace(
        result,
        doubts=[
            *([f"the run is {run.status}: {run.reason}"] if run.reason else []),
            *(joined.doubts if joined else ()),
            *phases,
        ],
        program=run.manifest["argv"],
        stability=run_stability(
            run, method, seed=seed, times=times, processes=asked.processes, **settings
        )
        if asked.stability
        else (),
    )
    result = with_times(result, times, metric, asked.flagged.get("target_error"))
    folder = _folder(asked.output or asked.source)
    write_selection(selection, folder / "selection.json", asked.force)
    if asked.processes == "each":
        parts.write_parts(selection, folder, asked.force)
    return result


def _from_runs(asked: _Asked) -> Chosen:
    """Selects from several runs together, and writes selection.json into the output."""
    from xpuprof.clustering.cluster import with_options
    from xpuprof.clustering.executors import open_farm
    from xpuprof.methods import job
    from xpuprof.trace.run import Run
    from xpuprof.workflow.select import keys_of_runs, runs_stability, select_runs, times_of_runs

    method = asked.method
    if asked.processes == "each":
        raise UsageError("--processes each is of one run; select from each of the runs by itself")
    if asked.output is None:
        raise UsageError("several runs need a folder for their selection: -o DIR")
    if not find(method).clusters:
        raise UsageError(f"{method} selects from one run; for several take a method that clusters")
    given = from_command_line(find(method), asked.flagged, asked.named)
    plan = {name: value for name, value in given.items() if name in PLAN}
    others = {name: value for name, value in given.items() if name not in PLAN}
    if method == "gpu-point":
        plan["cpu_weight"] = 0.0
    settings = with_options(**others)
    paths = [str(source.resolve()) for source in asked.sources]
    with open_farm(asked.workers, asked.scheduler) as farm:
        joined = _joined(Run.open(paths[0]), asked.timed, lambda: keys_of_runs(paths, farm))
        times = joined.times if joined else times_of_runs(paths, farm, needed=settings.wishes)
        plan_of = job.Plan(seed=asked.seed, **plan)
        selection = select_runs(paths, plan_of, settings, farm, method, times)
    write_selection(selection, _folder(asked.output) / "selection.json", asked.force)
    moved = (
        runs_stability(paths, method, seed=asked.seed, times=times, **asked.flagged)
        if asked.stability
        else ()
    )
    result = asked.chosen(selection, doubts=joined.doubts if joined else (), stability=moved)
    return with_times(result, times, target=settings.target_error)


def _joined(
    run: Run, timed: Sequence[Path], keys: Callable[[], tuple[Key, ...]] | None = None
) -> Joined | None:
    """Times from folders of their own, for the slices of one run, or for those of several whose
    processes are `keys`; None without such folders."""
    if not timed:
        return None
    from xpuprof.trace.joined_times import join, profiled
    from xpuprof.workflow.select import profiled_job

    wanted = profiled(run, profiled_job(run))
    if keys is not None:  # of several runs each may have arguments of its own
        wanted = replace(wanted, keys=keys(), arguments=())
    return join(wanted, timed)


def _other_k(asked: _Asked, selection: Selection) -> list[str]:
    """That there are not as many clusters as were asked for, and why."""
    wanted, found = asked.flagged.get("k"), selection.k
    if wanted is None or asked.processes == "each":
        return []
    if found < wanted and "coverage" not in asked.flagged:
        return [f"-k {wanted} gave {found} clusters: no more of the slices differ"]
    if found > wanted:
        return [
            f"-k {wanted} gave {found} clusters: some were divided by their times, for "
            "--target-error or --budget"
        ]
    return []


def _folder(path: Path) -> Path:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot make the folder {path}: {error.strerror}") from error
    return path
