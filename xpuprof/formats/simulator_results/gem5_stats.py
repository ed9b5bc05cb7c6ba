# SPDX-License-Identifier: Apache-2.0
"""gem5's stats.txt: one block of `name value # description` lines per dump."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xpuprof.formats.format import Found, ResultReader
from xpuprof.inputs import Source, finite

if TYPE_CHECKING:
    from xpuprof.selection.selection import Selection

BEGIN = "---------- Begin Simulation Statistics ----------"
END = "---------- End Simulation Statistics   ----------"

_HOST = ("host", "simFreq", "finalTick", "final_tick", "sim_freq")
"""Statistics of the simulating machine, or constants: not projected."""
VALUE_COST = 200
"""Memory of a value with its name, in bytes."""


def parse(source: Source) -> list[dict[str, float]]:
    """The dumps in order; only finite scalars (a 0/0 rate prints `nan`, a vector its elements).

    Raises InputError for an unfinished dump (the simulation was killed).
    """
    dumps: list[dict[str, float]] = []
    current: dict[str, float] | None = None
    with source.lines() as lines:
        for line in lines:
            if line.startswith("---------- Begin"):
                if current is not None:
                    break
                current = {}
            elif line.startswith("---------- End"):
                if current is not None:
                    dumps.append(current)
                current = None
            elif current is not None:
                source.hold(VALUE_COST * _read(line, current))
    if current is not None:
        source.refuse(
            f"does not end dump {len(dumps) + 1} of the statistics; was gem5 killed? simulate "
            "that region again"
        )
    return dumps


def _read(line: str, into: dict[str, float]) -> bool:
    fields = line.split("#", 1)[0].split()
    if len(fields) < 2 or fields[0].startswith(_HOST):
        return False
    value = finite(fields[1])
    if value is not None:
        into[fields[0]] = value
    return value is not None


def _read_regions(source: Source, selection: Selection) -> list[Found]:
    dumps = parse(source)
    if len(dumps) == len(selection.representatives):
        return list(enumerate(dumps))
    if len(dumps) != 1:
        source.refuse(
            f"has {len(dumps)} dumps of statistics for {len(selection.representatives)} regions; "
            "dump once per region in order, or name one file per region as --results REGION=FILE"
        )
    return [(None, dumps[0])]


FORMAT = ResultReader(
    name="gem5",
    help="gem5's stats.txt",
    read=_read_regions,
    mark=BEGIN,
)
