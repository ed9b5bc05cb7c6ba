# SPDX-License-Identifier: Apache-2.0
"""Output of Accel-Sim (GPGPU-Sim): a block of statistics at the end of every kernel.

Some numbers cover the kernel only; most accumulate over all kernels, so the previous block is
subtracted, as in Accel-Sim's get_stats.py.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from xpuprof.formats.format import Found, ResultReader
from xpuprof.inputs import Source, finite, whole

if TYPE_CHECKING:
    from xpuprof.selection.selection import Selection

KERNEL = "kernel_launch_uid"

_OWN = re.compile(r"(gpu_sim_cycle|gpu_sim_insn|gpu_ipc|gpu_occupancy|L2_BW)\s*=\s*([-+.\deE]+)")
_RUNNING = re.compile(
    r"\s*(gpgpu_n_\w+|gpu_stall_\w+|total dram (?:reads|writes)|\w+_stats_breakdown\[\w+\]\[\w+\])"
    r"\s*=\s*(\d+)\s*$"
)
_LOADED = "Header info loaded for kernel command : "
_FILE = re.compile(r"kernel-(\d+)")
_NAME = re.compile(r"kernel_name\s*=\s*(.*)")
_UID = re.compile(r"kernel_launch_uid\s*=\s*(\d+)")
KERNEL_COST, VALUE_COST = 1000, 200
"""Memory in bytes of a kernel and of a value."""
MOST_KERNELS = 1 << 31
_BREAK = "break due to reaching the maximum cycles"


@dataclass
class SimulatedKernel:
    """`launch`: 1-based launch number in the traced run, None if the log lacks it."""

    name: str
    launch: int | None = None
    metrics: dict[str, float] = field(default_factory=dict)


def parse(source: Source) -> list[SimulatedKernel]:
    """The finished kernels. Raises InputError when the simulation stopped in the middle of one."""
    kernels: list[SimulatedKernel] = []
    running: list[dict[str, float]] = []
    loaded: list[int | None] = []
    with source.lines() as lines:
        for line in lines:
            if line.startswith(_LOADED):
                if found := _FILE.search(line.rpartition("/")[2]):
                    source.hold(VALUE_COST)
                    loaded.append(whole(found[1], 1, MOST_KERNELS))
            elif found := _NAME.match(line):
                source.hold(KERNEL_COST)
                kernels.append(SimulatedKernel(found[1].strip()))
                running.append({})
            elif not kernels:
                continue
            elif found := _UID.match(line):
                uid = whole(found[1], 1, len(loaded))
                kernels[-1].launch = loaded[uid - 1] if uid else None
            elif (found := _OWN.match(line)) or (found := _RUNNING.match(line)):
                value = finite(found[2])
                if value is not None:  # a rate of 0/0 is printed as -nan
                    source.hold(VALUE_COST)
                    own = found.re is _OWN
                    (kernels[-1].metrics if own else running[-1])[found[1]] = value
            elif _BREAK in line:
                source.refuse(
                    f"cuts off kernel {kernels[-1].name[:80]} (the maximum of cycles or "
                    "instructions was reached); raise -gpgpu_max_cycle and simulate it again"
                )
    before: dict[str, float] = {}
    for kernel, totals in zip(kernels, running, strict=True):
        for name, total in totals.items():
            kernel.metrics[name] = total - before.get(name, 0.0)
        before |= totals
    return kernels


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
            "numbers the kernels of one process, as every Accel-Sim log; select with --processes "
            "each and estimate process by process"
        )
    if all(kernel.launch is not None for kernel in kernels):
        by_launch = {
            int(selection.launch_ending(selection.representatives[i])): i for i in with_kernel
        }
        places = []
        for kernel in kernels:
            assert kernel.launch is not None
            if kernel.launch - 1 not in by_launch:
                source.refuse(
                    f"has kernel {kernel.launch} ({kernel.name[:80]}), which is not a region of "
                    "the selection; name the log of its regions"
                )
            places.append(by_launch[kernel.launch - 1])
    elif len(kernels) == len(with_kernel):
        places = with_kernel
    else:
        source.refuse(
            f"has {len(kernels)} kernels for {len(with_kernel)} regions with a kernel; simulate "
            "the list that `xpuprof export --format accelsim` writes"
        )
    found: list[Found] = [
        (place, kernel.metrics) for place, kernel in zip(places, kernels, strict=True)
    ]
    # A kernel simulator has nothing to simulate between the last kernel and program exit.
    nothing = dict.fromkeys(found[0][1], 0.0)
    return found + [
        (place, nothing)
        for place in range(len(selection.representatives))
        if place not in with_kernel
    ]


FORMAT = ResultReader(
    name="accelsim",
    help="an Accel-Sim log",
    read=_read_regions,
    mark=KERNEL,
)
