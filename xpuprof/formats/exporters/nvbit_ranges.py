# SPDX-License-Identifier: Apache-2.0
"""NVBit tools that instrument a range of launches: one block of shell variables per region.

| variable | tools | counts launches |
|---|---|---|
| KERNEL_BEGIN, KERNEL_END | NVBit's own samples, MacSim's tracer | from 0, the end not in it |
| DYNAMIC_KERNEL_LIMIT_START, _END | Accel-Sim's tracer before ranges | from 1, the end in it |
| DYNAMIC_KERNEL_RANGE | Accel-Sim's tracer | from 1, all regions in one run |
| CUTRACER_KERNEL_FILTERS | CUTracer | by name, apart by commas |
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from xpuprof.formats.exporters.kernel_lists import kernel_range, launched, regions_of, weights_csv
from xpuprof.formats.format import LaunchExporter
from xpuprof.formats.output import write_files

if TYPE_CHECKING:
    from xpuprof.selection.selection import Selection


def write(selection: Selection, folder: Path, force: bool = False) -> list[Path]:
    """Write all.env (one run for all regions), region-<n>.env and weights.csv into `folder`; with
    `force` the regions of an earlier selection that this one lacks are removed."""
    chosen = launched(selection)
    place = regions_of(selection)
    names = dict.fromkeys(_function(r.end.kernel) for _, r in chosen)
    texts = {
        folder / "all.env": (
            f"DYNAMIC_KERNEL_RANGE={_quoted(kernel_range([launch + 1 for launch, _ in chosen]))}\n"
            f"CUTRACER_KERNEL_FILTERS={_quoted(','.join(names))}\n"
        ),
        folder / "weights.csv": weights_csv(selection),
    }
    for launch, r in chosen:
        texts[folder / f"region-{place[id(r)]}.env"] = (
            f"# {' '.join(r.end.kernel.split())}, call {r.end.call}, multiplier {r.multiplier!r}\n"
            f"KERNEL_BEGIN={launch}\n"
            f"KERNEL_END={launch + 1}\n"
            f"DYNAMIC_KERNEL_LIMIT_START={launch + 1}\n"
            f"DYNAMIC_KERNEL_LIMIT_END={launch + 1}\n"
            f"CUTRACER_KERNEL_FILTERS={_quoted(_function(r.end.kernel))}\n"
        )
    written = write_files(texts, force)
    for path in folder.glob("region-*.env") if force else ():
        if path not in texts and path.stem.removeprefix("region-").isdecimal():
            path.unlink()
    return written


def _function(name: str) -> str:
    """The name up to its arguments: CUTracer matches substrings, separated by commas."""
    return name.split("(")[0].split("<")[0].split(",")[0].strip() or name


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


FORMAT = LaunchExporter(
    name="nvbit",
    help="OUT/all.env and region-N.env, kernel ranges of NVBit tools",
    write=lambda source, out, options: write(source.selection, out, options.force),
    folder=True,
    use="(set -a; . {out}/all.env; LD_PRELOAD=TOOL.so {command})",
    results="FILE",
)
