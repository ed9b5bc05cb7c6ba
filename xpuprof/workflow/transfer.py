# SPDX-License-Identifier: Apache-2.0
"""Tests one selection on the runs of several machines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from xpuprof.selection.selection import Selection
from xpuprof.stages import counted
from xpuprof.validation.timed import open_timed
from xpuprof.validation.transfer import Row, hold_against


def transfer(
    selection: Selection,
    runs: Sequence[str | Path],
    *,
    metric: str | None = None,
    allow_missing: bool = False,
) -> list[Row]:
    """Compares `selection` with the timer runs in each run directory, the first being that of the
    machine of origin. `metric`: for imports [the selection's metric]. Errors as in `open_timed` and
    `validate`."""
    metric = metric or selection.metric
    timed = [open_timed(run, metric) for run in counted("run", runs)]
    return hold_against(selection, timed, allow_missing=allow_missing)
