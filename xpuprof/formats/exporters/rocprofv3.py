# SPDX-License-Identifier: Apache-2.0
"""rocprofv3: a script that collects counters of the chosen launches only, one run a kernel name.
Its iteration ranges count the launches of each matching kernel from 1."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from xpuprof.formats.exporters.kernel_lists import calls, exactly, ranges, write_script
from xpuprof.formats.format import LaunchExporter

if TYPE_CHECKING:
    from xpuprof.selection.selection import Selection


def write(selection: Selection, folder: Path, force: bool = False) -> list[Path]:
    """Write run.sh and weights.csv into `folder`. COUNTERS in its environment names the
    counters."""
    lines = ["counters=${COUNTERS:-SQ_WAVES SQ_INSTS_VALU GRBM_GUI_ACTIVE}", 'out=$(dirname "$0")']
    for number, (kernel, chosen) in enumerate(calls(selection).items(), start=1):
        lines.append(
            f"rocprofv3 --pmc $counters --kernel-include-regex '{exactly(kernel)}' "
            f"--kernel-iteration-range '{_range(chosen)}' "
            f'--output-format csv -d "$out" -o kernel-{number} -- "$@"'
        )
    return write_script(selection, folder, lines, force)


def _range(chosen: list[int]) -> str:
    """`[1, [3-4]]`."""
    parts = [str(a) if a == b else f"[{a}-{b}]" for a, b in ranges(chosen)]
    return f"[{', '.join(parts)}]"


FORMAT = LaunchExporter(
    name="rocprofv3",
    help="OUT/run.sh, counters of the chosen launches by rocprofv3",
    write=lambda source, out, options: write(source.selection, out, options.force),
    folder=True,
    use="sh {out}/run.sh{program}",
    aliases=("rocprof",),
)
