# SPDX-License-Identifier: Apache-2.0
"""A log of GPGPU-Sim or Accel-Sim as a profile: every simulated kernel with its cycles and
counters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xpuprof.formats.format import Head, Importer, Match
from xpuprof.formats.gpgpusim_log import KERNEL, parse
from xpuprof.formats.importers.table import Places, write
from xpuprof.inputs import Source

if TYPE_CHECKING:
    from xpuprof.trace.imported import ImportWriter

CYCLES = "gpu_sim_cycle"
ADVICE = "name the simulator's standard output"


def load(source: Source, writer: ImportWriter) -> None:
    """Import a log. Raises InputError when it has no finished kernel or not every one."""
    kernels = parse(source, every=True)
    if not kernels or any(CYCLES not in kernel.metrics for kernel in kernels):
        source.refuse(f"has no kernel with {CYCLES}, so it is not a whole log; {ADVICE}")
    names = [
        name
        for name in kernels[0].metrics
        if all(name in kernel.metrics for kernel in kernels)
        and any(kernel.metrics[name] for kernel in kernels)
    ]
    columns: dict[str, list[Any]] = {
        "name": [kernel.name for kernel in kernels],
        "grid": [kernel.grid for kernel in kernels],
        "block": [kernel.block for kernel in kernels],
    }
    others = [*columns, CYCLES]
    columns |= {name: [kernel.metrics[name] for kernel in kernels] for name in names}
    writer.units["cycles"] = "cycle"
    places = Places(kernel="name", time=CYCLES, measure="cycles", grid=["grid"], block=["block"])
    write(source, writer, iter([columns]), places, others=others, advice=ADVICE)


def _match(head: Head) -> Match:
    marks = (f"{KERNEL} =", "GPGPU-Sim", "Accel-Sim")
    return Match.YES if any(mark in head.text for mark in marks) else Match.NO


FORMAT = Importer(
    name="gpgpusim",
    help="a log of GPGPU-Sim or Accel-Sim",
    load=load,
    match=_match,
    aliases=("accelsim", "gpgpu-sim"),
)
