# SPDX-License-Identifier: Apache-2.0
"""The GPU engine `gtpin`: profiler and timer for Intel GPUs, by GTPin. Needs the user's kit
(GTPIN_ROOT) at build time and at run time."""

from __future__ import annotations

import os
from pathlib import Path

from xpuprof.engines.base import Engine, GpuEngine, GpuOptions, Mode, Probe, Timer
from xpuprof.engines.filters import PROCESS
from xpuprof.engines.native import native_file, unbuilt

LIBRARY = "libxpuprof_gtpin.so"
STATE = (
    "compiled against declarations made from GTPin's public documentation and run around "
    "stand-ins; never compiled or run with a kit (docs/pin.md)"
)
ADVICE_KIT = "unpack a GTPin kit (4.5 or later) from Intel's download page and set GTPIN_ROOT to it"
ADVICE_BUILD = (
    f"{ADVICE_KIT}, then install xpuprof again so that its GTPin tool is built. State: {STATE}"
)


def _kit() -> Path | None:
    root = os.environ.get("GTPIN_ROOT")
    for folder in (Path(root), Path(root) / "Profilers") if root else ():
        if (folder / "Lib" / "intel64").is_dir():
            return folder
    return None


class Gtpin(GpuEngine):
    """One counter per block and hardware thread bucket, read once per launch; in timer runs,
    stamps from GTPin's callbacks."""

    name = "gtpin"
    runtimes = ("libze_loader.so", "libOpenCL.so")
    honours = PROCESS
    rivals = ("GTPin_Entry",)

    def probe(self) -> Probe:
        library = native_file(LIBRARY)
        details = {"state": STATE}
        if missing := unbuilt(LIBRARY):
            return Probe(self.name, False, missing, ADVICE_BUILD, details)
        kit = _kit()
        if kit is None:
            return Probe(self.name, False, ("a GTPin kit (GTPIN_ROOT)",), ADVICE_KIT, details)
        details |= {"kit": str(kit), "library": str(library)}
        return Probe(self.name, True, details=details)

    def environment(
        self, mode: Mode, timer: Timer, execution_dir: Path, options: GpuOptions
    ) -> dict[str, str]:
        """Makes Intel's runtimes load GTPin and our tool. Raises EngineError."""
        probe = self.usable()
        libraries = f"{probe.details['kit']}/Lib/intel64"
        path = ":".join(filter(None, [libraries, os.environ.get("LD_LIBRARY_PATH")]))
        preload = ":".join(filter(None, [os.environ.get("LD_PRELOAD"), probe.details["library"]]))
        return {
            "LD_PRELOAD": preload,
            "LD_LIBRARY_PATH": path,
            "ZET_ENABLE_API_TRACING_EXP": "1",
            "ZET_ENABLE_PROGRAM_INSTRUMENTATION": "1",
        }


ENGINE = Engine(Gtpin, preference=40, help="Intel GPUs; needs a GTPin kit")
