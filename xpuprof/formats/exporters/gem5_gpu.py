# SPDX-License-Identifier: Apache-2.0
"""gem5's GPU model: a script that simulates the chosen launches only, one run a launch, by
`--skip-until-gpu-kernel` and `--exit-after-gpu-kernel` of configs/example/gpufs/runfs.py.

gem5 numbers launches from 0 and does not count the runtime's own copy kernels. It leaves skipped
kernels out altogether, so a kernel reads what the host wrote, not what earlier kernels computed.
"""

from __future__ import annotations

from bisect import bisect_left
from pathlib import Path
from typing import TYPE_CHECKING

from xpuprof.errors import InputError
from xpuprof.formats.exporters.kernel_lists import launched, regions_of, weights_csv
from xpuprof.formats.format import LaunchExporter
from xpuprof.formats.output import write_files

if TYPE_CHECKING:
    from xpuprof.selection.selection import Selection

RUNTIMES_OWN = "__amd_rocclr_"
"""How the names of ROCm's copy and fill kernels begin."""


def write(selection: Selection, folder: Path, force: bool = False) -> list[Path]:
    """Write run.sh and weights.csv into `folder`. Raises InputError for a copy kernel of ROCm."""
    place = regions_of(selection)
    lines = [
        "#!/bin/sh",
        "set -e",
        '[ $# -gt 1 ] || { echo "usage: sh $0 gem5.opt CONFIG.py [OPTION]..." >&2; exit 2; }',
        'out=$(dirname "$0")',
        "gem5=$1",
        "shift",
    ]
    copies = _copies(selection)
    for launch, r in launched(selection):
        if r.end.kernel.startswith(RUNTIMES_OWN):
            raise InputError(
                f"the selection has {r.end.kernel}, a copy kernel of ROCm, which gem5 does not "
                "number; select from a run without such kernels"
            )
        number = launch - bisect_left(copies, launch)
        lines.append(
            f'"$gem5" -d "$out/region-{place[id(r)]}" "$@" '
            f"--skip-until-gpu-kernel {number} --exit-after-gpu-kernel {number}"
        )
    return write_files(
        {
            folder / "run.sh": "\n".join(lines) + "\n",
            folder / "weights.csv": weights_csv(selection),
        },
        force,
    )


def _copies(selection: Selection) -> list[int]:
    """The launches of ROCm's copy kernels, ascending."""
    # Imported late: `--help` lists formats without numpy.
    from xpuprof.trace.run_lengths import decode_runs

    sequence = selection.identity.sequence
    if not sequence:
        return []
    own = [kind.kernel.startswith(RUNTIMES_OWN) for kind in sequence.kinds]
    order = decode_runs(sequence.order, selection.slices).tolist()
    return [launch for launch, code in enumerate(order) if own[code]]


FORMAT = LaunchExporter(
    name="gem5-gpu",
    help="OUT/run.sh, the chosen launches in gem5's GPU model",
    write=lambda source, out, options: write(source.selection, out, options.force),
    folder=True,
    use="sh {out}/run.sh gem5.opt configs/example/gpufs/mi300.py --disk-image DISK --kernel LINUX "
    "--app {app} --opts {arguments}",
)
