# SPDX-License-Identifier: Apache-2.0
"""Nsight Compute: a script that collects counters of the chosen launches only, one ncu run a kernel
name, because --kernel-id takes one name; `xpuprof estimate` reads the CSV files that it writes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from xpuprof.formats.exporters.kernel_lists import calls, exactly, write_script
from xpuprof.formats.format import LaunchExporter

if TYPE_CHECKING:
    from xpuprof.selection.selection import Selection


def write(selection: Selection, folder: Path, force: bool = False) -> list[Path]:
    """Write run.sh and weights.csv into `folder`. METRICS in its environment names the counters."""
    lines = [
        "metrics=${METRICS:-gpu__time_duration.sum,smsp__inst_executed.sum,dram__bytes.sum}",
        'out=$(dirname "$0")',
    ]
    for number, (kernel, chosen) in enumerate(calls(selection).items(), start=1):
        numbers = "|".join(map(str, chosen))
        lines.append(
            "ncu --target-processes all --kernel-name-base demangled --rename-kernels no "
            f"--kernel-id '::regex:{exactly(kernel)}:^({numbers})$' "
            f'--metrics "$metrics" --csv --page raw --log-file "$out/kernel-{number}.csv" "$@"'
        )
    return write_script(selection, folder, lines, force)


FORMAT = LaunchExporter(
    name="ncu",
    help="OUT/run.sh, counters of the chosen launches by Nsight Compute",
    write=lambda source, out, options: write(source.selection, out, options.force),
    folder=True,
    use="sh {out}/run.sh{program}",
    aliases=("nsight-compute",),
)
