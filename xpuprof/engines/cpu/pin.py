# SPDX-License-Identifier: Apache-2.0
"""The CPU engine `pin`: Intel's Pin in JIT mode with our profiler tool. Pin's probe mode loads
third-party GPU tools into a program that otherwise runs natively. Needs the user's kit (PIN_ROOT)
at build time and at run time."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from xpuprof.engines.base import CpuEngine, CpuOptions, Engine, Probe
from xpuprof.engines.filters import IMAGES
from xpuprof.engines.native import native_file, unbuilt
from xpuprof.errors import EngineError

TOOL, PROBE_TOOL = "xpuprof_pin.so", "xpuprof_probe.so"
STATE = (
    "compiled with the headers of kit 3.31 and run around a stand-in for Pin; never run by Pin "
    "(docs/pin.md)"
)
ADVICE_KIT = "unpack a Pin kit (3.24 to 3.31) from Intel's download page and set PIN_ROOT to it"
ADVICE_BUILD = (
    f"{ADVICE_KIT}, then install xpuprof again so that its Pin tools are built. State: {STATE}"
)


def _launcher() -> Path | None:
    root = os.environ.get("PIN_ROOT")
    return Path(root) / "pin" if root and (Path(root) / "pin").is_file() else None


def probed(argv: Sequence[str], gpu_tool: Path) -> list[str]:
    """The command line that runs `argv` natively with a GPU tool loaded by the program's loader.

    Raises EngineError without a kit, or if our probe tool was not built."""
    launcher = _launcher()
    if launcher is None or not native_file(PROBE_TOOL).is_file():
        raise EngineError(f"Pin's probe mode cannot be used: {ADVICE_BUILD}")
    tool = ["-t", str(native_file(PROBE_TOOL)), "-gpu_tool", str(gpu_tool.resolve())]
    return [str(launcher), "-probe", *tool, "--", *argv]


class Pin(CpuEngine):
    """Exact per-thread vectors in parallel; filters by image only."""

    name = "pin"
    honours = IMAGES

    def probe(self) -> Probe:
        details = {"state": STATE}
        launcher = _launcher()
        if missing := unbuilt(TOOL):
            return Probe(self.name, False, missing, ADVICE_BUILD, details)
        if launcher is None:
            return Probe(self.name, False, ("a Pin kit (PIN_ROOT)",), ADVICE_KIT, details)
        details |= {"pin": str(launcher), "tool": str(native_file(TOOL))}
        return Probe(self.name, True, details=details)

    def wrap(
        self, argv: Sequence[str], options: CpuOptions, execution_dir: Path
    ) -> tuple[list[str], dict[str, str]]:
        probe = self.usable()
        filters: list[str] = []
        for pattern in options.include_images:
            filters += ["-include_image", pattern]
        for pattern in options.exclude_images:
            filters += ["-exclude_image", pattern]
        if options.main_image_only:
            filters += ["-main_image_only", "1"]
        if options.gpu_tool:
            filters += ["-gpu_tool", options.gpu_tool]
        command = [probe.details["pin"], "-follow_execv", "-t", probe.details["tool"], *filters]
        return [*command, "--", *argv], {}


ENGINE = Engine(Pin, preference=20, help="in-process and parallel; needs Intel's Pin kit")
