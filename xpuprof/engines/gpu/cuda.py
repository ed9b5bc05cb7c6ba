# SPDX-License-Identifier: Apache-2.0
"""The GPU engine `cuda`: launch record and timer for NVIDIA devices, by CUPTI. It counts no blocks.
It is the timer of engine `nvbit`; alone it serves the methods that need only times (stem-root,
allegro, random)."""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Mapping
from pathlib import Path

from xpuprof.engines.base import Engine, GpuEngine, GpuOptions, Mode, Probe, Timer
from xpuprof.engines.filters import AFTER_WINDOW, SCOPE
from xpuprof.engines.native import native_file, unbuilt

LIBRARY = "libxpuprof_cuda.so"
CUDA_TOOL = ("InitializeInjection", "nvbit_at_init", "nvbit_at_cuda_event")
"""Functions that the CUDA driver or NVBit calls in a tool."""
STATE = "run on an H200 with CUDA 13.0 (docs/cuda.md)"
ADVICE_BUILD = (
    "install CUDA's headers (`pip install xpuprof[cuda]`, or a CUDA toolkit with CUDA_HOME set), "
    "then install xpuprof again so that its timer is built"
)
ADVICE_CUPTI = "run `pip install xpuprof[cuda]`, or install a CUDA toolkit"
ADVICE_DRIVER = "install NVIDIA's driver and check with `nvidia-smi` that it sees a GPU"


def cupti_library() -> Path | None:
    """CUPTI: the file that XPUPROF_CUPTI names, PyPI's nvidia-cuda-cupti, or a toolkit's."""
    if chosen := os.environ.get("XPUPROF_CUPTI"):
        return Path(chosen) if Path(chosen).is_file() else None
    packages = Path(sysconfig.get_path("purelib")) / "nvidia"
    folders = [packages / "cu13" / "lib", packages / "cuda_cupti" / "lib"]
    for name in ("CUDA_HOME", "CUDA_PATH"):
        if home := os.environ.get(name):
            folders += [Path(home) / "lib64", Path(home) / "extras" / "CUPTI" / "lib64"]
    folders += [Path("/usr/local/cuda/lib64"), Path("/usr/local/cuda/extras/CUPTI/lib64")]
    found = (library for folder in folders for library in sorted(folder.glob("libcupti.so.[0-9]*")))
    return next(found, None)


class Cuda(GpuEngine):
    """Records every kernel launch of the CUDA driver, with the device's times. Timer mode async
    adds no synchronisation."""

    name = "cuda"
    runtimes = ("libcuda.so", "libcudart.so")
    honours = SCOPE | AFTER_WINDOW
    in_cuda_driver = True
    rivals = CUDA_TOOL

    def probe(self) -> Probe:
        parts = _parts()
        return _on_device(self.name, parts.details) if parts.available else parts

    def environment(
        self, mode: Mode, timer: Timer, execution_dir: Path, options: GpuOptions
    ) -> dict[str, str]:
        """Makes the driver load the timer. Raises EngineError when it cannot be used here."""
        probe = self.usable()
        return {
            "CUDA_INJECTION64_PATH": probe.details["library"],
            "XPUPROF_CUPTI": probe.details["cupti"],
        }


def _parts() -> Probe:
    """The timer as far as it needs no device."""
    if missing := unbuilt(LIBRARY):
        return Probe(Cuda.name, False, missing, ADVICE_BUILD)
    details = {"library": str(native_file(LIBRARY)), "state": STATE}
    cupti = cupti_library()
    if cupti is None:
        return Probe(Cuda.name, False, ("CUPTI (libcupti.so)",), ADVICE_CUPTI, details)
    return Probe(Cuda.name, True, details=details | {"cupti": str(cupti)})


def _on_device(name: str, details: Mapping[str, str]) -> Probe:
    from xpuprof.engines.cuda_driver import device_probe  # would lengthen completion

    return device_probe(
        name, details, f"{ADVICE_DRIVER}. State of engine {name}: {details['state']}"
    )


def probe_with_timer(name: str, details: Mapping[str, str]) -> Probe:
    """The probe of an engine that is built, and whose timer runs are this engine's."""
    timer = _parts()
    if not timer.available:
        return Probe(name, False, timer.missing, timer.advice, dict(details))
    return _on_device(name, details)


ENGINE = Engine(Cuda, preference=20, help="NVIDIA: launches and times by CUPTI; counts no blocks")
