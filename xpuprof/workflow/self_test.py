# SPDX-License-Identifier: Apache-2.0
"""Real work by every engine of this machine: the example with few particles, whose counts are
known, recorded by the commands that users have, then checked, selected from, re-timed and shown."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from xpuprof.engines.native import native_file
from xpuprof.scratch import scratch
from xpuprof.trace.run import Run
from xpuprof.trace.tables import CpuVectors, GpuVectors
from xpuprof.workflow.doctor import Diagnosis, diagnose

PROGRAM, STEPS, PARTICLES, ITEMS = "demo/particles", 20, 300, 320
"""The example (examples/particles); its launches have ITEMS work-items."""

CALLS = {"forces": STEPS + 1, "integrate": STEPS, "energy": 2}
"""Launches of each kernel."""

HALVINGS = 6
"""Turns of the loop by which a group of 64 work-items sums the energy."""

COUNTS: Mapping[str, tuple[int, ...]] = {
    "forces": (ITEMS, PARTICLES),
    "integrate": (ITEMS, PARTICLES),
    "energy": (ITEMS, PARTICLES, HALVINGS * ITEMS),
}
"""How often a launch executes some of a kernel's blocks, whatever the compiler made of the others:
the first one for every work-item, the guarded one for every particle, the body of energy's loop."""


@dataclass(frozen=True)
class Step:
    """A step of the self-test."""

    name: str
    fault: str
    """Empty if the step passed."""


def self_test() -> Iterator[Step]:
    """Do the work, step by step."""
    found = diagnose()
    for one in found.outcomes:
        yield Step(f"CUDA program under {one.cpu} and {one.gpu}", one.outcome.fault)
    if "opencl" in _usable(found, "GPU"):
        yield from _example(_usable(found, "CPU") or ["none"])
    elif not found.outcomes:
        yield Step("engines", "no GPU engine is usable here; `xpuprof doctor` says how to get one")


def _usable(found: Diagnosis, side: str) -> list[str]:
    return [e.name for e, probe in found.engines if probe.available and e.kind.side == side]


def _example(cpu_engines: list[str]) -> Iterator[Step]:
    program = ["--", str(native_file(PROGRAM)), str(STEPS), str(PARTICLES)]
    with scratch() as place:
        for cpu in cpu_engines:
            words = ["run", "-o", cpu, "--cpu", cpu, "--gpu", "opencl", "--repeat", "3", *program]
            fault = _fault(place, *words)
            yield Step(f"run with {cpu} and opencl", fault)
            if fault:
                continue
            yield Step(f"counts of {cpu} and opencl", miscount(Path(place) / cpu))
            for words in (
                ["check", cpu],
                ["select", cpu, "--method", "pka", "-o", f"{cpu}-pka"],
                ["validate", cpu, "--repeat", "3", *program],
                ["report", cpu, "-o", f"{cpu}.html"],
            ):
                yield Step(f"{words[0]} with {cpu} and opencl", _fault(place, *words))


def _fault(folder: str, *words: str) -> str:
    """Why the command failed; empty if it did not."""
    done = subprocess.run(
        [sys.executable, "-m", "xpuprof", *words],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
    )
    if done.returncode == 0:
        return ""
    last = (done.stderr.strip() or "no message").splitlines()[-1]
    return f"`xpuprof {shlex.join(words)}` ended with exit code {done.returncode}: {last}"


def miscount(folder: Path) -> str:
    """Which known count the run does not have; empty if it has all."""
    profile = Run.open(folder).profile
    if profile is None or len(profile.processes) != 1:
        return "the run has no profile of one process"
    process = profile.processes[0]
    calls = process.launches["kernel"].value_counts().to_dict()
    if calls != CALLS:
        return f"the kernels' launches are {calls}, not {CALLS}"
    if process.gpu is None:
        return "the run has no GPU vectors"
    executed = np.split(_gpu_executions(process.gpu), process.gpu.kernel_block_start[1:].tolist())
    for kernel, own in zip(process.kernels["name"].tolist(), executed, strict=False):
        for count in COUNTS[kernel]:
            if count * CALLS[kernel] not in own:
                return f"no block of {kernel} ran {count * CALLS[kernel]:,} times"
    # The call that ends a native start-up begins in it.
    counted = sum(CALLS.values()) - process.meta.native_start_up
    if process.cpu is not None and counted not in _cpu_executions(
        process.cpu, process.images["path"].str.endswith(PROGRAM).to_numpy()
    ):
        return f"no block of the program's own code ran {counted} times, as the launching one does"
    return ""


def _gpu_executions(gpu: GpuVectors) -> npt.NDArray[Any]:
    """How often the work-items executed each block, in all launches."""
    launches = np.bincount(gpu.launch_grid[gpu.launch_grid >= 0])
    warps = np.repeat(launches, np.diff(gpu.grid_start).astype(np.int64)) * gpu.run_length
    times = np.bincount(gpu.run_vector, warps)
    executions = np.repeat(times, np.diff(gpu.vector_start).astype(np.int64)) * gpu.count
    return np.bincount(gpu.block, executions, minlength=len(gpu.blocks.identity))


def _cpu_executions(cpu: CpuVectors, own: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """How often the threads executed each block of the images marked in `own`."""
    executions = np.bincount(cpu.block, cpu.count, minlength=len(cpu.blocks.identity))
    return executions if cpu.block_image is None else executions[own[cpu.block_image]]
