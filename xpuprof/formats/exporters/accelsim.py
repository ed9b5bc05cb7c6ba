"""Accel-Sim: a kernel list with the chosen kernels only, and the tracer's range of kernels.

The simulator takes from `kernelslist.g` the lines that begin with `kernel` (a trace file beside the
list) and with `MemcpyHtoD`; the tracer numbers launches from 1, names their traces
`kernel-<number>[...].traceg`, and traces what DYNAMIC_KERNEL_RANGE names (`3 7-9`).
"""

from __future__ import annotations

import re
from pathlib import Path

from xpuprof.errors import InputError
from xpuprof.formats.exporters.kernel_lists import launched, ranges, weights_csv
from xpuprof.formats.output import write_files
from xpuprof.selection.selection import Selection

_KERNEL = re.compile(r"kernel-(\d+)\D")


def write(
    selection: Selection, folder: Path, force: bool = False, kernelslist: Path | None = None
) -> list[Path]:
    """Write kernelslist.g, weights.csv and tracer.env into `folder`; returns their paths.

    `kernelslist`: the list of a whole traced run, to be filtered (copies before the last chosen
    kernel stay); without one, traces are named as the tracer names them. Raises InputError when the
    list lacks a chosen kernel.
    """
    numbers = [launch + 1 for launch, _ in launched(selection)]
    if kernelslist is None:
        lines = [f"kernel-{number}.traceg" for number in numbers]
    else:
        lines = _filter(kernelslist, numbers)
    return write_files(
        {
            folder / "kernelslist.g": "\n".join(lines) + "\n",
            folder / "weights.csv": weights_csv(selection),
            folder / "tracer.env": f'DYNAMIC_KERNEL_RANGE="{kernel_range(numbers)}"\n',
        },
        force,
    )


def kernel_range(numbers: list[int]) -> str:
    """`2 5-8 10` for the tracer."""
    return " ".join(str(a) if a == b else f"{a}-{b}" for a, b in ranges(numbers))


def _filter(path: Path, numbers: list[int]) -> list[str]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = "it is not text" if isinstance(error, UnicodeDecodeError) else error.strerror
        raise InputError(
            f"cannot read the kernel list {path}: {why}; name the kernelslist.g of the whole "
            "traced run, or leave --kernelslist away"
        ) from error
    wanted, found = set(numbers), set()
    kept = []
    for line in lines:
        if line.startswith("kernel"):
            match = _KERNEL.match(line + "\n")
            if not match:
                raise InputError(f"{path} is no kernel list: {line!r} names no kernel by number")
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
