# SPDX-License-Identifier: Apache-2.0
"""Facts about the machine for the manifest."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

import psutil

# Variables that affect the program or its device runtime; others stay private.
ENVIRONMENT = (
    "CL_CONFIG_",
    "CUDA_",
    "GOMP_",
    "KMP_",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "MKL_",
    "NVIDIA_",
    "OCL_ICD_",
    "OMP_",
    "OPENBLAS_",
    "OPENCL_",
    "POCL_",
    "PYOPENCL_",
    "PYTHONHASHSEED",
    "SYCL_",
    "UR_",
    "XPUPROF_",
)


def environment() -> dict[str, str]:
    """The allow-listed variables that are set."""
    return {name: text for name, text in sorted(os.environ.items()) if name.startswith(ENVIRONMENT)}


def machine() -> dict[str, Any]:
    """Host, processor, cores, memory (bytes), kernel and distribution."""
    return {
        "host": platform.node(),
        "cpu": _cpu_model(),
        "architecture": platform.machine(),
        "cores": psutil.cpu_count(logical=False) or os.cpu_count(),
        "logical_cores": os.cpu_count(),
        "memory": psutil.virtual_memory().total,
        "kernel": platform.release(),
        "os": _distribution(),
    }


def _cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor()


def _distribution() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    except OSError:
        return platform.system()
