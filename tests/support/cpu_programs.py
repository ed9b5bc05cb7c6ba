# SPDX-License-Identifier: Apache-2.0
"""Builds the small C programs of programs/cpu_*.c and runs them under the CPU engines."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp

import pytest

from tests.support.compile import compile_files, symbols
from tests.support.paths import BUILT, HEADERS, NATIVE_TESTS
from tests.support.probes import needs_dynamorio, needs_valgrind
from tests.support.run import run_text
from xpuprof.engines.base import CpuEngine, CpuOptions
from xpuprof.engines.cpu.dynamorio import DynamoRio
from xpuprof.engines.cpu.valgrind import Valgrind
from xpuprof.scratch import scratch
from xpuprof.trace.layout import CPU
from xpuprof.trace.reader import process_folders
from xpuprof.trace.streams import Stream, read_stream

every_engine = pytest.mark.parametrize(
    "engine",
    [
        pytest.param(Valgrind(), marks=[needs_valgrind, pytest.mark.valgrind], id="valgrind"),
        pytest.param(DynamoRio(), marks=[needs_dynamorio], id="dynamorio"),
    ],
)


class WithoutTraces(DynamoRio):
    """As for interpreters."""

    def wrap(
        self, argv: Sequence[str], options: CpuOptions, execution_dir: Path
    ) -> tuple[list[str], dict[str, str]]:
        line, environment = super().wrap(argv, options, execution_dir)
        line.insert(line.index("-c"), "-disable_traces")
        return line, environment


with_and_without_traces = pytest.mark.parametrize(
    "dynamorio", [DynamoRio(), WithoutTraces()], ids=["traces", "no-traces"]
)


@cache
def _folder() -> TemporaryDirectory[str]:
    """Removed at the end of the session; that of a killed one, by the next xpuprof."""
    return scratch()


@cache
def build(name: str, *flags: str) -> Path:
    """The program of `programs/<name>.c`, compiled once a session."""
    program = Path(mkdtemp(dir=_folder().name)) / name
    ours = (f"-L{BUILT}", "-lxpuprof_rt", "-lpthread", f"-Wl,-rpath,{BUILT}")
    more = () if "-nostdlib" in flags else ours
    source = NATIVE_TESTS / "programs" / f"{name}.c"
    return compile_files([source], program, f"-I{HEADERS}", *flags, *more)


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
        """Executions of the blocks that start at a symbol, by (slice, thread)."""
        offset, result = symbols(program)[symbol], dict[tuple[int, int], int]()
        for (piece, thread, image, at, _), count in self.counts().items():
            if image == program.name and at == offset:
                result[piece, thread] = result.get((piece, thread), 0) + count
        return result

    def total(self) -> int:
        """Instructions over all vectors."""
        return sum(count * key[4] for key, count in self.counts().items())


@dataclass(frozen=True)
class Profile:
    """A program's result under the engine."""

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
    return Profile(run_text(line, environment=environment), folder)


def execution(tmp_path: Path) -> Path:
    """An execution's folder as the launcher makes it."""
    folder = tmp_path / "execution"
    (folder / "failures").mkdir(parents=True)
    (folder / "failures").chmod(0o1777)
    return folder


def failures(folder: Path) -> list[str]:
    """The lines of `failures/`, without the process."""
    return [os.readlink(link).partition(" ")[2] for link in (folder / "failures").iterdir()]
