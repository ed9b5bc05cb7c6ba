# SPDX-License-Identifier: Apache-2.0
"""The GPU engine `nvbit`: exact per-warp block vectors of SASS kernels on NVIDIA devices. The tool
is built if NVBIT_ROOT names a kit. Engine `cuda` does the timer runs."""

from __future__ import annotations

import os
import shutil
import sysconfig
from pathlib import Path

from xpuprof.engines.base import Engine, GpuEngine, GpuOptions, Mode, Probe, Timer
from xpuprof.engines.filters import AFTER_WINDOW, KERNELS, SCOPE
from xpuprof.engines.gpu.cuda import CUDA_TOOL, Cuda, probe_with_timer
from xpuprof.engines.native import native_file, unbuilt

LIBRARY = "libxpuprof_nvbit.so"
STATE = "exact on an H200 with kit 1.7.7.1 and driver 580 (docs/nvbit.md)"
ADVICE_BUILD = (
    "unpack an NVBit release (1.7.5 or later) from github.com/NVlabs/NVBit/releases, install the "
    "CUDA toolkit's compiler, set NVBIT_ROOT to the folder that holds core/, then install xpuprof "
    f"again. State: {STATE}"
)
ADVICE_TOOLS = "run `pip install xpuprof[cuda]`, or put a CUDA toolkit's bin folder on PATH"

KIT = {"NOBANNER": "1", "ACK_CTX_INIT_LIMITATION": "1"}
"""NVBit prints to the program's stdout unless these are set."""


def cuda_program(name: str) -> Path | None:
    """A program of the CUDA toolkit that NVBit runs: XPUPROF_<NAME>, PATH, PyPI, or a toolkit."""
    candidates = [os.environ.get(f"XPUPROF_{name.upper()}"), shutil.which(name)]
    folder = Path(sysconfig.get_path("purelib")) / "nvidia" / "cu13" / "bin"
    candidates += [str(folder / name), f"/usr/local/cuda/bin/{name}"]
    return next((Path(c) for c in candidates if c and Path(c).is_file()), None)


class Nvbit(GpuEngine):
    """Counters in device memory, one per (warp, block), read once per launch. `profile` only; the
    timer is CUPTI's."""

    name = "nvbit"
    runtimes = ("libcuda.so", "libcudart.so")
    honours = SCOPE | AFTER_WINDOW | KERNELS
    in_cuda_driver = True
    rivals = CUDA_TOOL

    def probe(self) -> Probe:
        library = native_file(LIBRARY)
        if missing := unbuilt(LIBRARY):
            return Probe(self.name, False, missing, ADVICE_BUILD)
        details = {"library": str(library), "state": STATE}
        programs = {name: cuda_program(name) for name in ("nvdisasm", "cuobjdump")}
        if missing := tuple(name for name, path in programs.items() if path is None):
            return Probe(self.name, False, missing, ADVICE_TOOLS, details)
        details |= {name: str(path) for name, path in programs.items()}
        return probe_with_timer(self.name, details)

    def environment(
        self, mode: Mode, timer: Timer, execution_dir: Path, options: GpuOptions
    ) -> dict[str, str]:
        """Makes the driver load the tool, or the timer. Raises EngineError."""
        if mode == "time":
            return Cuda().environment(mode, timer, execution_dir, options)
        probe = self.usable()
        environment = {
            "CUDA_INJECTION64_PATH": probe.details["library"],
            "XPUPROF_NVDISASM": probe.details["nvdisasm"],
            **KIT,
        }
        if shutil.which("cuobjdump") is None:
            # NVBit runs it by name for each context, and ends the program when it is missing.
            folder = Path(probe.details["cuobjdump"]).parent
            environment["PATH"] = f"{os.environ.get('PATH', os.defpath)}:{folder}"
        return environment


ENGINE = Engine(Nvbit, preference=10, help="NVIDIA: exact SASS block vectors; needs an NVBit kit")
