"""What Accel-Sim (GPGPU-Sim) prints: a block of statistics at the end of every kernel.

Some numbers are the kernel's own, most run on over all kernels and are made the kernel's by taking
the block before off, as Accel-Sim's own get_stats.py does.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from xpuprof.errors import InputError

KERNEL = "kernel_launch_uid"

_OWN = re.compile(r"(gpu_sim_cycle|gpu_sim_insn|gpu_ipc|gpu_occupancy|L2_BW)\s*=\s*([-+.\deE]+)")
_RUNNING = re.compile(
    r"\s*(gpgpu_n_\w+|gpu_stall_\w+|total dram (?:reads|writes)|\w+_stats_breakdown\[\w+\]\[\w+\])"
    r"\s*=\s*(\d+)\s*$"
)
_LOADED = re.compile(r"Header info loaded for kernel command : .*?kernel-(\d+)[^/]*$")
_NAME = re.compile(r"kernel_name\s*=\s*(.*)")
_UID = re.compile(r"kernel_launch_uid\s*=\s*(\d+)")
_BREAK = "break due to reaching the maximum cycles"


@dataclass
class SimulatedKernel:
    """`launch`: number of the launch in the traced run (from 1), None when the log does not say."""

    name: str
    launch: int | None = None
    metrics: dict[str, float] = field(default_factory=dict)


def parse(file: str, text: str) -> list[SimulatedKernel]:
    """The finished kernels. InputError when the simulation was cut off in the middle of one."""
    kernels: list[SimulatedKernel] = []
    running: list[dict[str, float]] = []
    loaded: list[int] = []
    for line in text.splitlines():
        if found := _LOADED.match(line):
            loaded.append(int(found[1]))
        elif found := _NAME.match(line):
            kernels.append(SimulatedKernel(found[1].strip()))
            running.append({})
        elif not kernels:
            continue
        elif found := _UID.match(line):
            uid = int(found[1])
            kernels[-1].launch = loaded[uid - 1] if 1 <= uid <= len(loaded) else None
        elif found := _OWN.match(line):
            kernels[-1].metrics[found[1]] = float(found[2])
        elif found := _RUNNING.match(line):
            running[-1][found[1]] = float(found[2])
        elif _BREAK in line:
            raise InputError(
                f"{file}: kernel {kernels[-1].name} was cut off (the maximum of cycles or "
                "instructions was reached); raise -gpgpu_max_cycle and simulate it again"
            )
    before: dict[str, float] = {}
    for kernel, totals in zip(kernels, running, strict=True):
        for name, total in totals.items():
            kernel.metrics[name] = total - before.get(name, 0.0)
        before |= totals
    return kernels
