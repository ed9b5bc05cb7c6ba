"""gem5's stats.txt: one block of `name value # description` lines a dump."""

from __future__ import annotations

import math

from xpuprof.errors import InputError

BEGIN = "---------- Begin Simulation Statistics ----------"
END = "---------- End Simulation Statistics   ----------"

_HOST = ("host", "simFreq", "finalTick", "final_tick", "sim_freq")
"""Of the simulating machine, or constants: nothing to project."""


def parse(file: str, text: str) -> list[dict[str, float]]:
    """The dumps in order; finite scalars only (a 0/0 rate prints `nan`, a vector its elements).

    Raises InputError for a dump that does not end (the simulation was killed).
    """
    dumps: list[dict[str, float]] = []
    current: dict[str, float] | None = None
    for line in text.splitlines():
        if line.startswith("---------- Begin"):
            if current is not None:
                break
            current = {}
        elif line.startswith("---------- End"):
            if current is not None:
                dumps.append(current)
            current = None
        elif current is not None:
            _read(line, current)
    if current is not None:
        raise InputError(f"{file}: dump {len(dumps) + 1} of the statistics does not end; was gem5 "
                         "killed? simulate that region again")  # fmt: skip
    return dumps


def _read(line: str, into: dict[str, float]) -> None:
    fields = line.split("#", 1)[0].split()
    if len(fields) < 2 or fields[0].startswith(_HOST):
        return
    try:
        value = float(fields[1])
    except ValueError:
        return
    if math.isfinite(value):
        into[fields[0]] = value
