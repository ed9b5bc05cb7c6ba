# SPDX-License-Identifier: Apache-2.0
"""Runs a program natively and under the OpenCL layer, and reads the layer's record."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tests.support.probes import require_opencl
from tests.support.run import run as run_command
from xpuprof.engines.base import GpuOptions, Mode, Timer, recording
from xpuprof.trace.reader import process_folders, read_process
from xpuprof.trace.tables import GpuVectors, Process

MIX_ATOMIC = 7  # enum xp_mix
EVERY_LAUNCH = GpuOptions()


@contextmanager
def environment(
    mode: Mode, timer: Timer, folder: Path, options: GpuOptions = EVERY_LAUNCH
) -> Iterator[dict[str, str]]:
    """What a program needs to run under the layer, its instrumenter included."""
    folder.mkdir()
    added = recording(mode, timer, folder)
    added |= require_opencl().environment(mode, timer, folder, options)
    with require_opencl().start_services(mode, folder, options) as more:
        yield dict(os.environ) | added | more


@dataclass
class Ran:
    """A program's end, and the layer's record of each process."""

    done: subprocess.CompletedProcess[bytes]
    processes: list[Process]

    @property
    def process(self) -> Process:
        assert len(self.processes) == 1
        return self.processes[0]


def run(command: Sequence[str | Path], env: Mapping[str, str] | None = None) -> Ran:
    """One run without the layer, or with our environment."""
    return Ran(run_command(command, environment=env), [])


def natively(command: Sequence[str | Path], extra: Mapping[str, str] | None = None) -> Ran:
    """One run without the layer, on the runtime of layered runs."""
    with tempfile.TemporaryDirectory() as folder:
        added = require_opencl().environment("time", "async", Path(folder), GpuOptions())
        del added["OPENCL_LAYERS"]
        return run(command, dict(os.environ) | added | dict(extra or {}))


def layered(
    command: Sequence[str | Path],
    folder: Path,
    mode: Mode = "profile",
    timer: Timer = "async",
    extra: Mapping[str, str] | None = None,
) -> Ran:
    """One run under the layer."""
    with environment(mode, timer, folder) as env:
        ran = run(command, env | dict(extra or {}))
    complete = ran.done.returncode >= 0
    ran.processes = [read_process(part, mode, complete) for part in process_folders(folder)]
    return ran


def warp_atomics(gpu: GpuVectors, launch: int) -> npt.NDArray[np.int64]:
    """Atomic operations that each warp of a launch executed, warps in logical order."""
    atomics = np.zeros(len(gpu.vector_start) - 1, np.int64)
    for vector in range(len(atomics)):
        of = slice(int(gpu.vector_start[vector]), int(gpu.vector_start[vector + 1]))
        mix = gpu.mix[gpu.block[of], MIX_ATOMIC].astype(np.int64)
        atomics[vector] = (gpu.count[of].astype(np.int64) * mix).sum()
    grid = int(gpu.launch_grid[launch])
    assert grid >= 0
    runs = slice(int(gpu.grid_start[grid]), int(gpu.grid_start[grid + 1]))
    return np.repeat(atomics[gpu.run_vector[runs]], gpu.run_length[runs].astype(np.int64))
