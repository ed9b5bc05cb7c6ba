# SPDX-License-Identifier: Apache-2.0
"""Instrument OpenCL programs and read the counters back, without the OpenCL layer."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest

os.environ["PYOPENCL_NO_CACHE"] = "1"
WARP = 32
HEADER = 8
FIRST = 10  # our counters begin after some other words
CANARY = 0xA5A5A5A5A5A5A5A5
SPIR_OPTIONS = ["-x", "spir", "-spir-std=1.2"]


LLVM = next((n for n in range(15, 20) if shutil.which(f"llvm-spirv-{n}")), 15)
"""Version of clang and of the SPIR-V translator that is installed as a program."""
CLANG, LLVM_SPIRV = f"clang-{LLVM}", f"llvm-spirv-{LLVM}"


def program() -> str:
    """The instrumenter, or skip."""
    name = "xpuprof-clinst"
    built = os.environ.get("XPUPROF_CLINST_PROGRAM") or str(files("xpuprof") / "_native" / name)
    if not Path(built).exists():
        pytest.skip(f"{name} is not built (needs LLVM, clang and the SPIR-V translator)")
    return built


POCL = "Portable Computing Language"
INTEL = "Intel(R) OpenCL"
CONTRACTS = ("--device", "contracts=1")
"""What the layer tells the instrumenter of Intel's runtime."""


def find_device(platform_name: str) -> Any:
    """pyopencl and the platform's device, or skip."""
    cl = pytest.importorskip("pyopencl")
    try:
        platforms = cl.get_platforms()
    except cl.LogicError:
        platforms = []
    for platform in platforms:
        if platform.name == platform_name:
            return cl, platform.get_devices()[0]
    how = {POCL: "pocl-opencl-icd", INTEL: "intel-opencl-rt and OCL_ICD_VENDORS"}
    pytest.skip(f"no OpenCL platform '{platform_name}' (needs {how[platform_name]})")


@dataclass
class Kernel:
    """One instrumented kernel: its description and the program that holds it."""

    name: str
    n_args: int
    n_probes: int
    scratch_probes: int
    blocks: list[dict[str, Any]]
    analytic: bool = False  # analytic counts
    sub_group: int = 0  # work-items of a warp that is a sub-group; 0: warps in linear order

    def scratch(self, cl: Any, items: int) -> Any:
        """The last of our arguments, for groups of this many work-items."""
        words = items * self.scratch_probes
        return cl.LocalMemory(8 * words) if words else np.uint64(0)


@dataclass
class Instrumented:
    """A program after the instrumenter, as bytes and as the kernels in it."""

    module: bytes
    kernels: dict[str, Kernel]


def instrument(
    source: Path | Sequence[Path],
    tmp_path: Path,
    *arguments: str,
    to: str = "bitcode",
    sub_groups: Mapping[str, int] | None = None,
) -> Instrumented:
    """Run the command line of the instrumenter over one file or, linked, several.

    `sub_groups`: size by kernel, if the device's sub-groups are the warps.
    """
    sources = [source] if isinstance(source, Path) else source
    out = tmp_path / f"out.{to}"
    inputs = [word for path in sources for word in ("--compile", str(path))]
    if sub_groups is not None:
        sizes = " ".join(f"{name}:{size}" for name, size in sub_groups.items())
        arguments = (*arguments, "--device", f"sub_group_sizes={sizes}")
    done = subprocess.run(
        [program(), *inputs, "--to", to, "-o", str(out), "--describe", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")},
    )
    assert done.returncode == 0, done.stderr
    kernels = {k["name"]: Kernel(**k) for k in json.loads(done.stdout)}
    for name, size in (sub_groups or {}).items():
        kernels[name].sub_group = size
    return Instrumented(out.read_bytes(), kernels)


class Device:
    """A context that runs kernels natively or instrumented."""

    def __init__(self, platform: str = POCL) -> None:
        self.cl, device = find_device(platform)
        self.form = "bitcode" if platform == POCL else "spirv"
        self.context = self.cl.Context([device])
        self.queue = self.cl.CommandQueue(self.context)
        self.device = device

    def build_source(self, source: str, options: Sequence[str] = ()) -> Any:
        """Native build."""
        return self.cl.Program(self.context, source).build(list(options))

    def sub_groups(self, program: Any) -> dict[str, int] | None:
        """Size of each kernel's sub-groups, if the device has them."""
        if "cl_intel_required_subgroup_size" not in self.device.extensions:
            return None
        what = self.cl.kernel_sub_group_info.MAX_SUB_GROUP_SIZE_FOR_NDRANGE
        kernels = {kernel.function_name: kernel for kernel in program.all_kernels()}
        return {
            name: kernel.get_sub_group_info(self.device, what, [1])
            for name, kernel in kernels.items()
        }

    def build_module(self, module: bytes) -> Any:
        """Build from instrumented bitcode or SPIR-V."""
        if self.form == "spirv":
            return self.cl.Program(self.context, module).build()
        return self.cl.Program(self.context, [self.device], [module]).build(SPIR_OPTIONS)

    def buffer(self, array: np.ndarray) -> Any:
        """A device buffer that starts as a copy of the array."""
        flags = self.cl.mem_flags.READ_WRITE | self.cl.mem_flags.COPY_HOST_PTR
        return self.cl.Buffer(self.context, flags, hostbuf=array)

    def read(self, buffer: Any, like: np.ndarray) -> np.ndarray:
        """The buffer's content in the shape of `like`."""
        result = np.empty_like(like)
        self.cl.enqueue_copy(self.queue, result, buffer)
        return result

    def run(self, program: Any, name: str, arguments: Sequence[Any], size: Any, local: Any) -> None:
        """Launch and wait."""
        kernel = self.cl.Kernel(program, name)
        kernel.set_args(*arguments)
        self.cl.enqueue_nd_range_kernel(self.queue, kernel, size, local).wait()

    def count(
        self, built: Any, kernel: Kernel, arguments: Sequence[Any], size: Any, local: Any
    ) -> np.ndarray:
        """Launch instrumented; counts of every warp and block, (warps, blocks)."""
        items = int(np.prod(local))
        groups = int(np.prod(size)) // items
        of_group = warps_of_group(local, kernel.sub_group)
        warps = groups * len(of_group)
        area = np.full(FIRST + HEADER + warps * kernel.n_probes + 4, CANARY, np.uint64)
        counters = self.buffer(area)
        ours = [counters, np.uint64(FIRST), kernel.scratch(self.cl, items)]
        self.run(built, kernel.name, [*arguments, *ours], size, local)
        area = self.read(counters, area)
        assert (area[:FIRST] == CANARY).all() and (area[-4:] == CANARY).all()
        header = area[FIRST : FIRST + HEADER].tolist()
        pad = (1,) * (3 - len(size))
        sizes = [*local, *pad, *(s // i for s, i in zip(size, local, strict=True)), *pad]
        assert header == [*sizes, kernel.sub_group or WARP, len(of_group)]
        probes = area[FIRST + HEADER : -4].reshape(warps, kernel.n_probes).astype(np.int64)
        return derive(kernel, probes, np.tile([len(warp) for warp in of_group], groups))


def warps_of_group(local: Sequence[int], sub_group: int) -> list[range]:
    """Linear local ids of the work-items of each warp of a group.

    Sub-groups are cut from the rows of the first dimension, other warps from the whole group."""
    items = int(np.prod(local))
    row, size = (local[0], sub_group) if sub_group else (items, WARP)
    return [
        range(start, min(start + size, begin + row))
        for begin in range(0, items, row)
        for start in range(begin, begin + row, size)
    ]


def derive(kernel: Kernel, probes: np.ndarray, lanes: np.ndarray) -> np.ndarray:
    """Block counts (warps, blocks) from the counters (warps, probes)."""
    counts = np.zeros((len(lanes), len(kernel.blocks)), np.int64)
    for block, description in enumerate(kernel.blocks):
        for probe, factor in description["terms"]:
            counts[:, block] += factor * (lanes if probe < 0 else probes[:, probe])
    return counts
