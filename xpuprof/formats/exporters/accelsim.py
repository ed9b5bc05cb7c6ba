# SPDX-License-Identifier: Apache-2.0
"""Accel-Sim: a kernel list with the chosen kernels only, and the tracer's range of kernels.

The simulator takes from `kernelslist.g` the lines that begin with `kernel` (a trace file beside the
list) and with `MemcpyHtoD`; the tracer numbers launches from 1, names their traces
`kernel-<number>[...].traceg`, and traces what DYNAMIC_KERNEL_RANGE names (`3 7-9`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from xpuprof.errors import InputError
from xpuprof.formats.exporters.kernel_lists import kernel_range, weights_csv, with_warmup
from xpuprof.formats.format import LaunchExporter
from xpuprof.formats.output import write_files
from xpuprof.inputs import read_text

if TYPE_CHECKING:
    from xpuprof.selection.selection import Selection

_KERNEL = re.compile(r"kernel-(\d+)\D")


def write(
    selection: Selection,
    folder: Path,
    force: bool = False,
    kernelslist: Path | None = None,
    warmup: Mapping[int, int] = MappingProxyType({}),
) -> list[Path]:
    """Write kernelslist.g, weights.csv and tracer.env into `folder`; returns their paths. Version 2
    of the tracer names its traces .tracez: kernelslist-v2.g lists these.

    `kernelslist`: the list of a fully traced run, to be filtered (copies before the last chosen
    kernel stay); without it, the tracer's names are used. The launches that `warmup` asks for are
    listed, too: they fill the caches, and `estimate` skips them. Raises InputError when the list
    lacks a kernel.
    """
    numbers = with_warmup(selection, warmup)
    if kernelslist is None:
        names = {"kernelslist.g": "traceg", "kernelslist-v2.g": "tracez"}
        lists = {file: [f"kernel-{n}.{suffix}" for n in numbers] for file, suffix in names.items()}
    else:
        lists = {"kernelslist.g": _filter(kernelslist, numbers)}
    return write_files(
        {
            **{folder / file: "\n".join(lines) + "\n" for file, lines in lists.items()},
            folder / "weights.csv": weights_csv(selection),
            folder / "tracer.env": f'DYNAMIC_KERNEL_RANGE="{kernel_range(numbers)}"\n',
        },
        force,
    )


def _filter(path: Path, numbers: list[int]) -> list[str]:
    advice = "the kernelslist.g of the whole traced run, or omit --kernelslist"
    lines = read_text(path, advice).splitlines()
    wanted, found = set(numbers), set()
    kept = []
    for line in lines:
        if line.startswith("kernel"):
            match = _KERNEL.match(line + "\n")
            if not match:
                raise InputError(
                    f"{path} is not a kernel list: {line[:80]!r} has no number; name {advice}"
                )
            if int(match[1]) not in wanted:
                continue
            found.add(int(match[1]))
        elif found == wanted:
            break
        kept.append(line)
    if missing := sorted(wanted - found):
        raise InputError(
            f"{path} lacks kernel {missing[0]}, which the selection asks for; trace the program "
            f'with DYNAMIC_KERNEL_RANGE="{kernel_range(numbers)}"'
        )
    return kept


FORMAT = LaunchExporter(
    name="accelsim",
    help="OUT/kernelslist.g (and -v2.g), weights.csv, tracer.env",
    write=lambda source, out, options: write(
        source.selection,
        out,
        options.force,
        options.kernelslist,
        source.warmup(options, device=True),
    ),
    folder=True,
    takes=frozenset({"kernelslist", "warmup", "warm_cache"}),
    use="(set -a; . {out}/tracer.env; LD_PRELOAD=tracer_tool.so {command}), accel-sim.out -trace "
    "{out}/kernelslist.g -config gpgpusim.config -config trace.config > {out}/accelsim.log",
)
