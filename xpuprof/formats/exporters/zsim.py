# SPDX-License-Identifier: Apache-2.0
"""zsim: fast-forward points by instruction count (`ffiPoints` of a process).

zsim accumulates the numbers and switches between fast-forward and simulation at each sum, counting
the instructions of all threads; the simulation ends at the last one. Consecutive regions are
simulated as one stretch; weights.csv lists the regions of each stretch.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from xpuprof.errors import InputError
from xpuprof.formats.exporters.kernel_lists import ranges, regions_of
from xpuprof.formats.format import Exporter, Needs
from xpuprof.formats.output import write_files

if TYPE_CHECKING:
    from xpuprof.selection.selection import Selection
    from xpuprof.trace.tables import Process


def write(selection: Selection, process: Process, file: Path, force: bool = False) -> list[Path]:
    """Write `file` (a fragment of zsim's configuration) and `file`.weights.csv.

    Raises InputError when the run has no CPU vectors, or a region has no CPU instructions.
    """
    # Imported late: `--help` lists formats without numpy.
    from xpuprof.formats.exporters.cpu_regions import instruction_starts

    starts = instruction_starts(process)
    region = regions_of(selection)
    chosen = {int(r.slice): r for r in selection.representatives}
    stretches = ranges(sorted(chosen))
    lengths: list[int] = []
    at = 0
    lines = ["stretch,region,slice,first_instruction,instructions,multiplier"]
    for number, (first, last) in enumerate(stretches, start=1):
        begin, end = int(starts[first]), int(starts[last + 1])
        if end == begin:
            raise InputError(f"slice {first} has no CPU instructions, so zsim cannot simulate it")
        lengths += [begin - at, end - begin]
        at = end
        for row in range(first, last + 1):
            r = chosen[row]
            lines.append(
                f"{number},{region[id(r)]},{row},{int(starts[row])},"
                f"{int(starts[row + 1] - starts[row])},{r.multiplier!r}"
            )
    fast_forward = lengths[0] > 0
    points = " ".join(str(n) for n in (lengths if fast_forward else lengths[1:]))
    text = (
        "# Put these two lines into process0 of the zsim configuration.\n"
        f"startFastForwarded = {str(fast_forward).lower()};\n"
        f'ffiPoints = "{points}";\n'
    )
    weights = file.with_name(file.name + ".weights.csv")
    return write_files({file: text, weights: "\n".join(lines) + "\n"}, force)


FORMAT = Exporter(
    name="zsim",
    help="OUT, ffiPoints for zsim",
    write=lambda source, out, options: write(source.selection, source.process, out, options.force),
    needs=Needs.VECTORS,
    per_process=True,
    use="put {out} into process0 of zsim.cfg, zsim zsim.cfg",
    results="FILE",
)
