# SPDX-License-Identifier: Apache-2.0
"""Output of Accel-Sim (GPGPU-Sim): a block of statistics at the end of every kernel.

Some numbers cover the kernel only; most accumulate over all kernels, so the previous block is
subtracted, as in Accel-Sim's get_stats.py. Breakdowns accumulate over the kernels of a stream, from
version 4.2 on.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from xpuprof.inputs import Source, finite, whole

KERNEL = "kernel_launch_uid"

_OWN = re.compile(r"(gpu_sim_cycle|gpu_sim_insn|gpu_ipc|gpu_occupancy|L2_BW)\s*=\s*([-+.\deE]+)")
_RUNNING = re.compile(
    r"\s*(gpgpu_n_\w+|gpu_stall_\w+|total dram (?:reads|writes)"
    r"|L(?:1D|2)_total_cache_(?:accesses|misses)|\w+_stats_breakdown\[\w+\]\[\w+\])"
    r"\s*=\s*(\d+)\s*$"
)
_LOADED = "Header info loaded for kernel command : "
_PUSHED = re.compile(
    r"GPGPU-Sim PTX: pushing kernel '.*' to stream \d+, "
    r"gridDim= (\(\d+,\d+,\d+\)) blockDim = (\(\d+,\d+,\d+\))"
)
_FILE = re.compile(r"kernel-(\d+)")
_NAME = re.compile(r"kernel_name\s*=\s*(.*)")
_UID = re.compile(r"kernel_launch_uid\s*=\s*(\d+)")
_STREAM = re.compile(r"kernel_stream_id\s*=\s*(\d+)")
KERNEL_COST, VALUE_COST = 1000, 200
"""Memory in bytes of a kernel and of a value."""
MOST_KERNELS = 1 << 31
_FUNCTIONAL = "(mode=functional simulation)"
_BREAK = "break due to reaching the maximum cycles"


@dataclass
class SimulatedKernel:
    """`launch`: 1-based launch number in the program's run, None if the log lacks it."""

    name: str
    launch: int | None = None
    grid: str = ""
    block: str = ""
    stream: str = ""
    metrics: dict[str, float] = field(default_factory=dict)


def parse(source: Source, every: bool = False) -> list[SimulatedKernel]:
    """The finished kernels. Raises InputError when the simulation stopped in the middle of one, and
    when `every` launch is wanted and some were only executed."""
    kernels: list[SimulatedKernel] = []
    running: list[dict[str, float]] = []
    loaded: list[int | None] = []
    shapes: list[tuple[str, str]] = []
    with source.lines() as lines:
        for line in lines:
            if line.startswith(_LOADED):
                if found := _FILE.search(line.rpartition("/")[2]):
                    source.hold(VALUE_COST)
                    loaded.append(whole(found[1], 1, MOST_KERNELS))
            elif found := _PUSHED.match(line):
                source.hold(VALUE_COST)
                shapes.append((found[1], found[2]))
            elif found := _NAME.match(line):
                source.hold(KERNEL_COST)
                kernels.append(SimulatedKernel(found[1].strip()))
                running.append({})
            elif every and _FUNCTIONAL in line:
                source.refuse(
                    "holds launches that were executed without being simulated; name the log of a "
                    "simulation of all launches"
                )
            elif not kernels:
                continue
            elif found := _UID.match(line):
                if uid := whole(found[1], 1, len(loaded)):
                    kernels[-1].launch = loaded[uid - 1]
                if uid := whole(found[1], 1, len(shapes)):
                    kernels[-1].launch = uid
                    kernels[-1].grid, kernels[-1].block = shapes[uid - 1]
            elif found := _STREAM.match(line):
                kernels[-1].stream = found[1]
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
    before: dict[tuple[str, str], float] = {}
    for kernel, totals in zip(kernels, running, strict=True):
        for name, total in totals.items():
            key = (kernel.stream if "_breakdown[" in name else "", name)
            kernel.metrics[name] = total - before.get(key, 0.0)
            before[key] = total
    return kernels
