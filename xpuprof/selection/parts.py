# SPDX-License-Identifier: Apache-2.0
"""Selections over several processes: joined from one per process, and split again.

A selection of several processes numbers slices consecutively across processes, in the order of
`identity["processes"]`. Processes may share clusters (one selection over the whole job) or not (one
selection per process); in both cases the multipliers project the sum of all processes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from xpuprof.selection import design
from xpuprof.selection.selection import Selection
from xpuprof.trace.coordinates import JobLayout, JobRow, WindowRow
from xpuprof.trace.run_lengths import decode_runs, encode_runs

EACH = "each"
"""`parameters["processes"]` of a selection made process by process."""


def write_parts(selection: Selection, folder: Path, force: bool = False) -> None:
    """Write selection-<process>.json into `folder` for each process of a selection made process by
    process. Raises as `Selection.write`."""
    for number, process in enumerate(selection.identity.get("processes", [])):
        path = folder / f"selection-{process['label']}.json"
        part(selection, number).write(path, force)


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
        scores={"clusters": sum(part.k for part in parts)},
        summary=_added_up([part.summary for part in parts]),
    )


def part(selection: Selection, number: int) -> Selection:
    """The part of the selection that covers one process, its slices numbered from 0; it may have no
    representatives. With shared clusters the multipliers remain the job's.
    `summary["regions_before"]` is the number of representatives in earlier processes."""
    layout = selection.layout
    own = [r for r in selection.representatives if layout.holds(number, r.slice)]
    labels: npt.NDArray[np.int32] = layout.split(selection.labels)[number]
    shift, scale, chosen = 0, 1.0, selection.design
    if selection.parameters.get("processes") == EACH:
        shift = int(labels[labels >= 0].min())
        scale = selection.slices / layout.lengths[number]
        chosen = chosen.between(shift, int(labels.max()) + 1)
    return replace(
        selection,
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
        summary={
            "regions_before": sum(r.slice < layout.first(number) for r in selection.representatives)
        },
    )


def first_region(selection: Selection) -> int:
    """The 1-based number of the selection's first representative. A part of a job's selection keeps
    the job's numbers, which `xpuprof estimate` expects."""
    return int(selection.summary.get("regions_before", 0)) + 1


def _identity(identity: Mapping[str, Any], number: int, layout: JobLayout) -> Mapping[str, Any]:
    """The identity of one process; `of` is the number of processes."""
    own = dict(identity)
    processes = identity.get("processes") or [{}]
    own["processes"], own["of"] = [processes[number]], len(processes)
    if sequence := identity.get("sequence"):
        codes = layout.split(decode_runs(sequence["order"], layout.slices))[number]
        used, order = np.unique(codes, return_inverse=True)
        own["sequence"] = {
            "digest": processes[number].get("digest", ""),
            "kinds": [sequence["kinds"][code] for code in used.tolist()],
            "order": encode_runs(order),
        }
    return own


def _added_up(summaries: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Counts summed over processes (a kernel name is counted in each)."""
    names = [n for n, v in summaries[0].items() if isinstance(v, int | float)]
    return {name: sum(summary.get(name, 0) for summary in summaries) for name in names}
