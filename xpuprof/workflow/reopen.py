# SPDX-License-Identifier: Apache-2.0
"""Reopens a finished run with its selection."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from xpuprof.errors import InputError
from xpuprof.selection.origin import require_origin
from xpuprof.selection.selection import Selection
from xpuprof.trace.imported import ImportedSlices
from xpuprof.trace.run import Run
from xpuprof.workflow.chosen import Chosen, with_times
from xpuprof.workflow.evaluate import Result, evaluate
from xpuprof.workflow.next_step import of_program, of_run
from xpuprof.workflow.select import doubts_of
from xpuprof.workflow.subjects import Subject, open_subject, profiled_job, require_slices


def reopen(
    path: str | Path, selection: str | Path | None = None, timed: Sequence[Path] = ()
) -> Result | Chosen:
    """The result of a run directory; of an imported one, or one without timer runs, the selection.
    `selection`: a file other than its selection.json; `timed`: folders of timer runs, by default
    the run's own, or those that the selection was made with.

    Raises TraceError, or InputError if there is no selection, it is another run's, or there is
    nothing to evaluate it by.
    """
    run = Run.open(path)
    file = run.path / "selection.json" if selection is None else Path(selection)
    if not file.exists():
        raise InputError(_no_selection(run, file, selection is not None))
    chosen = Selection.read(file)
    if selection is not None:
        require_origin(chosen, run)
    if run.times and not timed and not ImportedSlices.present(run.path):
        return evaluate(run, chosen)
    subject = timed_subject(run, chosen, timed)
    doubts = doubts_of(run, subject, chosen)
    if subject.times is None and subject.job:
        again = of_program("validate", file, argv=chosen.identity.arguments)
        doubts.append(
            f"{run.path} holds no timer run, so the sampling error is unknown; measure it with: "
            f"{again}"
        )
    return with_times(Chosen(str(run.path), chosen, doubts=doubts), subject.times, subject.metric)


def timed_subject(run: Run, selection: Selection | None, timed: Sequence[Path] = ()) -> Subject:
    """The run with the times of `timed`, its own, or those that `selection` was made with."""
    return open_subject(run, timer_folders(run, selection, timed))


def timer_folders(
    run: Run, selection: Selection | None, timed: Sequence[Path] = ()
) -> Sequence[Path]:
    """`timed`, or the folders that `selection` was made with; none if the run's own times count."""
    recorded = [Path(folder) for folder in selection.identity.times] if selection else []
    if not timed and not run.times and all(folder.exists() for folder in recorded):
        return recorded
    return timed


def _no_selection(run: Run, file: Path, named: bool) -> str:
    """The sentence, with the step that comes before a selection. Raises InputError for a profile
    that none can be chosen from."""
    profiled = run.profile or ImportedSlices.present(run.path)
    if not profiled and not run.times:
        return f"{run.path} holds no result: {run.reason or 'nothing was recorded'}"
    if run.profile:
        require_slices(run, profiled_job(run))
    if named:
        return f"{file} does not exist; name another file, or omit --selection"
    lack = f"{file} does not exist" if profiled else f"{run.path} holds no profile to choose from"
    return f"{lack}; first: {of_run(run)}"
