# SPDX-License-Identifier: Apache-2.0
"""MacSim: the list of sampled kernels that its NVBit trace generator reads (SAMPLED_KERNEL_INFO).

Two lines of text, then one line per cluster: its size, the number of samples, and the 0-based
launches. The reader stops at the first empty line and expects exactly that number of launches. A
launch drawn several times is repeated.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from xpuprof.formats.exporters.kernel_lists import launched, weights_csv
from xpuprof.formats.format import LaunchExporter
from xpuprof.formats.output import write_files

if TYPE_CHECKING:
    from xpuprof.selection.selection import Selection


def write(selection: Selection, file: Path, force: bool = False) -> list[Path]:
    """Write `file` and `file`.weights.csv; returns their paths."""
    clusters: dict[int, list[int]] = {}
    for launch, r in launched(selection):
        clusters.setdefault(r.cluster, []).extend([launch] * r.draws)
    lines = [
        f"Kernels chosen by xpuprof, method {selection.method}, seed {selection.seed}.",
        "A line a cluster: slices in it, samples, launches from 0.",
    ]
    for cluster, launches in clusters.items():
        size = int((selection.labels == cluster).sum())
        lines.append(" ".join(str(n) for n in (size, len(launches), *launches)))
    weights = file.with_name(file.name + ".weights.csv")
    return write_files({file: "\n".join(lines) + "\n", weights: weights_csv(selection)}, force)


FORMAT = LaunchExporter(
    name="macsim",
    help="OUT, sampled kernels for MacSim's tracer",
    write=lambda source, out, options: write(source.selection, out, options.force),
    use="SAMPLED_KERNEL_INFO={out} TRACE_PATH=traces CUDA_INJECTION64_PATH=main.so {command}, "
    "simulate the traces",
    results="FILE",
)
