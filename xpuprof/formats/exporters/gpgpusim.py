# SPDX-License-Identifier: Apache-2.0
"""GPGPU-Sim: a script that runs the program in the simulator with only the chosen launches
simulated in detail; the others are executed functionally, so the chosen ones see their data.

GPGPU-Sim's own checkpoints hold one kernel a run and simulate all kernels after it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from xpuprof.formats.exporters.kernel_lists import ranges, with_warmup, write_script
from xpuprof.formats.format import LaunchExporter

if TYPE_CHECKING:
    from xpuprof.selection.selection import Selection

CONFIG = "gpgpusim.config"
LOG = "gpgpusim.log"


def write(
    selection: Selection,
    folder: Path,
    force: bool = False,
    warmup: Mapping[int, int] = MappingProxyType({}),
) -> list[Path]:
    """Write run.sh, launches.c, launches.h and weights.csv into `folder`. `warmup` launches before
    each chosen one are simulated, too: they fill the caches, and `estimate` skips them."""
    lines = [
        f'[ -f {CONFIG} ] || {{ echo "run this in a folder with a {CONFIG}" >&2; exit 2; }}',
        'out=$(cd "$(dirname "$0")" && pwd)',
        '"${CC:-cc}" -O2 -shared -fPIC -o "$out/launches.so" "$out/launches.c"',
        f'LD_PRELOAD="$out/launches.so${{LD_PRELOAD:+:$LD_PRELOAD}}" "$@" >"$out/{LOG}" '
        '2>"$out/gpgpusim.err" || { code=$?; tail "$out/gpgpusim.err" >&2; exit $code; }',
        f'grep -q gpu_sim_cycle "$out/{LOG}" || {{ echo "no kernel was simulated; source '
        'setup_environment of GPGPU-Sim and run this again" >&2; exit 1; }',
    ]
    simulated = ranges(with_warmup(selection, warmup))
    more = {
        "launches.c": Path(__file__).with_suffix(".c").read_text(encoding="utf-8"),
        "launches.h": "".join(f"{{{a}, {b}}},\n" for a, b in simulated),
    }
    return write_script(selection, folder, lines, force, more)


FORMAT = LaunchExporter(
    name="gpgpusim",
    help="OUT/run.sh, simulates only the chosen launches in GPGPU-Sim",
    write=lambda source, out, options: write(
        source.selection, out, options.force, source.warmup(options, device=True)
    ),
    folder=True,
    takes=frozenset({"warmup", "warm_cache"}),
    use="sh {out}/run.sh{program}",
    aliases=("gpgpu-sim",),
)
