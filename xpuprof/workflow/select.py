# SPDX-License-Identifier: Apache-2.0
"""Selects representatives of recorded and imported runs, for `xpuprof select` and `run`."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_args

from xpuprof.arrays import F64
from xpuprof.clustering.choice import at_95
from xpuprof.clustering.executors import open_executor
from xpuprof.clustering.stability import Stability, over_bootstraps, over_seeds
from xpuprof.errors import UsageError
from xpuprof.formats.output import made_folder, refuse_existing
from xpuprof.methods import registry
from xpuprof.methods.clustered import slice_times
from xpuprof.selection import parts
from xpuprof.selection.program import hash_inputs
from xpuprof.selection.selection import Selection
from xpuprof.trace.imported import ImportedSlices
from xpuprof.trace.run import Run
from xpuprof.validation.phases import unseen_phases
from xpuprof.workflow.arguments import LARGEST_SEED, Processes, one_of, runs_once, whole_number
from xpuprof.workflow.chosen import Chosen, with_times
from xpuprof.workflow.several_runs import open_runs
from xpuprof.workflow.subjects import Subject, imported_profile, open_subject


@dataclass(frozen=True)
class Request:
    """How to select; `options` are the method's own."""

    method: str = field(default_factory=registry.default)
    options: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 1
    processes: Processes = "job"


@dataclass(frozen=True)
class Places:
    """Where to select from and write to; several `runs` are one subject, as are runs on workers.
    `output` None: into the run. `timed`: folders of timer runs. `inputs`: input files of the
    program whose hash is stored."""

    runs: tuple[Path, ...]
    output: Path | None = None
    force: bool = False
    workers: int | None = None
    scheduler: str | None = None
    timed: tuple[Path, ...] = ()
    inputs: tuple[Path, ...] = ()

    @property
    def file(self) -> Path:
        """The selection file."""
        return (self.output or self.runs[0]) / "selection.json"

    @property
    def name(self) -> str:
        """The runs, for people."""
        return ", ".join(map(str, self.runs[:3])) + (", ..." if len(self.runs) > 3 else "")

    @property
    def together(self) -> bool:
        """Whether runs are opened by an executor."""
        return len(self.runs) > 1 or bool(self.workers or self.scheduler)


def fitting_method(runs: Sequence[Path]) -> tuple[str, str]:
    """The method for runs when none is named, and why it is not the default."""
    if len(runs) == 1 and ImportedSlices.present(runs[0]):
        return registry.fitting(imported_profile(runs[0]))
    return registry.default(), ""


def select_subject(subject: Subject, request: Request) -> Selection:
    """Apply the method. Raises NeedsError if the subject lacks what the method needs."""
    whole_number("seed", request.seed, 0, LARGEST_SEED)
    one_of("processes", request.processes, get_args(Processes))
    _require_times(subject, request)
    chosen = [
        registry.select(own.slices, request.method, seed=asked.seed, **request.options)
        for own, asked in _every(subject, request)
    ]
    whole = chosen[0] if len(chosen) == 1 else parts.joined(chosen)
    return replace(whole, identity=subject.identity, machine=subject.machine)


def _every(subject: Subject, request: Request) -> list[tuple[Subject, Request]]:
    """What to select from, and how: the whole subject, or each process with a seed of its own."""
    if request.processes != "each":
        return [(subject, request)]
    return [
        (own, replace(request, seed=parts.seed_of(request.seed, number)))
        for number, own in enumerate(subject.by_process())
    ]


def _require_times(subject: Subject, request: Request) -> None:
    """Raises UsageError if the request needs times that one of the runs lacks."""
    vectors = subject.slices.vectors
    if subject.times is not None or not subject.untimed or vectors is None:
        return
    if registry.find(request.method).clusters and vectors.options(request.options).by_times:
        raise UsageError(
            f"{subject.untimed} holds no timer run of its slices, and a target error or a budget "
            "needs one of every run: record them with xpuprof run, or name their folders with "
            "--times"
        )


def select_run(
    run: Run,
    method: str,
    *,
    seed: int,
    processes: Processes = "job",
    measured: F64 | None = None,
    **options: Any,
) -> Selection:
    """Apply `method` to a run, recorded or imported; the method gets its timer runs, or `measured`
    (float64[repeats, slices], seconds)."""
    return select_subject(
        open_subject(run, measured=measured), Request(method, options, seed, processes)
    )


def select_and_write(request: Request, places: Places, *, with_stability: bool = False) -> Chosen:
    """Select from run directories and write selection.json; with one selection per process also
    selection-<process>.json. Raises UsageError if places and request contradict each other."""
    begin = time.perf_counter()
    runs_once(places.runs)
    if places.together:
        _require_one_run(request, places)
        refuse_existing(places.file, places.force)
        with open_executor(places.workers, places.scheduler) as executor:
            paths = [str(path.resolve()) for path in places.runs]
            subject = open_runs(paths, executor, places.timed)
            selection = select_subject(subject, request)
            seconds = time.perf_counter() - begin
            moved = stability(subject, request) if with_stability else ()
        program: tuple[str, ...] = ()
        doubts = list(subject.doubts)
    else:
        run = Run.open(places.runs[0])
        refuse_existing(places.file, places.force)
        subject = open_subject(run, places.timed)
        selection = select_subject(subject, request)
        if places.inputs:
            selection = _identified(selection, inputs=hash_inputs(places.inputs))
        seconds = time.perf_counter() - begin
        moved = stability(subject, request) if with_stability else ()
        program, doubts = tuple(map(str, run.manifest["argv"])), doubts_of(run, subject, selection)
    if places.timed:
        folders = tuple(str(path.absolute()) for path in places.timed)
        selection = _identified(selection, times=folders)
    doubts += [*_other_k(request, selection), *_unmet_bound(selection), *missed_error(selection)]
    result = with_times(
        Chosen(places.name, selection, seconds, None, moved, doubts, program),
        subject.times,
        subject.metric,
        request.options.get(registry.find(request.method).bound),
    )
    folder = made_folder(places.file.parent)
    parts.write(selection, folder, each=request.processes == "each", force=places.force)
    return result


def _identified(selection: Selection, **facts: Any) -> Selection:
    return replace(selection, identity=replace(selection.identity, **facts))


def _require_one_run(request: Request, places: Places) -> None:
    if request.processes == "each":
        raise UsageError("--processes each takes one run; select from each run separately")
    if places.output is None:
        cause = "several runs" if len(places.runs) > 1 else "--workers and --scheduler"
        raise UsageError(f"{cause} need a folder for the selection; name it with -o DIR")
    if places.inputs:
        raise UsageError("--input is for the selection of one run directory")


def doubts_of(run: Run, subject: Subject, selection: Selection) -> list[str]:
    """Reasons to doubt a selection from this run, one sentence each."""
    timer_runs = subject.joined.runs if subject.joined else run.times
    profiled = run.profile.processes if run.profile else []
    return [
        *([f"the run is {run.status}: {run.reason}"] if run.reason else []),
        *subject.doubts,
        *unseen_phases(profiled, timer_runs, selection),
    ]


def _other_k(request: Request, selection: Selection) -> list[str]:
    """Why the number of clusters differs from the one asked for (-k)."""
    wanted, found = request.options.get("k"), selection.k
    if wanted is None or request.processes == "each":
        return []
    if found < wanted and "coverage" not in request.options:
        return [f"-k {wanted} gave {found} clusters: there are no more distinct slices"]
    if found <= wanted:
        return []
    by_times = {"target_error", "budget"} & request.options.keys()
    cause = (
        "some were divided by their times, for --target-error or --budget"
        if by_times
        else "slices with a build, the ends of further programs and extreme times stand apart"
    )
    return [f"-k {wanted} gave {found} clusters: {cause}"]


def missed_error(selection: Selection) -> list[str]:
    """A sentence when the expected error that was asked for would have taken too much time."""
    found, asked = selection.scores.allotment, selection.parameters.get("expected_error")
    if asked is None or found is None or found.number_for_goal is None:
        return []
    assert found.time_for_goal is not None  # both are known
    return [
        f"an expected error of {100 * asked:g} % would take {found.number_for_goal:,} "
        f"representatives, {100 * found.time_for_goal:.1f} % of the time, instead of "
        f"{found.number:,}, {100 * found.time:.1f} %, with {100 * found.expected_error:.1f} %; "
        f"--target-error {at_95(asked):.2g} takes as many as it needs"
    ]


def _unmet_bound(selection: Selection) -> list[str]:
    """A sentence when the method predicts an error above the bound that it was given."""
    asked = selection.parameters.get(registry.find(selection.method).bound)
    stated = selection.design.error_bound
    if asked is None or stated is None or stated <= asked * (1.0 + 1e-9):
        return []
    return [
        f"{selection.method} did not reach its bound of {100 * asked:g} %: it predicts an error "
        f"of {100 * stated:.2f} %; ask for a lower bound (--target-error) to draw more slices"
    ]


def stability(subject: Subject, request: Request) -> tuple[Stability, ...]:
    """How much a clustering selection changes over seeds and bootstrap samples; per process if each
    has its own selection."""
    method = registry.find(request.method)
    if not method.clusters:
        raise UsageError(f"--stability is for clustering methods; {method.name} draws its samples")
    if request.processes != "each" or len(subject.keys) < 2:
        return _stability(subject, request)
    return tuple(
        replace(one, kind=f"{one.kind}, {own.keys[0].label}")
        for own, asked in _every(subject, request)
        for one in _stability(own, asked)
    )


def _stability(subject: Subject, request: Request) -> tuple[Stability, ...]:
    vectors, times = subject.slices.vectors, slice_times(subject.slices)
    assert vectors is not None  # the selection itself needed them
    given = {**request.options, **registry.find(request.method).fixed}
    options = vectors.options(given)
    return (
        over_seeds(lambda seed: vectors.points(seed, given), options, request.seed, times),
        over_bootstraps(vectors.signatures(request.seed, given), options, request.seed, times),
    )
