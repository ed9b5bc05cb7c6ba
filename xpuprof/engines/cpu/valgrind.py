# SPDX-License-Identifier: Apache-2.0
"""The CPU engine `valgrind`: runs the program under our own Valgrind tool, which counts every basic
block of every thread exactly. Needs Valgrind at build time only: the tool holds its core."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from xpuprof.engines.base import CpuEngine, CpuOptions, Engine, Probe
from xpuprof.engines.cache import limited_folder
from xpuprof.engines.filters import CODE, MEMORY, SCOPE, cpu_settings
from xpuprof.engines.native import kit_version, native_file, unbuilt
from xpuprof.engines.rights import startable
from xpuprof.engines.scripts import executed_for
from xpuprof.errors import EngineError
from xpuprof.trace.elf import has_symbol

TOOL = "valgrind/xpuprof-amd64-linux"
LAUNCHER = "valgrind/launcher"
STOCK_FILES = ("valgrind/default.supp", "valgrind/vgpreload_core-amd64-linux.so")
ADVICE = (
    "install valgrind (Debian, Ubuntu: `apt-get install valgrind`; "
    "Fedora: `dnf install valgrind-devel valgrind-tools-devel`), then install xpuprof again so "
    "that its tool is built"
)

# Most threads at one time; Valgrind's default is 500.
MAX_THREADS = 4000

# Bytes of translations kept for later runs; numpy's start takes 13 MB.
MOST_KEPT = 1 << 30

# Valgrind asserts that its log file's name has at most 900 bytes.
LONGEST_FOLDER = 860


class Valgrind(CpuEngine):
    """Exact per-thread vectors; single-threaded programs run 3 to 4 times slower, threads take
    turns."""

    name = "valgrind"
    caveat = (
        "under valgrind, which has no AVX2, FMA and AVX-512 and rounds long double to double, "
        "floating-point results of host code may differ from a native run's (docs/valgrind.md)"
    )
    honours = CODE | SCOPE | MEMORY

    def probe(self) -> Probe:
        if missing := unbuilt(TOOL, LAUNCHER, *STOCK_FILES):
            return Probe(self.name, False, missing, ADVICE)
        tool = native_file(TOOL)
        details = {"version": kit_version("Valgrind", tool), "tool": str(tool)}
        return Probe(self.name, True, details=details)

    def wrap(
        self, argv: Sequence[str], options: CpuOptions, execution_dir: Path
    ) -> tuple[list[str], dict[str, str]]:
        from xpuprof.trace import clock  # loads the bridge; help and probes do without

        self.usable()
        folder = execution_dir.resolve()
        if len(os.fsencode(folder)) > LONGEST_FOLDER:
            raise EngineError(
                "the run directory's path is too long for valgrind; name another output folder"
            )
        started = startable(argv, _has_address_sanitizer)
        command = [
            str(native_file(LAUNCHER)),
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
            f"--program-name={options.program_name if started == list(argv) else ''}",
            f"--clock={clock.source()}",
            *_translations(),
            *(f"--{name}={value}" for name, value in cpu_settings(options)),
        ]
        environment = {
            "VALGRIND_LIB": str(native_file(TOOL).parent),
            "HWLOC_COMPONENTS": _without_x86(os.environ.get("HWLOC_COMPONENTS", "")),
        }
        return [*command, "--", *started], environment


def _translations() -> list[str]:
    """Where the tool keeps translations between runs; none without a usable cache folder."""
    folder = limited_folder("translations", MOST_KEPT)
    return [f"--translations={folder}"] if folder else []


def _has_address_sanitizer(path: str) -> bool:
    """Such a program needs the memory where Valgrind lies (address_sanitizer.c)."""
    return has_symbol(executed_for(path), "__asan_init")


def _without_x86(components: str) -> str:
    """Removes hwloc's x86 component. hwloc (in PoCL, MPI) disables it under Valgrind anyway, and
    says so on the program's stderr."""
    if "x86" in components:
        return components
    return f"{components},-x86" if components else "-x86"


ENGINE = Engine(
    Valgrind,
    preference=30,
    help="exact, slower; needs nothing else",
    suggested=True,
)
