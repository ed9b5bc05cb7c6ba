# SPDX-License-Identifier: Apache-2.0
"""Selections over several processes: joined from one per process, and split again.

A selection of several processes numbers slices consecutively across processes, in the order of
`identity.processes`. Processes may share clusters (one selection over the whole job) or not (one
selection per process); in both cases the multipliers project the sum of all processes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from xpuprof.errors import InputError, unwritable
from xpuprof.selection import design
from xpuprof.selection.document import refuse_existing
from xpuprof.selection.identity import Identity
from xpuprof.selection.results import RunSummary, Scores
from xpuprof.selection.selection import Selection
from xpuprof.trace.coordinates import JobLayout, JobRow, WindowRow
from xpuprof.trace.kinds import LaunchSequence
from xpuprof.trace.run_lengths import decode_runs, encode_runs

EACH = "each"
"""`parameters["processes"]` of a selection made process by process."""


def write(selection: Selection, folder: Path, *, each: bool, force: bool = False) -> None:
    """Write selection.json into `folder`; with `each`, selection-<process>.json for every process.
    With `force` those of the selection that is replaced are removed, since their slices and regions
    are not this one's.

    Raises as `Selection.write`; if a file exists, before anything is written.
    """
    whole = folder / "selection.json"
    own = _files(selection, folder) if each else []
    for path in (whole, *own):
        refuse_existing(path, force)
    stale = set(_replaced(whole)).difference(own)
    selection.write(whole, force)
    for number, path in enumerate(own):
        part(selection, number).write(path, force)
    for path in stale:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise unwritable(path, error) from error


def _files(selection: Selection, folder: Path) -> list[Path]:
    """The files of the selection's processes."""
    return [folder / f"selection-{process.label}.json" for process in selection.identity.processes]


def _replaced(whole: Path) -> list[Path]:
    """The files of the processes of the selection that `whole` holds; empty if it holds none."""
    try:
        return _files(Selection.read(whole), whole.parent)
    except InputError:
        return []


def seed_of(seed: int, number: int) -> int:
    """The seed of a process's own selection. The first one has the job's; with that in every
    process, ranks of like times would draw the same slices, and their errors would add up."""
    if not number:
        return seed
    return int(np.random.SeedSequence((seed, number)).generate_state(1)[0])


def joined(parts: Sequence[Selection]) -> Selection:
    """Join selections, one per process, in order. Clusters stay separate; a representative's weight
    becomes its share of the whole job. `identity` is left to the caller."""
    layout = JobLayout(tuple(part.slices for part in parts))
    representatives, labels = [], []
    cluster = 0
    for number, part in enumerate(parts):
        share = part.slices / layout.slices
        representatives += [
            replace(
                r,
                slice=layout.job_row(number, WindowRow(r.slice)),
                cluster=cluster + r.cluster,
                weight=r.weight * share,
                process=number,
            )
            for r in part.representatives
        ]
        labels.append(np.where(part.labels >= 0, part.labels + cluster, -1))
        cluster += int(part.labels.max()) + 1
    return Selection(
        method=parts[0].method,
        parameters={**parts[0].parameters, "processes": EACH},
        seed=parts[0].seed,
        representatives=tuple(representatives),
        labels=np.concatenate(labels).astype(np.int32),
        covered=float(sum(part.covered * part.slices for part in parts)) / layout.slices,
        design=design.joined([part.design for part in parts]),
        scores=Scores(clusters=sum(part.k for part in parts)),
        summary=RunSummary.added_up([part.summary for part in parts]),
    )


def part(selection: Selection, number: int) -> Selection:
    """The part of the selection that covers one process, its slices numbered from 0; it may have no
    representatives. With shared clusters the multipliers remain the job's.
    `summary.regions_before` is the number of representatives in earlier processes."""
    layout = selection.layout
    own = [r for r in selection.representatives if layout.holds(number, r.slice)]
    labels: npt.NDArray[np.int32] = layout.split(selection.labels)[number]
    shift, scale, chosen, seed = 0, 1.0, selection.design, selection.seed
    if selection.parameters.get("processes") == EACH:
        shift = int(labels[labels >= 0].min())
        scale = selection.slices / layout.lengths[number]
        chosen = chosen.between(shift, int(labels.max()) + 1)
        seed = seed_of(seed, number)
    return replace(
        selection,
        seed=seed,
        representatives=tuple(
            replace(
                r,
                slice=JobRow(layout.window_row(number, r.slice)),
                cluster=r.cluster - shift,
                weight=r.weight * scale,
                process=0,
            )
            for r in own
        ),
        labels=np.where(labels >= 0, labels - shift, -1).astype(np.int32),
        covered=float(np.mean(labels >= 0)),
        design=chosen,
        identity=_identity(selection.identity, number, layout),
        summary=RunSummary(
            regions_before=sum(r.slice < layout.first(number) for r in selection.representatives)
        ),
    )


def first_region(selection: Selection) -> int:
    """The 1-based number of the selection's first representative. A part of a job's selection keeps
    the job's numbers, which `xpuprof estimate` expects."""
    return (selection.summary.regions_before or 0) + 1


def _identity(identity: Identity, number: int, layout: JobLayout) -> Identity:
    """The identity of one process."""
    return replace(
        identity,
        sequence=identity.sequence and _sequence(identity.sequence, number, layout),
        processes=identity.processes[number : number + 1],
        of=len(layout.lengths),
    )


def _sequence(whole: LaunchSequence, number: int, layout: JobLayout) -> LaunchSequence:
    """The launches of one process, its kinds in the order of their first launch."""
    codes = layout.split(decode_runs(whole.order, layout.slices))[number]
    used, first, order = np.unique(codes, return_index=True, return_inverse=True)
    seen = np.argsort(first)
    kinds = tuple(whole.kinds[code] for code in used[seen].tolist())
    return LaunchSequence(kinds, tuple(encode_runs(np.argsort(seen)[order])))
