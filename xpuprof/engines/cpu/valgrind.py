# SPDX-License-Identifier: Apache-2.0
"""The CPU engine `valgrind`: runs the program under our own Valgrind tool, which counts every basic
block of every thread exactly. Needs the package `valgrind` at build time and at run time."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from xpuprof.engines.base import CpuEngine, CpuOptions, Engine, Probe
from xpuprof.engines.filters import CODE, MEMORY, SCOPE, cpu_settings
from xpuprof.engines.native import kit_probe, native_file, unbuilt
from xpuprof.engines.rights import startable
from xpuprof.errors import EngineError

TOOL = "valgrind/xpuprof-amd64-linux"
STOCK_FILES = ("default.supp", "vgpreload_core-amd64-linux.so")
ADVICE = (
    "install valgrind (Debian, Ubuntu: `apt-get install valgrind`; "
    "Fedora: `dnf install valgrind valgrind-devel`), then install xpuprof again so that its tool "
    "is built"
)

# Most threads at one time; Valgrind's default is 500.
MAX_THREADS = 4000

# Valgrind asserts that its log file's name has at most 900 bytes.
LONGEST_FOLDER = 860


def _launcher() -> str | None:
    """Valgrind's own launcher. Debian's `valgrind` is a script around it that changes the
    program's environment, and so how the C++ library allocates."""
    return shutil.which("valgrind.bin") or shutil.which("valgrind")


def _version(valgrind: str) -> str:
    try:
        done = subprocess.run([valgrind, "--version"], capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip().removeprefix("valgrind-")


class Valgrind(CpuEngine):
    """Exact per-thread vectors; single-threaded programs run 3 to 4 times slower, threads take
    turns."""

    name = "valgrind"
    caveat = (
        "under valgrind, which has no FMA and no AVX-512 and rounds long double to double, "
        "floating-point results of host code may differ from a native run's (docs/valgrind.md)"
    )
    honours = CODE | SCOPE | MEMORY

    def probe(self) -> Probe:
        valgrind, tool = _launcher(), native_file(TOOL)
        absent = [name for name in STOCK_FILES if not (tool.parent / name).is_file()]
        if valgrind is None:
            return Probe(self.name, False, ("the program `valgrind`",), ADVICE)
        if missing := unbuilt(TOOL):
            return Probe(self.name, False, missing, ADVICE)
        return kit_probe(
            self.name,
            "Valgrind",
            _version(valgrind),
            tool,
            ADVICE,
            missing=[f"Valgrind's file {name}" for name in absent],
            files={"valgrind": valgrind, "tool": str(tool)},
        )

    def wrap(
        self, argv: Sequence[str], options: CpuOptions, execution_dir: Path
    ) -> tuple[list[str], dict[str, str]]:
        from xpuprof.trace import clock  # loads the bridge; help and probes do without

        probe = self.usable()
        folder = execution_dir.resolve()
        if len(os.fsencode(folder)) > LONGEST_FOLDER:
            raise EngineError(
                "the run directory's path is too long for valgrind; name another output folder"
            )
        command = [
            probe.details["valgrind"],
            "--tool=xpuprof",
            "--command-line-only=yes",  # a user's .valgrindrc is meant for other tools
            "--quiet",
            "--vgdb=no",
            "--trace-children=yes",
            "--fair-sched=yes",
            f"--max-threads={MAX_THREADS}",
            # %p is the process; a literal % in the path must not be read as a format.
            f"--log-file={str(folder).replace('%', '%%')}/valgrind-%p.log",
            f"--xpuprof-dir={folder}",
            f"--supervisor={os.getpid()}",
            f"--clock={clock.source()}",
            *(f"--{name}={value}" for name, value in cpu_settings(options)),
        ]
        environment = {
            "VALGRIND_LIB": str(native_file(TOOL).parent),
            "HWLOC_COMPONENTS": _without_x86(os.environ.get("HWLOC_COMPONENTS", "")),
        }
        return [*command, "--", *startable(argv)], environment


def _without_x86(components: str) -> str:
    """Removes hwloc's x86 component. hwloc (in PoCL, MPI) disables it under Valgrind anyway, and
    says so on the program's stderr."""
    if "x86" in components:
        return components
    return f"{components},-x86" if components else "-x86"


ENGINE = Engine(
    Valgrind,
    preference=30,
    help="exact, slower; installs from the distribution",
    suggested=True,
)
