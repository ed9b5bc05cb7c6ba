# SPDX-License-Identifier: Apache-2.0
"""Rows of a results table: the region of each row, and its metrics.

A region is named by `region` (its 1-based place in the selection, as in every export), by `slice`,
or by `kernel` and `call`; with several processes also by `process` (rank0). The selection of one
process of a job counts on from the processes before it. Every other column is a metric.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from xpuprof.formats.format import Found
from xpuprof.inputs import Source, finite, whole

if TYPE_CHECKING:
    from xpuprof.selection.selection import Selection

NAMES = ("region", "slice", "kernel", "call", "process")
VALUE_COST = 100
"""Memory of a value, in bytes."""


def region_name(place: int, selection: Selection) -> str:
    """Name of a region in messages."""
    # Imported late: `--help` lists formats without numpy.
    from xpuprof.selection.parts import first_region
    from xpuprof.trace.coordinates import EXIT_KERNEL, NO_KERNELS

    end = selection.representatives[place].end
    call = "" if end.kernel == EXIT_KERNEL else f", call {end.call}"
    return (
        f"region {first_region(selection) + place} ({NO_KERNELS.get(end.kernel, end.kernel)}{call})"
    )


class Regions:
    """The regions of a selection, for the rows of one file."""

    def __init__(self, source: Source, selection: Selection) -> None:
        from xpuprof.selection.parts import first_region

        self._first = first_region(selection)
        self._source, self._selection = source, selection
        self._by_slice = {int(r.slice): i for i, r in enumerate(selection.representatives)}
        self._by_marker: dict[tuple[str, int], list[int]] = {}
        for i, r in enumerate(selection.representatives):
            self._by_marker.setdefault((r.end.kernel, r.end.call), []).append(i)

    def row(self, row: Mapping[str, object]) -> Found:
        """A row's region and metrics. Raises InputError for a row without a region, or a value that
        is not a finite number."""
        place = self._place(row)
        metrics = {}
        for name, value in row.items():
            if name not in NAMES:
                number = None if isinstance(value, bool) else finite(value)
                if number is None:
                    self._source.refuse(
                        f"has {str(value)[:80]!r} for {name} of "
                        f"{region_name(place, self._selection)}, which is not a finite number"
                    )
                metrics[name] = number
        if not metrics:
            self._source.refuse(
                f"has no metric for {region_name(place, self._selection)}; add a column"
            )
        self._source.hold(VALUE_COST * len(metrics))
        return place, metrics

    def place(self, region: int) -> int:
        """The place of a region number, which continues from process to process of a job."""
        first, count = self._first, len(self._selection.representatives)
        if not first <= region < first + count:
            self._source.refuse(
                f"has region {region}, which is not in the selection: it has regions {first} to "
                f"{first + count - 1}"
            )
        return region - first

    def _place(self, row: Mapping[str, object]) -> int:
        if "region" in row:
            return self.place(self._whole("region", row["region"]))
        if "slice" in row:
            number = self._whole("slice", row["slice"])
            if number not in self._by_slice:
                self._source.refuse(f"has slice {number}, which is not a region of the selection")
            return self._by_slice[number]
        if not {"kernel", "call"} <= row.keys():
            self._source.refuse(
                "names no region for a result; give region, slice, or kernel and call"
            )
        return self._marked(str(row["kernel"]), self._whole("call", row["call"]), row)

    def _marked(self, kernel: str, call: int, row: Mapping[str, object]) -> int:
        from xpuprof.trace.coordinates import NO_KERNELS

        shown = {text: name for name, text in NO_KERNELS.items()}
        kernel = kernel if (kernel, call) in self._by_marker else shown.get(kernel, kernel)
        found = [
            place
            for place in self._by_marker.get((kernel, call), [])
            if row.get("process") in (None, self._process(place))
        ]
        what = f"has kernel {kernel[:80]}, call {call}, which is"
        if not found:
            self._source.refuse(f"{what} not a region of the selection")
        if len(found) > 1:
            self._source.refuse(
                f"{what} in several processes; name it in a column process, as rank0"
            )
        return found[0]

    def _process(self, place: int) -> str:
        number = self._selection.representatives[place].process
        processes = self._selection.identity.processes
        return processes[number].label if number < len(processes) else ""

    def _whole(self, name: str, value: object) -> int:
        number = whole(value, -(1 << 62), 1 << 62) if isinstance(value, int | str) else None
        if number is None:
            self._source.refuse(f"has {name} {str(value)[:80]!r}, which is not a whole number")
        return number
