"""Builds the small C programs of programs/cpu_*.c and runs them under the CPU engines."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from tempfile import mkdtemp

import pytest

from xpuprof.engines.base import CpuEngine, CpuOptions
from xpuprof.engines.cpu.dynamorio import DynamoRio
from xpuprof.engines.cpu.valgrind import Valgrind
from xpuprof.trace.reader import process_folders
from xpuprof.trace.streams import CPU, Stream, read_stream

PROGRAMS = Path(__file__).parents[1] / "native" / "programs"
HEADERS = Path(__file__).parents[2] / "native" / "include"
RUNTIME = Path(str(files("xpuprof") / "_native"))


def _needs(engine: CpuEngine) -> pytest.MarkDecorator:
    probe = engine.probe()
    reason = f"{engine.name} engine: {', '.join(probe.missing)}"
    return pytest.mark.skipif(not probe.available, reason=reason)


needs_valgrind, needs_dynamorio = _needs(Valgrind()), _needs(DynamoRio())

every_engine = pytest.mark.parametrize(
    "engine",
    [
        pytest.param(Valgrind(), marks=[needs_valgrind, pytest.mark.valgrind], id="valgrind"),
        pytest.param(DynamoRio(), marks=[needs_dynamorio], id="dynamorio"),
    ],
)


@cache
def build(name: str, *flags: str) -> Path:
    """The program of `programs/<name>.c`, compiled once a session."""
    program = Path(mkdtemp(prefix="xpuprof-cpu-")) / name
    command = ["gcc", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{HEADERS}", *flags]
    command += ["-o", str(program), str(PROGRAMS / f"{name}.c")]
    if "-nostdlib" not in flags:
        command += [f"-L{RUNTIME}", "-lxpuprof_rt", "-lpthread", f"-Wl,-rpath,{RUNTIME}"]
    subprocess.run(command, check=True)
    return program


@cache
def address_of(program: Path, symbol: str) -> int:
    """Address as linked, from the symbol table."""
    table = subprocess.run(["nm", str(program)], check=True, capture_output=True, text=True).stdout
    return next(
        int(line.split()[0], 16) for line in table.splitlines() if line.split()[-1] == symbol
    )


@dataclass(frozen=True)
class Part:
    """One process's cpu.xpt."""

    folder: Path
    stream: Stream

    def counts(self) -> dict[tuple[int, int, str, int, int], int]:
        """Executions by (slice, thread, file name of the image, offset, instructions)."""
        s = self.stream
        names = [Path(text).name for text in s.texts(s["images"]["path"])]
        blocks = [
            (names[row["image"]], int(row["offset"]), int(row["instructions"]))
            for row in s["cpu_blocks"]
        ]
        result = {}
        for row in s["bbvs"]:
            first, n = int(row["first_pair"]), int(row["n_pairs"])
            for at in range(first, first + n):
                key = (int(row["slice"]), int(row["thread"]), *blocks[s["bbv_block"][at]])
                assert key not in result, "a block occurs twice in a vector"
                result[key] = int(s["bbv_count"][at])
        return result

    def executions(self, program: Path, symbol: str) -> dict[tuple[int, int], int]:
        """By (slice, thread): how often the blocks that start at a symbol were executed."""
        offset, result = address_of(program, symbol), dict[tuple[int, int], int]()
        for (piece, thread, image, at, _), count in self.counts().items():
            if image == program.name and at == offset:
                result[piece, thread] = result.get((piece, thread), 0) + count
        return result

    def total(self) -> int:
        """Instructions over all vectors."""
        return sum(count * key[4] for key, count in self.counts().items())


@dataclass(frozen=True)
class Profile:
    """What a program did under the engine."""

    process: subprocess.CompletedProcess[str]
    folder: Path

    @property
    def parts(self) -> list[Part]:
        """Parts of the processes that have a cpu.xpt, in order of process number."""
        found = [p for p in process_folders(self.folder) if (p / "cpu.xpt").exists()]
        return [Part(part, read_stream(part / "cpu.xpt", CPU)) for part in found]

    @property
    def only(self) -> Part:
        (part,) = self.parts
        return part


def command(
    engine: CpuEngine, argv: Sequence[object], folder: Path, options: CpuOptions | None = None
) -> tuple[list[str], dict[str, str]]:
    """Command line and environment of a profile; the environment is a small, fixed one."""
    folder.mkdir(exist_ok=True)
    texts = [str(argument) for argument in argv]
    line, environment = engine.wrap(texts, options or CpuOptions(), folder)
    environment |= {"PATH": "/usr/bin:/bin", "XPUPROF_DIR": str(folder), "XPUPROF_MODE": "profile"}
    return line, environment


def profile(
    engine: CpuEngine, argv: Sequence[object], folder: Path, options: CpuOptions | None = None
) -> Profile:
    """Runs `argv` under the engine; `folder` is the execution's."""
    line, environment = command(engine, argv, folder, options)
    process = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=120)
    return Profile(process, folder)
