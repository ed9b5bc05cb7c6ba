# SPDX-License-Identifier: Apache-2.0
"""The launches in a selection, numbered as in GPU simulators and tracers."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from xpuprof.errors import InputError
from xpuprof.formats.output import write_files

if TYPE_CHECKING:
    from xpuprof.selection.selection import Representative, Selection


def launched(selection: Selection) -> list[tuple[int, Representative]]:
    """(0-based launch, representative) of every representative that ends with a kernel, in order.

    Launches count from the program's start, also in a window. Program exit is not a launch. Raises
    InputError when no representative has a launch, and for selections over several processes, whose
    slices are numbered consecutively (`parts.part` extracts one process).
    """
    # Imported late: `--help` lists formats without numpy.
    from xpuprof.trace.coordinates import NO_KERNELS

    if any(r.process for r in selection.representatives):
        raise InputError(
            "the selection spans several processes; export the selection of one process at a time"
        )
    if (window := selection.identity.window) and window.stretches is None:
        raise InputError(
            f"the selection covers the window {window.spec} of several processes, whose "
            "launches it cannot number; select from a run of one process, or without --window"
        )
    found = [
        (selection.launch_ending(r), r)
        for r in selection.representatives
        if r.end.kernel not in NO_KERNELS
    ]
    if not found:
        raise InputError(
            "the selection has no kernel: its only slice is the whole program; record a "
            "program that launches kernels"
        )
    return sorted(found, key=lambda pair: pair[0])


def with_warmup(selection: Selection, warmup: Mapping[int, int]) -> list[int]:
    """The launches to simulate, 1-based and ascending: the chosen, and those that warm them."""
    return sorted(
        {
            number
            for launch, r in launched(selection)
            for number in range(max(launch + 1 - warmup.get(int(r.slice), 0), 1), launch + 2)
        }
    )


def ranges(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Ascending numbers as closed ranges."""
    result: list[tuple[int, int]] = []
    for number in numbers:
        if result and result[-1][1] == number - 1:
            result[-1] = (result[-1][0], number)
        else:
            result.append((number, number))
    return result


def kernel_range(numbers: Iterable[int]) -> str:
    """`2 5-8 10`, the syntax of launch ranges in Accel-Sim's tracer."""
    return " ".join(str(a) if a == b else f"{a}-{b}" for a, b in ranges(numbers))


def calls(selection: Selection) -> dict[str, list[int]]:
    """The chosen calls of each kernel, ascending, 1-based; kernels in order of their first."""
    found: dict[str, list[int]] = {}
    for _, r in launched(selection):
        found.setdefault(r.end.kernel, []).append(r.end.call)
    return {kernel: sorted(numbers) for kernel, numbers in found.items()}


def exactly(name: str) -> str:
    """A regular expression for a name. Characters that regular expressions, shells or the fields of
    an option give a meaning are matched by a dot."""
    return "^" + re.sub(r"[^\w ,]", ".", name) + "$"


def write_script(
    selection: Selection,
    folder: Path,
    lines: Iterable[str],
    force: bool,
    more: Mapping[str, str] | None = None,
) -> list[Path]:
    """Write a profiler's or simulator's commands as run.sh, weights.csv and `more` files into
    `folder`. The script's arguments are the program, by default the recorded one."""
    program = shlex.join(selection.identity.arguments)
    missing = 'echo "usage: sh $0 ./app args" >&2; exit 2'
    default = f"set -- {program}" if program else f"{{ {missing}; }}"
    text = "\n".join(["#!/bin/sh", "set -e", f"[ $# -gt 0 ] || {default}", *lines]) + "\n"
    files = {"run.sh": text, "weights.csv": weights_csv(selection), **(more or {})}
    return write_files({folder / name: text for name, text in files.items()}, force)


def regions_of(selection: Selection) -> dict[int, int]:
    """Each representative's region by its id(): its 1-based place in the selection."""
    from xpuprof.selection.parts import first_region

    return {id(r): i for i, r in enumerate(selection.representatives, first_region(selection))}


def weights_csv(selection: Selection) -> str:
    """The weights of a list's kernels, in the list's order.

    Columns: region (1-based place in the selection), launch (1-based), kernel, call, cluster,
    multiplier, weight. `xpuprof estimate` reads results by the same `region`.
    """
    place = regions_of(selection)
    lines = ["region,launch,kernel,call,cluster,multiplier,weight"]
    for launch, r in launched(selection):
        name = '"' + r.end.kernel.replace('"', '""') + '"'
        lines.append(
            f"{place[id(r)]},{launch + 1},{name},{r.end.call},{r.cluster},"
            f"{r.multiplier!r},{r.weight!r}"
        )
    return "\n".join(lines) + "\n"
