# SPDX-License-Identifier: Apache-2.0
"""Results from a log of Accel-Sim or GPGPU-Sim."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xpuprof.formats.format import Found, ResultReader
from xpuprof.formats.gpgpusim_log import KERNEL, parse
from xpuprof.inputs import Source
from xpuprof.trace.kernel_names import brief

if TYPE_CHECKING:
    from xpuprof.selection.selection import Selection


def _read_regions(source: Source, selection: Selection) -> list[Found]:
    # Imported late: `--help` lists formats without numpy.
    from xpuprof.trace.coordinates import NO_KERNELS

    kernels = parse(source)
    if not kernels:
        return []
    with_kernel = [
        i for i, r in enumerate(selection.representatives) if r.end.kernel not in NO_KERNELS
    ]
    if any(r.process for r in selection.representatives):
        source.refuse(
            "numbers the kernels of one process, as every Accel-Sim log; put it into the folder of "
            f"its process that `xpuprof export` makes ({selection.identity.processes[0].label})"
        )
    if all(kernel.launch is not None for kernel in kernels):
        by_launch = {
            int(selection.launch_ending(selection.representatives[i])) + 1: i for i in with_kernel
        }
        # Others are warm-up, or all launches were simulated.
        kernels = [kernel for kernel in kernels if kernel.launch in by_launch]
        places = [by_launch[kernel.launch] for kernel in kernels if kernel.launch]
        for kernel, place in zip(kernels, places, strict=True):
            expected = selection.representatives[place].end.kernel
            if brief(expected) not in kernel.name:
                source.refuse(
                    f"has {kernel.name[:80]} as kernel {kernel.launch}, where the selection has "
                    f"{expected[:80]}; name the log of the same program with the same arguments"
                )
    elif len(kernels) == len(with_kernel):
        places = with_kernel
    else:
        source.refuse(
            f"has {len(kernels)} kernels for {len(with_kernel)} regions with a kernel; simulate "
            "the list that `xpuprof export --format accelsim` writes"
        )
    return [(place, kernel.metrics) for place, kernel in zip(places, kernels, strict=True)]


FORMAT = ResultReader(
    name="accelsim",
    help="an Accel-Sim log",
    read=_read_regions,
    mark=KERNEL,
    kernels=True,
)
