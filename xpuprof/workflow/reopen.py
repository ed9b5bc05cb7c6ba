# SPDX-License-Identifier: Apache-2.0
"""Reopens a finished run with its selection."""

from __future__ import annotations

import shlex
from pathlib import Path

from xpuprof.errors import InputError
from xpuprof.selection.selection import Selection
from xpuprof.trace.imported import ImportedSlices
from xpuprof.trace.run import Run
from xpuprof.workflow.chosen import Chosen, with_times
from xpuprof.workflow.evaluate import Result, evaluate
from xpuprof.workflow.subjects import open_subject


def reopen(path: str | Path, selection: str | Path | None = None) -> Result | Chosen:
    """The result of a run directory; of an imported one, or one without timer runs, the selection.
    `selection`: a file other than its selection.json.

    Raises TraceError, or InputError if there is no selection or nothing to evaluate it by.
    """
    run = Run.open(path)
    imported = ImportedSlices.present(run.path)
    file = run.path / "selection.json" if selection is None else Path(selection)
    if not file.exists():
        raise InputError(f"{file} does not exist; {_first(run, imported, selection is not None)}")
    chosen = Selection.read(file)
    if run.times and not imported:
        return evaluate(run, chosen)
    subject = open_subject(run)
    doubts = (
        []
        if imported
        else [
            f"{run.path} holds no timer run, so the sampling error is unknown; measure it with: "
            f"xpuprof validate {file}"
        ]
    )
    return with_times(Chosen(str(run.path), chosen, doubts=doubts), subject.times, subject.metric)


def _first(run: Run, imported: bool, named: bool) -> str:
    """The step that is missing before there is a selection."""
    if run.profile is None and not imported:
        program = shlex.join(run.manifest["argv"]) or "./app args"
        return (
            f"{run.path} holds no profile to choose slices from: xpuprof profile -o P -- "
            f"{program}, then xpuprof select P --times {run.path}"
        )
    if named:
        return f"name another file, or omit --selection after: xpuprof select {run.path}"
    return f"choose slices first with: xpuprof select {run.path}"
