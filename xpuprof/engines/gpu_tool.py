# SPDX-License-Identifier: Apache-2.0
"""`--gpu-tool LIB`: loads a third-party GPU tool (NVBit, CUPTI or GTPin tool, or any other library)
into the program beside our engines."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from xpuprof.engines.base import CpuEngine, CpuOptions, GpuEngine
from xpuprof.engines.cpu.pin import Pin, probed
from xpuprof.engines.gpu.cuda import CUDA_TOOL
from xpuprof.engines.native import native_file
from xpuprof.errors import EngineError, UsageError
from xpuprof.trace.elf import exported, is_shared_object

PRELOAD = "libxpuprof_gputool.so"
BY_PIN = "pin:"


@dataclass(frozen=True)
class GpuTool:
    """A checked tool. `injected`: the CUDA driver loads it (CUDA_INJECTION64_PATH), and the program
    cannot override that; `by_pin`: Pin loads it; else it is preloaded."""

    path: Path
    injected: bool
    by_pin: bool

    def cpu_options(self, options: CpuOptions) -> CpuOptions:
        """Excludes the tool's own code from the program's vectors."""
        exclude = (*options.exclude_images, str(self.path))
        return replace(options, exclude_images=exclude, gpu_tool=str(self.path) * self.by_pin)

    def load(
        self, argv: Sequence[str], environment: Mapping[str, str], cpu: CpuEngine | None
    ) -> tuple[list[str], dict[str, str]]:
        """The command line that loads the tool, and its additions to the environment. `argv` is the
        program's command line, wrapped by the CPU engine if there is one."""
        if self.by_pin:
            return (list(argv) if cpu else probed(argv, self.path)), {}
        if self.injected:
            return list(argv), {"CUDA_INJECTION64_PATH": str(self.path)}
        preload = [environment.get("LD_PRELOAD", ""), str(native_file(PRELOAD))]
        more = {"LD_PRELOAD": ":".join(filter(None, preload)), "XPUPROF_GPU_TOOL": str(self.path)}
        if cpu:  # the engine's launcher is a separate process
            more["XPUPROF_GPU_TOOL_NOT_IN"] = os.path.realpath(argv[0])
        return list(argv), more


def gpu_tool(text: str, cpu: CpuEngine | None, gpu: GpuEngine | None) -> GpuTool:
    """The tool of `--gpu-tool`: a path, or `pin:` and a path.

    Raises UsageError if it is not a tool, EngineError if it cannot be loaded beside the engines.
    """
    by_pin = text.startswith(BY_PIN)
    path = Path(text.removeprefix(BY_PIN))
    if not path.is_file():
        raise UsageError(f"the GPU tool {path} does not exist; check the path after --gpu-tool")
    if not os.access(path, os.R_OK) or not is_shared_object(path):
        raise UsageError(
            f"the GPU tool {path} is not a readable 64-bit shared library; name the tool's .so"
        )
    names = exported(path)
    if gpu is not None and any(name in names for name in gpu.rivals):
        raise EngineError(
            f"{path.name} and GPU engine {gpu.name} cannot share a process, since only one tool of "
            "their kind can be loaded; add --gpu none"
        )
    if by_pin and cpu is not None and cpu.name != Pin.name:
        raise EngineError(
            f"Pin cannot load {path.name} while CPU engine {cpu.name} runs the program; add "
            f"--cpu pin or --cpu none, or omit `{BY_PIN}`"
        )
    if by_pin and cpu is None:
        probed([], path)  # raises now if there is no kit
    for_cuda = any(name in names for name in CUDA_TOOL)
    return GpuTool(path.resolve(), for_cuda and not by_pin, by_pin)
