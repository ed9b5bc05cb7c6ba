# SPDX-License-Identifier: Apache-2.0
"""Transfer a selection from one run to another run of the same program.

The slices of both runs are aligned, start-up with start-up. Labels transfer, representatives get
their slice numbers in the other run, and multipliers follow each cluster's number of slices there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from xpuprof.arrays import F64, I32, I64
from xpuprof.errors import InputError
from xpuprof.estimation.projection import clusters_of
from xpuprof.inputs import SELECT_AGAIN
from xpuprof.selection.selection import Marker, Representative, Selection
from xpuprof.trace.coordinates import (
    EXIT_KERNEL,
    NO_KERNELS,
    WINDOW_END_KERNEL,
    JobRow,
    OtherRow,
    OtherRows,
    as_own,
)
from xpuprof.trace.kernel_names import brief
from xpuprof.trace.sequence import sequence_slices, with_kind_columns
from xpuprof.validation.align import LEVELS, SAME_KERNEL, START_UP, Alignment, align, keys_of
from xpuprof.validation.ends import Ends

LONG = 60
"""Characters of a kernel's name that a sentence has room for."""


@dataclass(frozen=True, eq=False)
class Transplant:
    """`selection` refers to slices of the other run. All losses are reported.

    `missing`: representatives (as in the original) that never occurred; `stand_ins`: those replaced
    by another slice of the cluster, the nearest in order, because the cluster had no representative
    left; `attributed`: slices that only the other run has, assigned to the cluster of their known
    kernel; `unknown`: slices that only the other run has, of kernels missing from the original;
    `gone`: share of the original's slices that the other run lacks; `fill`: float64[clusters], the
    factor by which each cluster also represents uncovered slices; `differences`: one sentence each,
    empty when both runs launched the same.
    """

    selection: Selection
    missing: tuple[Representative, ...]
    stand_ins: tuple[Representative, ...]
    attributed: OtherRows
    unknown: OtherRows
    gone: float
    fill: F64
    differences: tuple[str, ...]
    same: bool


def transplant(selection: Selection, slices: pd.DataFrame, name: str) -> Transplant:
    """Move `selection` to the run whose slice table is `slices` (`trace.tables.Process.slices`; for
    several processes with a column `process`, numbered as in the selection; see `timed.arranged`).

    Raises InputError when the run has none of the selection's slices (another program). Missing
    representatives are dropped and the others re-weighted; the caller decides whether that is
    allowed. `name` names the run in messages.
    """
    identity = selection.identity
    original = sequence_slices(identity.sequence, identity.processes, "the selection")
    if original is not None and len(original) != selection.slices:
        raise InputError(
            f"the selection names {selection.slices} slices but its launch sequence has "
            f"{len(original)}: {SELECT_AGAIN}"
        )
    before = Ends.of_selection(selection) if original is None else Ends.of(original)
    here = Ends.of(slices)
    starts = before.apart(selection).counterparts(here)
    alignment = (
        _by_markers(selection, slices, starts)
        if original is None
        else align(original, slices, starts)
    )
    if not _anything_common(selection, alignment, slices):
        arguments = " ".join(identity.arguments) or "another program"
        raise InputError(
            f"the selection was made from {arguments}: none of its kernels ran in {name}; "
            "use runs of the program that it was made from"
        )
    differences = [*_sequence_differences(selection, alignment, name)]
    differences += _marker_differences(selection, alignment, slices)
    if alignment.same:
        even = np.ones(len(selection.sizes))
        return Transplant(
            selection, (), (), _none(), _none(), 0.0, even, tuple(differences), not differences
        )
    labels, attributed, unknown = _labels(selection, alignment, starts, here)
    rows = {r.slice: OtherRow(int(alignment.match[r.slice])) for r in selection.representatives}
    missing = tuple(r for r in selection.representatives if rows[r.slice] < 0)
    stand_ins = _stand_ins(selection, rows, labels)
    rows |= stand_ins
    left = {r.cluster for r in selection.representatives if rows[r.slice] >= 0}
    fill = _fill(selection, left, labels, unknown, before, here)
    moved = _move(selection, rows, slices, labels, fill)
    gone = len(alignment.unmatched_a) / len(alignment.match) if original is not None else 0.0
    taken = tuple(r for r in missing if r.slice in stand_ins)
    return Transplant(
        moved, missing, taken, attributed, unknown, gone, fill, tuple(differences), False
    )


def _anything_common(selection: Selection, alignment: Alignment, slices: pd.DataFrame) -> bool:
    """Sharing only start-up and the exit marker does not make two programs the same."""
    kernels = [r for r in selection.representatives if r.end.kernel not in NO_KERNELS]
    level = alignment.level[[r.slice for r in kernels]]
    if not kernels or ((level >= 0) & (level != START_UP)).any():
        return True
    return bool(slices["kernel"].astype(str).isin({r.end.kernel for r in kernels}).any())


def _none() -> OtherRows:
    return OtherRows(np.empty(0, dtype=np.int64))


def _by_markers(selection: Selection, slices: pd.DataFrame, starts: tuple[I64, I64]) -> Alignment:
    """For selections without a sequence: match start-ups (`starts`, here and there) and markers
    only, and other slices by number if there are as many and no marker moved, since the order may
    differ between them otherwise."""
    rows = marker_rows(slices)
    markers = {
        r.slice: rows.get((r.process, r.end.kernel, r.end.call), -1)
        for r in selection.representatives
    }
    own, there = starts
    found = {**markers, **dict(zip(own.tolist(), there.tolist(), strict=True))}
    match = np.full(selection.slices, -1, dtype=np.int64)
    if len(match) == len(slices) and all(row in (number, -1) for number, row in found.items()):
        match[:] = np.arange(len(match))
    match[list(found)] = list(found.values())
    others = np.isin(match, there)
    others[own] = False
    match[others] = -1
    kinds, kernels = keys_of(slices.iloc[:0], slices)[: SAME_KERNEL + 1]
    level = np.where(match >= 0, 0, -1).astype(np.int8)
    level[[number for number, row in markers.items() if found[number] != row]] = START_UP
    return Alignment(OtherRows(match), level, kinds, kernels)


def unmatched(missing: Sequence[Representative], slices: pd.DataFrame, name: str) -> str:
    """The end of a sentence on regions that no slice of a run matched."""
    rows = marker_rows(slices)
    absent = sum((r.process, r.end.kernel, r.end.call) not in rows for r in missing)
    if absent == len(missing):
        return f"never occurred in {name}"
    if absent:
        return (
            f"matched nothing in {name} ({absent} of them never occurred; the program launched the "
            "others in another order)"
        )
    return f"matched nothing in {name}, whose launches have another order or device program"


def marker_rows(slices: pd.DataFrame) -> Mapping[tuple[int, str, int], int]:
    """Slice row of every marker (process, kernel, call)."""
    names = slices["kernel"].astype(str).tolist()
    owners = slices["process"].tolist() if "process" in slices else [0] * len(names)
    return {
        marker: row
        for row, marker in enumerate(zip(owners, names, slices["call"].tolist(), strict=True))
    }


def _sequence_differences(selection: Selection, alignment: Alignment, name: str) -> list[str]:
    if alignment.same:
        return []
    matched = int((alignment.match >= 0).sum())
    others = int((alignment.level == SAME_KERNEL).sum())
    whole = matched == selection.slices == alignment.slices_b
    if others and whole and alignment.level.max() <= SAME_KERNEL:
        return [
            f"the same kernels were launched in the same order; {others:,} of {matched:,} slices "
            "have another grid or work-group"
        ]
    parts = [
        f"{int((alignment.level == i).sum())} by {LEVELS[i]}"
        for i in range(len(LEVELS))
        if (alignment.level == i).any()
    ]
    return [
        f"the launch sequence differs: {selection.slices} slices in the selection, "
        f"{alignment.slices_b} in {name}, {matched} matched ({', '.join(parts)})"
    ]


def _marker_differences(
    selection: Selection, alignment: Alignment, slices: pd.DataFrame
) -> list[str]:
    """Differences at the markers found."""
    kinds = with_kind_columns(slices)
    calls = slices["call"].to_numpy()
    found = []
    for r in selection.representatives:
        row = int(alignment.match[r.slice])
        if row < 0:
            continue
        here = kinds.iloc[row]
        marker = f"{_name(r.end.kernel)}, call {r.end.call}"
        if alignment.level[r.slice] == START_UP:
            found.append(
                f"start-up ends with kernel {_name(str(here['kernel']))} here, not {marker}"
            )
            continue
        grid = (int(here["gx"]), int(here["gy"]), int(here["gz"]))
        block = (int(here["lx"]), int(here["ly"]), int(here["lz"]))
        if str(here["kernel"]) != r.end.kernel or int(calls[row]) != r.end.call:
            found.append(f"{marker} is {_name(str(here['kernel']))}, call {int(calls[row])} here")
        if any(r.end.grid) and any(grid) and grid != r.end.grid:
            found.append(f"{marker} has grid {_size(grid)} here, not {_size(r.end.grid)}")
        if any(r.end.block) and any(block) and block != r.end.block:
            found.append(f"{marker} has work-group {_size(block)} here, not {_size(r.end.block)}")
        program = str(here["program"])
        if r.end.program and program and program != r.end.program:
            found.append(f"{marker} is built from a different device program here")
    return found


def _size(triple: tuple[int, int, int]) -> str:
    return " x ".join(str(n) for n in triple)


def _labels(
    selection: Selection, alignment: Alignment, starts: tuple[I64, I64], here: Ends
) -> tuple[I32, OtherRows, OtherRows]:
    """Labels of the other run's slices, rows attributed by kernel, and rows of unknown kernels.
    `starts`: the start-ups that match; further ones, of `here`, are like them, other slices are
    not."""
    labels = np.full(alignment.slices_b, -1, dtype=np.int32)
    matched = alignment.match >= 0
    labels[alignment.match[matched]] = selection.labels[matched]
    extra = alignment.unmatched_b
    known = pd.Series(labels, dtype="float64")
    known[extra] = np.nan
    own, there = starts
    first = here.first if len(own) else own
    lone = np.flatnonzero(selection.sizes == 1)
    filled = _by_kernel(known.mask(known.index.isin(there)), alignment, lone)
    filled[first] = _by_kernel(known[first], alignment, lone)
    clusters = np.unique(selection.labels[own])
    if len(clusters) == 1:  # of one program, whichever kernel begins it
        filled[first] = filled[first].fillna(clusters[0])
    unknown = filled.isna().to_numpy()
    result = filled.fillna(-1).to_numpy().astype(np.int32)
    return result, OtherRows(extra[~unknown[extra]]), OtherRows(extra[unknown[extra]])


def _by_kernel(labels: pd.Series[float], alignment: Alignment, lone: I64) -> pd.Series[float]:
    """Labels of the other run's slices. NaN ones get that of the nearest slice with the same kernel
    and grid, or the same kernel; of a cluster in `lone`, whose only slice was unlike all others, if
    there is no other."""
    for codes in (alignment.kinds_b, alignment.kernels_b):
        own = codes[labels.index]
        labels = labels.fillna(_nearest(labels.mask(labels.isin(lone)), own))
        labels = labels.fillna(_nearest(labels, own))
    return labels


def _nearest(labels: pd.Series[float], codes: I64) -> pd.Series[float]:
    """The label of the nearest slice with the same code before each slice, else after it."""
    filled = labels.groupby(codes, sort=False).ffill()
    return filled.fillna(filled.groupby(codes, sort=False).bfill())


def _stand_ins(
    selection: Selection, rows: Mapping[JobRow, OtherRow], labels: I32
) -> dict[JobRow, OtherRow]:
    """For each cluster without a remaining representative, the slice in the other run nearest to
    its first representative."""
    left = {r.cluster for r in selection.representatives if rows[r.slice] >= 0}
    result: dict[JobRow, OtherRow] = {}
    for r in selection.representatives:
        members = np.flatnonzero(labels == r.cluster) if r.cluster not in left else _none()
        if len(members):
            expected = r.slice * len(labels) / selection.slices
            nearest = np.argmin(np.abs(members - expected))
            result[r.slice] = OtherRow(int(members[nearest]))
            left.add(r.cluster)
    return result


def _fill(
    selection: Selection, left: set[int], labels: I32, unknown: OtherRows, before: Ends, here: Ends
) -> F64:
    """float64[clusters]: the factor by which each cluster also represents uncovered slices, which
    are assumed to be like the rest: start-ups and exits like others of them, slices between like
    those between. 0 where no cluster of the kind is `left`. `before` and `here`: the ends of the
    selection's run and of the other."""
    clusters = np.arange(len(selection.sizes))
    owner = clusters_of(selection)
    weight = np.bincount(owner, [r.weight for r in selection.representatives], len(clusters))
    ends, covered = before.clusters(selection), np.isin(clusters, list(left))
    is_end, at_end = np.isin(clusters, ends), np.isin(labels, ends)
    if len(before.apart(selection).first):
        at_end[np.intersect1d(unknown, here.first)] = True
    fill = np.zeros(len(clusters))
    for kind, rows in ((is_end, at_end), (~is_end, ~at_end)):
        if (kind & covered).any():
            known, slices = float(weight[kind & covered].sum()), int(rows.sum())
            lost = float(weight[kind].sum()) / known if known else 1.0
            # Unknown slices take the places of lost clusters' first, so that none counts twice.
            fill[kind] = max(lost, slices / (slices - int(rows[unknown].sum())))
    return fill


def _move(
    selection: Selection,
    rows: Mapping[JobRow, OtherRow],
    slices: pd.DataFrame,
    labels: I32,
    fill: F64,
) -> Selection:
    present = [(r, rows[r.slice]) for r in selection.representatives if rows[r.slice] >= 0]
    total = _sum_by_cluster(selection.representatives)
    left = _sum_by_cluster([r for r, _ in present])
    scale = {
        cluster: (total[cluster] / left[cluster]) * _growth(selection.labels, labels, cluster)
        for cluster in left
    }
    covers = sum(r.weight * scale[r.cluster] for r, _ in present)
    whole = sum(r.weight * scale[r.cluster] * float(fill[r.cluster]) for r, _ in present)
    whole += sum(r.weight for r in selection.representatives if not fill[r.cluster])
    kernel, call = slices["kernel"].astype(str).tolist(), slices["call"].tolist()
    owner = slices["process"].tolist() if "process" in slices else [0] * len(kernel)
    moved = tuple(
        replace(
            r,
            slice=as_own(row),
            end=replace(r.end, kernel=kernel[row], call=int(call[row])),
            start=(
                Marker(kernel[row - 1], int(call[row - 1]))
                if row and owner[row - 1] == owner[row]
                else None
            ),
            process=int(owner[row]),
            multiplier=r.multiplier * scale[r.cluster] * float(fill[r.cluster]),
            weight=r.weight * scale[r.cluster] / whole * selection.covered,
        )
        for r, row in present
    )
    lost = ~np.isin(labels, list(left))
    labels = np.where(lost, -1, labels).astype(np.int32)
    covered = selection.covered * covers / whole
    return replace(selection, representatives=moved, labels=labels, covered=covered)


def _sum_by_cluster(representatives: Sequence[Representative]) -> dict[int, float]:
    result: dict[int, float] = {}
    for r in representatives:
        result[r.cluster] = result.get(r.cluster, 0.0) + r.multiplier
    return result


def _growth(before: I32, after: I32, cluster: int) -> float:
    """The cluster's slices in the other run over those in the original."""
    count = int((before == cluster).sum())
    return int((after == cluster).sum()) / count if count else 1.0


def describe(r: Representative, selection: Selection) -> str:
    """Describe a region of the selection, with its process if there are several."""
    processes = selection.identity.processes
    where = f" in {processes[r.process].label}" if len(processes) > 1 else ""
    return f"{_end(r)}{where}"


def _end(r: Representative) -> str:
    if r.end.kernel == EXIT_KERNEL:
        return "the stretch from the last kernel to program exit"
    if r.end.kernel == WINDOW_END_KERNEL:
        return f"the stretch to the window's end, closing {r.end.call}"
    return f"kernel {_name(r.end.kernel)}, call {r.end.call}"


def _name(kernel: str) -> str:
    """Its function alone, if the name is long."""
    return kernel if len(kernel) <= LONG else brief(kernel)
