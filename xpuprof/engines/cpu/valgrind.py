"""The CPU engine `valgrind`: runs the program under our own Valgrind tool, which counts every basic
block of every thread exactly. Needs Debian's package `valgrind` at build and at run time."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from xpuprof.engines.base import CpuOptions, Probe
from xpuprof.engines.filters import cpu_settings
from xpuprof.engines.native import native_file
from xpuprof.errors import EngineError

TOOL = "xpuprof-amd64-linux"
STOCK_FILES = ("default.supp", "vgpreload_core-amd64-linux.so")
ADVICE = (
    "install valgrind (Debian, Ubuntu: `apt-get install valgrind`; "
    "Fedora: `dnf install valgrind valgrind-devel`), then install xpuprof again so that its tool "
    "is built"
)

# Threads that may exist at one time; Valgrind's default is 500.
MAX_THREADS = 4000


def _library_folder() -> Path:
    return native_file(f"valgrind/{TOOL}").parent


def _launcher() -> str | None:
    """Valgrind's own launcher. Debian's `valgrind` is a script around it, which would change the
    program's environment (and with it how the C++ library allocates)."""
    return shutil.which("valgrind.bin") or shutil.which("valgrind")


def _version(valgrind: str) -> str:
    try:
        done = subprocess.run([valgrind, "--version"], capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip().removeprefix("valgrind-")


def _built_with(tool: Path) -> str:
    """The version of the Valgrind that the tool was linked against, which the tool carries in its
    text."""
    marker = b"+valgrind-"
    content = tool.read_bytes()
    at = content.find(marker)
    return content[at + len(marker) : content.find(b"\0", at)].decode() if at >= 0 else ""


class Valgrind:
    """Exact per-thread vectors; single-threaded programs run 3 to 4 times slower, threads take
    turns."""

    name = "valgrind"
    honours = frozenset(
        {
            "--include-image",
            "--exclude-image",
            "--main-image-only",
            "--routine",
            "--thread",
            "--memory",
            "--process",
            "--window",
        }
    )

    def probe(self) -> Probe:
        valgrind, folder = _launcher(), _library_folder()
        if valgrind is None:
            return Probe(self.name, False, ("the program `valgrind`",), ADVICE)
        if not (folder / TOOL).is_file():
            return Probe(self.name, False, ("our Valgrind tool (it was not built)",), ADVICE)
        missing = tuple(
            f"Valgrind's file {name}" for name in STOCK_FILES if not (folder / name).is_file()
        )
        details = {
            "valgrind": valgrind,
            "version": _version(valgrind),
            "built_with": _built_with(folder / TOOL),
            "tool": str(folder / TOOL),
        }
        if details["version"] != details["built_with"]:
            missing += (
                f"a tool for valgrind {details['version']} (ours is built for "
                f"{details['built_with'] or 'another one'})",
            )
        return Probe(self.name, not missing, missing, ADVICE if missing else "", details)

    def wrap(
        self, argv: Sequence[str], options: CpuOptions, execution_dir: Path
    ) -> tuple[list[str], dict[str, str]]:
        """Command line and environment that run `argv` under the tool.

        The calling process must be the one that starts the program: the tool knows the root
        process by its parent. Raises EngineError when the engine cannot be used here."""
        probe = self.probe()
        if not probe.available:
            raise EngineError(
                f"CPU engine valgrind: {', '.join(probe.missing)} is missing; {probe.advice}"
            )
        folder = execution_dir.resolve()
        command = [
            probe.details["valgrind"],
            "--tool=xpuprof",
            "--command-line-only=yes",  # a user's .valgrindrc is meant for other tools
            "--quiet",
            "--vgdb=no",
            "--trace-children=yes",
            "--fair-sched=yes",
            f"--max-threads={MAX_THREADS}",
            # %p is the process; a literal % of the path must not be read as a format.
            f"--log-file={str(folder).replace('%', '%%')}/valgrind-%p.log",
            f"--xpuprof-dir={folder}",
            f"--supervisor={os.getpid()}",
            *(f"--{name}={value}" for name, value in cpu_settings(options)),
        ]
        environment = {
            "VALGRIND_LIB": str(_library_folder()),
            "HWLOC_COMPONENTS": _without_x86(os.environ.get("HWLOC_COMPONENTS", "")),
        }
        return [*command, "--", *argv], environment


def _without_x86(components: str) -> str:
    """hwloc (in PoCL, MPI) gives its x86 part up under Valgrind, and says so on the program's
    stderr; without that part it takes the same way silently."""
    if "x86" in components:
        return components
    return f"{components},-x86" if components else "-x86"
