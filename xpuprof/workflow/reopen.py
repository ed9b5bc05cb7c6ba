# SPDX-License-Identifier: Apache-2.0
"""Reopens a finished run with its selection."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from xpuprof.errors import InputError
from xpuprof.selection.selection import Selection
from xpuprof.trace.imported import ImportedSlices
from xpuprof.trace.run import Run
from xpuprof.workflow.evaluate import Result, evaluate
from xpuprof.workflow.subjects import open_subject


@dataclass(frozen=True, eq=False)
class Imported:
    """The selection of an imported run, which has no timer runs."""

    selection: Selection
    metric: str
    times: npt.NDArray[np.float64] | None
    """float64[1, slices] of the metric, or None."""


def reopen(path: str | Path, selection: str | Path | None = None) -> Result | Imported:
    """The result of a run directory; `selection`: a file other than its selection.json.

    Raises TraceError, or InputError if there is no selection or nothing to evaluate it by.
    """
    run = Run.open(path)
    imported = ImportedSlices.present(run.path)
    file = run.path / "selection.json" if selection is None else Path(selection)
    if not file.exists():
        raise InputError(f"{file} does not exist; {_first(run, imported, selection is not None)}")
    chosen = Selection.read(file)
    if not imported:
        return evaluate(run, chosen)
    subject = open_subject(run)
    return Imported(chosen, subject.metric, subject.times)


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
