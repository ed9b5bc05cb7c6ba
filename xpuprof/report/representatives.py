# SPDX-License-Identifier: Apache-2.0
"""Representatives as a table and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence

from xpuprof.report.text import count, factor, marker, table
from xpuprof.selection.selection import Representative
from xpuprof.units import seconds

Column = Callable[[Representative], str]


def representatives_table(
    shown: Sequence[Representative],
    labels: Mapping[int, str] | Sequence[str],
    columns: Mapping[str, Column],
) -> str:
    """Slice, process (by `labels`, if there are several), kernel and call, then `columns`."""
    several = bool(labels)
    headers = ["slice", *["process"] * several, "ends with kernel", "call", *columns]
    rows = [
        [
            count(r.slice),
            *([labels[r.process]] if several else []),
            *marker(r.end.kernel, r.end.call),
            *(cell(r) for cell in columns.values()),
        ]
        for r in shown
    ]
    return table(headers, rows, "r" + "l" * (1 + several) + "r" * (1 + len(columns)))


def time_columns(times: Mapping[int, float], untimed: Container[int] = ()) -> dict[str, Column]:
    """The multiplier, and the time of the slice without and with it. `times`: by slice; `untimed`:
    those that most timer runs lacked."""
    return {
        "multiplier": lambda r: factor(r.multiplier),
        "slice time": lambda r: "not timed" if r.slice in untimed else seconds(times[r.slice]),
        "projected": lambda r: seconds(times[r.slice] * r.multiplier),
    }


def representative_json(r: Representative) -> dict[str, object]:
    """What every list of representatives says of each."""
    return {
        "slice": r.slice,
        "process": r.process,
        "kernel": r.end.kernel,
        "call": r.end.call,
        "multiplier": r.multiplier,
    }
