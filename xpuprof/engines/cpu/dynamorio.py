# SPDX-License-Identifier: Apache-2.0
"""The CPU engine `dynamorio`: runs the program under DynamoRIO with our own client, which counts
every basic block of every thread exactly, threads in parallel. Needs the user's kit
(DYNAMORIO_HOME) at build time and at run time."""

from __future__ import annotations

import os
import re
import resource
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from xpuprof.engines.base import CpuEngine, CpuOptions, Engine, Probe
from xpuprof.engines.filters import CODE, SCOPE, START_UP, cpu_settings
from xpuprof.engines.native import kit_probe, native_file, unbuilt
from xpuprof.engines.rights import startable
from xpuprof.engines.scripts import MOST_SCRIPTS, interpreter_of
from xpuprof.errors import EngineError

CLIENT = "libxpuprof_dynamorio.so"
OPTIONS_FILE = "dynamorio.options"
_ENV_START_UP = "XPUPROF_START_UP"  # libxpuprof_rt reads it
KIT_FILES = ("bin64/drrun", "lib64/release/libdynamorio.so")
ADVICE_KIT = (
    "unpack a DynamoRIO release for x86-64 Linux (dynamorio.org), or build its sources, and set "
    "DYNAMORIO_HOME to the folder that holds bin64"
)
ADVICE_BUILD = f"{ADVICE_KIT}, then install xpuprof again so that its client is built"


def _kit_version(kit: Path) -> str:
    try:
        text = (kit / "cmake" / "DynamoRIOConfigVersion.cmake").read_text()
    except OSError:
        return ""
    found = re.search(r'set\(PACKAGE_VERSION "?([0-9.]+)', text)
    return found[1] if found else ""


# Puts the code cache where it reaches the data of all libraries (layout.c): between a
# position-independent program and libdynamorio, whose places are fixed unless addresses are
# randomised. If anything else lies there, DynamoRIO takes another place.
_CODE_CACHE = (
    *("-no_vm_base_near_app", "-vm_base", "0x7ffff4c00000", "-vm_max_offset", "0x1"),
    *("-vm_size", "48M", "-vmheap_size", "512M"),
)
# A reader waits for the end of what a program has closed, and a copy would keep it open.
_NO_COPIES = tuple(f"-no_dup_{stream}_on_close" for stream in ("stdin", "stdout", "stderr"))
_STACK_ROOM = 128 << 20  # what Linux leaves for the stack above all mappings


class DynamoRio(CpuEngine):
    """Exact per-thread vectors; threads run in parallel, and no instruction set is hidden."""

    name = "dynamorio"
    honours = CODE | SCOPE | START_UP

    def probe(self) -> Probe:
        client, home = native_file(CLIENT), os.environ.get("DYNAMORIO_HOME", "")
        if not home:
            advice = ADVICE_KIT if client.is_file() else ADVICE_BUILD
            return Probe(self.name, False, ("a DynamoRIO kit (DYNAMORIO_HOME)",), advice)
        missing = tuple(f"{home}/{file}" for file in KIT_FILES if not (Path(home) / file).is_file())
        if missing:
            return Probe(self.name, False, missing, ADVICE_KIT)
        if missing := unbuilt(CLIENT):
            return Probe(self.name, False, missing, ADVICE_BUILD)
        return kit_probe(
            self.name,
            "DynamoRIO",
            _kit_version(Path(home)),
            client,
            ADVICE_BUILD,
            missing=(),
            files={"kit": home, "client": str(client)},
        )

    def wrap(
        self, argv: Sequence[str], options: CpuOptions, execution_dir: Path
    ) -> tuple[list[str], dict[str, str]]:
        from xpuprof.trace import clock  # loads the bridge; help and probes do without

        probe = self.usable()
        folder = execution_dir.resolve()
        lines = [
            f"xpuprof-dir={folder}",
            f"supervisor={os.getpid()}",
            f"clock={clock.source()}",
            f"window={options.window}",
            *(f"{name}={value}" for name, value in cpu_settings(options)),
        ]
        for line in lines:
            if "\n" in line:
                raise EngineError(f"engine dynamorio takes no line breaks: {line!r}; remove it")
        text = "".join(f"{line}\n" for line in lines)
        (folder / OPTIONS_FILE).write_bytes(os.fsencode(text))  # paths need not be UTF-8
        program = interpreted(startable(argv))
        prefix = repeatable_addresses()
        command = [*prefix, f"{probe.details['kit']}/bin64/drrun", "-quiet", *_NO_COPIES]
        command += _CODE_CACHE if prefix and _leaves_room(program[0]) else []
        command += ["-no_emulate_brk"] if has_room_for_heap(prefix) else []
        cold = options.cold_runtime or has_interpreter(program)
        command += ["-disable_traces"] if cold else []
        command += ["-c", probe.details["client"]]
        # Our client finds its options by its argument: DynamoRIO passes it on even to a child
        # without environment, but mangles blanks and quotes in it. Then the variable serves.
        if re.fullmatch(r"[\w./+@%=,-]+", str(folder)):
            command.append(str(folder))
        command += ["--", *program]
        native = {_ENV_START_UP: "native"} if options.native_start_up else {}
        return command, {"DYNAMORIO_CONFIGDIR": str(folder)} | native


def repeatable_addresses() -> list[str]:
    """A prefix that makes the kernel lay out memory the same way in each run: string copies and
    comparisons take different blocks at different alignments. Empty where that is forbidden."""
    import subprocess  # here and below: would lengthen completion

    setarch = shutil.which("setarch")
    if setarch is None:
        return []
    prefix = [setarch, os.uname().machine, "-R"]
    tried = subprocess.run([*prefix, "true"], capture_output=True)
    return prefix if tried.returncode == 0 else []


_HEAP_ROOM = 1 << 40


def has_room_for_heap(prefix: Sequence[str]) -> bool:
    """Whether the kernel has the heap of a process begin far below its stack and libraries, if what
    it executes is a library, as libdynamorio is. Else the heap could not grow."""
    import subprocess

    from xpuprof.trace import elf

    loader, cat = elf.dynamic_loader(sys.executable), shutil.which("cat")
    if not loader or not cat:
        return False
    try:
        read = subprocess.run([*prefix, loader, cat, "/proc/self/stat"], capture_output=True)
    except OSError:
        return False
    fields = read.stdout.rpartition(b")")[2].split()  # from the third, see proc(5)
    if len(fields) < 45:
        return False
    stack, heap = int(fields[25]), int(fields[44])
    return 0 < heap < stack - _HEAP_ROOM


def _leaves_room(program: str) -> bool:
    """Whether the place of _CODE_CACHE is neither far from the program's file nor part of its
    stack."""
    limit, _ = resource.getrlimit(resource.RLIMIT_STACK)
    if limit == resource.RLIM_INFINITY or limit > _STACK_ROOM:
        return False
    try:
        with open(shutil.which(program) or program, "rb") as file:
            head = file.read(18)
    except OSError:
        return False
    return head[:4] == b"\x7fELF" and head[16] == 3  # ET_DYN


_INTERPRETERS = "python|pypy|perl|ruby|node|java|julia|Rscript|lua|luajit|octave|php|tclsh|guile"


def has_interpreter(command: Sequence[str]) -> bool:
    """Whether a command line names an interpreter, perhaps behind a launcher.

    DynamoRIO's traces make hot loops faster and code that runs a few dozen times slower, of which
    an interpreter has much (docs/dynamorio.md).
    """
    names = (os.path.basename(word) for word in command)
    return any(re.fullmatch(rf"({_INTERPRETERS})[\d.]*", name) for name in names)


def interpreted(argv: Sequence[str]) -> list[str]:
    """The command line with which the kernel runs a script. DynamoRIO's launcher starts ELF files
    only."""
    command = list(argv)
    for _ in range(MOST_SCRIPTS):
        path = command[0] if "/" in command[0] else shutil.which(command[0]) or command[0]
        interpreter = interpreter_of(path)
        if not interpreter:
            return command
        command = [*interpreter, path, *command[1:]]
    return command


ENGINE = Engine(
    DynamoRio,
    preference=10,
    help="in-process and parallel; needs a DynamoRIO kit",
)
