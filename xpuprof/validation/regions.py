# SPDX-License-Identifier: Apache-2.0
"""Times of selected regions only: those of a selection, or kernels given by name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from xpuprof.errors import MissingRegionError, UsageError
from xpuprof.selection.selection import Selection
from xpuprof.trace.coordinates import NO_KERNELS
from xpuprof.validation.rebase import describe, marker_rows, transplant, unmatched
from xpuprof.validation.timed import Timed, arranged

_SPEC = re.compile(r"(.+?):(\d+)(?::(\d+))?")


@dataclass(frozen=True)
class KernelSpec:
    """The calls `call` .. `call + count - 1` of `kernel`, 1-based."""

    kernel: str
    call: int
    count: int = 1


@dataclass(frozen=True)
class RegionTime:
    """One slice. Typical times over the repeats, seconds; `warmup_s` is that of the `warmup` slices
    before it (fewer at the start of its process). `process`: its label, if there are several."""

    slice: int
    kernel: str
    call: int
    multiplier: float | None
    seconds: float
    warmup: int
    warmup_s: float
    process: str = ""


def parse_spec(text: str) -> KernelSpec:
    """`NAME:CALL[:COUNT]`; the name may hold colons. UsageError for any other form."""
    found = _SPEC.fullmatch(text)
    call, count = (int(found[2]), int(found[3] or 1)) if found else (0, 0)
    if not found or call < 1 or count < 1:
        raise UsageError(
            f"invalid --kernel {text!r}: give NAME:CALL or NAME:CALL:COUNT, CALL being 1-based, "
            "as in --kernel gemm:3:2"
        )
    return KernelSpec(found[1], call, count)


def selected_regions(selection: Selection, timed: Timed, warmup: int = 0) -> list[RegionTime]:
    """The representatives' times. MissingRegionError names one that never occurred."""
    timed = arranged(timed, selection)
    moved = transplant(selection, timed.slices, timed.name)
    if moved.missing:
        region = describe(moved.missing[0], selection)
        raise MissingRegionError(
            f"{region} of the selection {unmatched(moved.missing[:1], timed.slices, timed.name)}; "
            "run the program as it was profiled"
        )
    chosen = moved.selection.representatives
    return _measure(timed, [(r.slice, r.multiplier) for r in chosen], warmup)


def named_regions(specs: Sequence[KernelSpec], timed: Timed, warmup: int = 0) -> list[RegionTime]:
    """Times of the named calls in every process that has them. MissingRegionError names a call that
    never occurred."""
    rows = marker_rows(timed.slices)
    processes = range(max(len(timed.keys), 1))
    wanted: list[tuple[int, float | None]] = []
    for spec in specs:
        for call in range(spec.call, spec.call + spec.count):
            found = [rows.get((process, spec.kernel, call)) for process in processes]
            wanted += [(row, None) for row in found if row is not None]
            if found == [None] * len(processes):
                raise MissingRegionError(_never(spec.kernel, call, timed))
    return _measure(timed, wanted, warmup)


def _never(kernel: str, call: int, timed: Timed) -> str:
    names = timed.slices["kernel"].astype(str)
    calls = int((names == kernel).sum())
    if calls:
        return (
            f"kernel {kernel} was called {calls} times in {timed.name}, so call {call} is missing"
        )
    known = [name for name in names.unique() if name not in NO_KERNELS]
    listed = ", ".join(known[:5]) + (", ..." if len(known) > 5 else "")
    return f"kernel {kernel} never ran in {timed.name}; its kernels are: {listed or 'none'}"


def _measure(
    timed: Timed, wanted: Sequence[tuple[int, float | None]], warmup: int
) -> list[RegionTime]:
    before = np.concatenate(([0.0], np.cumsum(timed.mean)))
    names = timed.slices["kernel"].astype(str).to_numpy()
    calls = timed.slices["call"].to_numpy()
    owners, labels = timed.owners, timed.labels
    result = []
    for row, multiplier in wanted:
        start = max(row - warmup, int(np.searchsorted(owners, owners[row])))
        result.append(
            RegionTime(
                slice=row,
                kernel=str(names[row]),
                call=int(calls[row]),
                multiplier=multiplier,
                seconds=float(timed.mean[row]),
                warmup=row - start,
                warmup_s=float(before[row] - before[start]),
                process=labels.get(int(owners[row]), ""),
            )
        )
    return result
