# SPDX-License-Identifier: Apache-2.0
"""rocprofiler-compute: a script that profiles the chosen launches only, one workload a kernel name.
Since version 3.5.0 (ROCm 7.12) its --dispatch takes the launches of the named kernel from 1, as `3`
and `5:7`; earlier versions counted from 0."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from xpuprof.formats.exporters.kernel_lists import calls, exactly, ranges, write_script
from xpuprof.formats.format import LaunchExporter

if TYPE_CHECKING:
    from xpuprof.selection.selection import Selection


def write(selection: Selection, folder: Path, force: bool = False) -> list[Path]:
    """Write run.sh and weights.csv into `folder`."""
    lines = ["# Needs rocprofiler-compute 3.5.0 or later.", 'out=$(dirname "$0")']
    for number, (kernel, chosen) in enumerate(calls(selection).items(), start=1):
        numbers = " ".join(str(a) if a == b else f"{a}:{b}" for a, b in ranges(chosen))
        lines.append(
            f'rocprof-compute profile --output-directory "$out/kernel-{number}" --no-roof '
            f"-k '{exactly(kernel)}' -d {numbers} -- \"$@\""
        )
    return write_script(selection, folder, lines, force)


FORMAT = LaunchExporter(
    name="rocprof-compute",
    help="OUT/run.sh, the chosen launches by rocprofiler-compute",
    write=lambda source, out, options: write(source.selection, out, options.force),
    folder=True,
    use="sh {out}/run.sh{program}",
    aliases=("rocprofiler-compute", "omniperf"),
)
