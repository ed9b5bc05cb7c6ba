# SPDX-License-Identifier: Apache-2.0
"""Checks a run directory, the selection in it included."""

from __future__ import annotations

import os
from pathlib import Path

from xpuprof.errors import InputError
from xpuprof.selection.selection import Selection
from xpuprof.trace.check import Report, check_run
from xpuprof.trace.findings import Violation

_SELECTION = "selection"


def check(run: Path) -> Report:
    """Every invariant of the run, and whether its selection can be read. Raises TraceError when the
    run cannot be read at all."""
    report = check_run(run)
    file = run / "selection.json"
    if not os.path.lexists(file):
        return report
    report.invariants = report.invariants | {
        _SELECTION: "the selection is whole and as it was written"
    }
    try:
        Selection.read(file)
    except InputError as error:
        report.violations.append(Violation(_SELECTION, file.name, "", str(error)))
    return report
