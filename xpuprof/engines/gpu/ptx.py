# SPDX-License-Identifier: Apache-2.0
"""The GPU engine `ptx`: block vectors of NVIDIA kernels that carry PTX, without a closed kit. Our
library takes the place of libcuda.so.1 in the library search path and rewrites what programs load.
Engine `cuda` does the timer runs."""

from __future__ import annotations

import os
from pathlib import Path

from xpuprof.engines.base import Engine, GpuEngine, GpuOptions, Mode, Probe, Timer
from xpuprof.engines.filters import AFTER_WINDOW, KERNELS, SCOPE
from xpuprof.engines.gpu.cuda import CUDA_TOOL, Cuda, probe_with_timer
from xpuprof.engines.native import native_file, unbuilt

LIBRARY = "libxpuprof_ptx.so"
STATE = "exact on an H200 with driver 580, and against an emulator of PTX (docs/ptx.md)"
ADVICE_BUILD = (
    "install CUDA's headers (`pip install xpuprof[cuda]`, or a CUDA toolkit with CUDA_HOME set), "
    "then install xpuprof again"
)


class Ptx(GpuEngine):
    """Counters in the threads' registers, added to rows of warps when threads leave. `profile`
    only; the timer is CUPTI's."""

    name = "ptx"
    runtimes = ("libcuda.so", "libcudart.so")
    honours = SCOPE | AFTER_WINDOW | KERNELS
    in_cuda_driver = True
    rivals = CUDA_TOOL

    def probe(self) -> Probe:
        if missing := unbuilt(LIBRARY):
            return Probe(self.name, False, missing, ADVICE_BUILD)
        details = {"library": str(native_file(LIBRARY)), "state": STATE}
        return probe_with_timer(self.name, details)

    def environment(
        self, mode: Mode, timer: Timer, execution_dir: Path, options: GpuOptions
    ) -> dict[str, str]:
        """Makes programs find our library as the driver, or the timer. Raises EngineError."""
        if mode == "time":
            return Cuda().environment(mode, timer, execution_dir, options)
        self.usable()
        folder = driver_folder(execution_dir)
        path = [str(folder), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
        return {"LD_LIBRARY_PATH": ":".join(path)}


def driver_folder(execution_dir: Path) -> Path:
    """A folder with our library under the driver's name, and the driver under the name by which our
    library finds it."""
    from xpuprof.engines.cuda_driver import driver  # would lengthen completion

    found = driver()
    real = Path(found.path).resolve() if found else None
    folder = execution_dir.resolve() / "cuda-driver"
    folder.mkdir(exist_ok=True)
    links = {
        "libcuda.so.1": native_file(LIBRARY),
        "libcuda.so": native_file(LIBRARY),
        "libxpuprof_driver.so": real,
        "libxpuprof_rt.so": native_file("libxpuprof_rt.so"),
    }
    for name, target in links.items():
        if target is not None and not (folder / name).is_symlink():
            (folder / name).symlink_to(target)
    return folder


ENGINE = Engine(Ptx, preference=25, help="NVIDIA: block vectors of kernels that carry PTX")
