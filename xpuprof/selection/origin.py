# SPDX-License-Identifier: Apache-2.0
"""Whether a selection's slices are those of a run."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from xpuprof.errors import InputError
from xpuprof.selection.selection import Selection
from xpuprof.trace.imported import ImportedSlices
from xpuprof.trace.kinds import Key
from xpuprof.trace.processes import job_of, keys_of_table
from xpuprof.trace.run import Run
from xpuprof.trace.sequence import first_difference, launch_sequence, sequence_slices


def require_origin(selection: Selection, run: Run) -> None:
    """Raises InputError if the run's profile has other launches than those that the selection was
    made from. Of a selection of one of several processes, one process must have them. A run without
    a profile has none to compare with."""
    identity = selection.identity
    chosen = [key.digest for key in identity.processes]
    if identity.sequence and not chosen:
        chosen = [identity.sequence.digest]
    profiled = _profiled(run)
    if profiled is None:
        return
    slices, keys = profiled
    found = [key.digest for key in keys] or [launch_sequence(slices).digest]
    if chosen:
        same = set(chosen) <= set(found) if identity.of else chosen == found
    else:  # of a version that kept no launches
        same = len(slices) == selection.slices
    if not same:
        raise InputError(
            f"the selection is not one of {run.path}: {_difference(selection, slices)}; name the "
            f"run that it was made from, or choose again with: xpuprof select {run.path}"
        )


def _profiled(run: Run) -> tuple[pd.DataFrame, Sequence[Key]] | None:
    """The slices of the run's profile, and its processes if they are known."""
    if ImportedSlices.present(run.path):
        table = ImportedSlices(run.path).table()
        return table, keys_of_table(table)
    if run.profile is None:
        return None
    job = job_of(run.profile)
    return job.slices, job.keys


def _difference(selection: Selection, slices: pd.DataFrame) -> str:
    """How the selection's slices differ from the run's."""
    identity = selection.identity
    chosen = sequence_slices(identity.sequence, identity.processes, "the selection")
    if chosen is None:
        return f"{selection.slices} and {len(slices)} slices"
    return first_difference(chosen, slices)
