# SPDX-License-Identifier: Apache-2.0
"""Counters that a profiler collected of the chosen launches: its CSV is read as an import, and the
launches of a kernel are the chosen calls in their order."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from xpuprof.formats.format import Found, Importer
from xpuprof.inputs import Source

if TYPE_CHECKING:
    from xpuprof.selection.selection import Selection


def read(importer: Importer, source: Source, selection: Selection) -> list[Found]:
    """Regions and metrics. Raises InputError for a kernel that was not chosen, or another number of
    launches than chosen."""
    from xpuprof.trace.coordinates import NO_KERNELS
    from xpuprof.trace.imported import ImportedSlices, ImportWriter

    regions: dict[str, list[int]] = {}
    for place in sorted(
        range(len(selection.representatives)), key=lambda i: selection.representatives[i].end.call
    ):
        regions.setdefault(selection.representatives[place].end.kernel, []).append(place)
    with tempfile.TemporaryDirectory() as folder:
        with ImportWriter(Path(folder)) as writer:
            importer.load(source, writer)
        profile = ImportedSlices(Path(folder))
        kernels = profile.table()["kernel"].astype(str).tolist()
        columns = {name: profile.column(name).tolist() for name in profile.metrics}
    found: list[Found] = []
    for kernel in dict.fromkeys(kernels):
        if kernel in NO_KERNELS:
            continue
        rows = [row for row, name in enumerate(kernels) if name == kernel]
        places = regions.get(kernel, [])
        if len(rows) != len(places):
            source.refuse(
                f"has {len(rows)} launches of {kernel[:80]}, of which the selection has "
                f"{len(places)}; profile the launches that `xpuprof export --format "
                f"{importer.name}` names"
            )
        found += [
            (place, {name: float(values[row]) for name, values in columns.items()})
            for place, row in zip(places, rows, strict=True)
        ]
    return found
