# SPDX-License-Identifier: Apache-2.0
"""Validate a selection against a run's measured times, on the machine of origin or any other."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from xpuprof.errors import InputError, MissingRegionError
from xpuprof.estimation.estimate import Estimate
from xpuprof.estimation.intervals import estimate
from xpuprof.estimation.measured import Measured
from xpuprof.estimation.projection import Accuracy, accuracy
from xpuprof.estimation.shares import Share, shares_of
from xpuprof.selection.identity import Program
from xpuprof.selection.program import hash_inputs
from xpuprof.selection.selection import Representative, Selection
from xpuprof.trace.elf import build_id
from xpuprof.trace.processes import named
from xpuprof.validation.rebase import Transplant, describe, transplant, unmatched
from xpuprof.validation.timed import Timed, arranged, require_same_part


@dataclass(frozen=True, eq=False)
class Validation:
    """Times in seconds, shares and errors as fractions.

    `unknown_time` is the share of the measured time in slices of kernels missing from the
    selection. `unknown_effect` is the projection error that they and lost clusters would cause if
    every other slice were projected without error.
    """

    transplant: Transplant
    measured: float
    projected: Estimate
    times: Mapping[int, float]
    """Typical time of each representative, by its slice in the run at hand."""
    differences: tuple[str, ...]
    unknown_time: float
    unknown_effect: float
    accuracy: Accuracy
    shares: tuple[Share, ...] = ()
    """Each process's share, if there are several."""
    labels: Mapping[int, str] = field(default_factory=dict)
    """Name of each process number, if there are several."""
    runs: int = 1
    """Timer runs that the times come from."""
    doubts: tuple[str, ...] = ()
    """Reasons to doubt the times, one sentence each."""

    @property
    def selection(self) -> Selection:
        """The selection, moved to the run at hand."""
        return self.transplant.selection

    @property
    def error(self) -> float:
        """|1 - P_proj / P_real| (XPU-Point, section VI)."""
        return self.accuracy.error

    @property
    def same(self) -> bool:
        """Whether nothing has changed since the selection was made."""
        return self.transplant.same and not self.differences

    @property
    def time_speedup(self) -> float:
        """Measured time over the representatives' time."""
        chosen = sum(self.times.values())
        return self.measured / chosen if chosen else math.inf


def validate(
    selection: Selection,
    timed: Timed,
    *,
    allow_missing: bool = False,
    differences: Sequence[str] = (),
) -> Validation:
    """Validate `selection` against `timed`.

    `differences`: those that the caller found before the run (images). Raises MissingRegionError
    when a representative never occurred, unless `allow_missing`, which re-weights the others;
    InputError when the run is another program's.
    """
    require_same_part(selection, timed.window, timed.name)
    timed = arranged(timed, selection)
    moved = transplant(selection, timed.slices, timed.name)
    if moved.missing and not allow_missing:
        raise MissingRegionError(_missing_sentence(moved.missing, selection, timed))
    mean = timed.mean
    measured = float(mean.sum())
    if not measured:
        raise InputError(f"{timed.name} took no time: its clock is too coarse; measure it again")
    # A selection with partial coverage cannot tell which slices were lost in the transfer.
    whole = selection.covered >= 1.0
    inside = moved.selection.labels >= 0
    exact = np.bincount(
        moved.selection.labels[inside], weights=mean[inside], minlength=len(moved.fill)
    )
    effect = abs(float(exact @ moved.fill) / measured - 1.0)
    projected = estimate(moved.selection, timed.times)
    return Validation(
        transplant=moved,
        measured=measured,
        projected=projected,
        times={r.slice: float(mean[r.slice]) for r in moved.selection.representatives},
        differences=(*differences, *moved.differences),
        unknown_time=float(mean[moved.unknown].sum()) / measured,
        unknown_effect=effect if whole else 0.0,
        accuracy=accuracy(moved.selection, Measured.at(moved.selection, mean), projected.value),
        shares=shares_of(timed.keys, moved.selection, mean),
        labels=timed.labels,
        runs=len(timed.times),
        doubts=timed.doubts,
    )


def image_differences(selection: Selection, argv: Sequence[str | Path]) -> list[str]:
    """How the program of this command line and the libraries on this machine differ from the
    profiled ones.

    Compared by build-id, files of the same name or path; a program of another name and build is
    named, unless it launches a recorded one (`mpirun ./app`); a missing file is ignored, because
    the program may load it from elsewhere.
    """
    recorded = selection.identity.program or Program()
    here, known = _program_of(argv, recorded)
    own, found = build_id(here), []
    if own and recorded.images and not known:
        found.append(f"{here} ({own[:12]}) is not the program that was profiled")
    for path, identity in recorded.images:
        at = here if Path(path).name == here.name else Path(path)
        other = build_id(at) if identity and not identity.startswith("h") else ""
        if other and other != identity:
            found.append(f"{at} is a different build ({other[:12]}, profiled: {identity[:12]})")
    return found


def _program_of(argv: Sequence[str | Path], recorded: Program) -> tuple[Path, bool]:
    """The first file of a command line that was recorded, by its name or build-id, and True; else
    the file that is executed."""
    known = {Path(path).name for path, _ in recorded.images}
    known |= {identity for _, identity in recorded.images if identity}
    files = [Path(word).resolve() for word in argv if os.path.isfile(word)]
    found = next((file for file in files if {file.name, build_id(file)} & known), None)
    return found or Path(argv[0]).resolve(), found is not None


def input_differences(selection: Selection) -> list[str]:
    """Input files recorded in the selection that are missing or have changed."""
    found = []
    for path, digest in selection.identity.inputs.items():
        if not Path(path).is_file():
            found.append(f"input {path} is missing here")
        elif hash_inputs([path])[path] != digest:
            found.append(f"input {path} has changed")
    return found


def _missing_sentence(missing: Sequence[Representative], selection: Selection, timed: Timed) -> str:
    regions_named = "; ".join(describe(r, selection) for r in missing[:3])
    more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
    regions, them = ("1 region", "it") if len(missing) == 1 else (f"{len(missing)} regions", "them")
    return (
        f"{regions} of the selection {unmatched(missing, timed.slices, timed.name)}"
        f"{_idle(missing, selection, timed)}: {regions_named}{more}; run the program as it was "
        f"profiled, or leave {them} out with --allow-missing"
    )


def _idle(missing: Sequence[Representative], selection: Selection, timed: Timed) -> str:
    """Which processes are missing as a whole; empty if none is."""
    keys = selection.identity.processes
    if len(keys) < 2:
        return ""
    here = set(timed.slices["process"])
    absent = [keys[number] for number in sorted({r.process for r in missing} - here)]
    return f", where {named(absent)} had no device work" if absent else ""
