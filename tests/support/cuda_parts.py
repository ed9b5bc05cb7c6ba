# SPDX-License-Identifier: Apache-2.0
"""What the CUDA tests share: the headers, the stand-in driver built from fake_cuda/, and a run of
its test program under libxpuprof_cuda.so. No GPU is used anywhere here."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.paths import BUILT, NATIVE_TESTS
from tests.support.run import output, run_text
from xpuprof.trace.layout import EVENTS
from xpuprof.trace.streams import Stream, read_stream

SOURCES = NATIVE_TESTS / "fake_cuda"
TIMER = BUILT / "libxpuprof_cuda.so"


def cuda_include() -> Path | None:
    """A folder with cuda.h and cupti.h, from a toolkit or from PyPI's packages."""
    homes = [Path(os.environ[name]) for name in ("CUDA_HOME", "CUDA_PATH") if name in os.environ]
    folders = [home / "include" for home in (*homes, Path("/usr/local/cuda"))]
    folders.append(Path(sysconfig.get_path("purelib")) / "nvidia" / "cu13" / "include")
    return next((f for f in folders if (f / "cupti.h").exists() and (f / "cuda.h").exists()), None)


def nvcc(*arguments: str) -> None:
    """Runs nvcc, or skips the test."""
    program = shutil.which("nvcc")
    if program is None:
        pytest.skip("nvcc is not on PATH; install the CUDA toolkit's compiler")
    output([program, *arguments])


def build(folder: Path) -> None:
    """The stand-in libcuda.so.1, the program that calls it, and a real cubin made by ptxas."""
    include = cuda_include()
    if include is None:
        pytest.skip("cuda.h and cupti.h were not found; pip install xpuprof[cuda]")
    if not TIMER.exists():
        pytest.skip("libxpuprof_cuda.so was not built; see docs/cuda.md")
    nvcc("-arch=sm_90", "-cubin", str(SOURCES / "kernels.cu"), "-o", str(folder / "k.cubin"))
    compiler = ["g++", "-std=c++17", "-O1", "-w", "-isystem", str(include)]
    fake = str(folder / "libcuda.so.1")
    source = [str(SOURCES / "fake_cuda.cpp"), "-Wl,-soname,libcuda.so.1"]
    output([*compiler, "-shared", "-fPIC", *source, "-o", fake])
    program = [str(SOURCES / "program.cpp"), fake, "-o", str(folder / "program")]
    output([*compiler, *program, "-lpthread"])


@dataclass(frozen=True)
class Launch:
    """One launch: kernel name, then grid, block, dynamic shared memory and device."""

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int
    device: int


@dataclass(frozen=True)
class Recorded:
    """The run of the program, and its record (None: nothing)."""

    done: subprocess.CompletedProcess[str]
    stream: Stream | None

    @property
    def expected(self) -> list[Launch]:
        """The launches reported by the program."""
        lines = [line.split() for line in self.done.stdout.splitlines()]
        return [
            Launch(readable(w[0]), triple(w[1:4]), triple(w[4:7]), int(w[7]), int(w[8]))
            for w in lines
        ]

    @property
    def launches(self) -> list[Launch]:
        """The trace's launches, in the order of their numbers."""
        assert self.stream is not None
        stream, rows = self.stream, self.stream["launches"]
        assert [int(n) for n in rows["launch"]] == list(range(len(rows)))
        kernels = stream.texts(stream["kernels"]["name"])
        shared = {int(r["launch"]): int(r["local_dynamic"]) for r in stream["resources"]}
        return [
            Launch(
                kernels[row["kernel"]],
                triple([g // max(b, 1) for g, b in zip(row["global"], row["local"], strict=True)]),
                triple(row["local"]),
                shared[int(row["launch"])],
                int(row["device"]),
            )
            for row in rows
        ]


def triple(words: object) -> tuple[int, int, int]:
    """Three numbers."""
    x, y, z = (int(w) for w in words)  # type: ignore[attr-defined]
    return x, y, z


def readable(mangled: str) -> str:
    """The demangled name."""
    return output(["c++filt", mangled]).strip()


def record(
    folder: Path, out: Path, *arguments: str, mode: str = "time", timer: str = "async", **more: str
) -> Recorded:
    """Runs the program of `build` with the timer injected, recording into `out`."""
    environment = {
        **os.environ,
        "CUDA_INJECTION64_PATH": str(TIMER),
        "LD_LIBRARY_PATH": str(folder),
        "XPUPROF_CUPTI": str(folder / "libcuda.so.1"),
        "XPUPROF_DIR": str(out),
        "XPUPROF_MODE": mode,
        "XPUPROF_TIMER": timer if mode == "time" else "",
        **more,
    }
    out.mkdir(parents=True, exist_ok=True)
    command = [str(folder / "program"), str(folder / "k.cubin"), *arguments]
    done = run_text(command, environment=environment)
    found = list(out.glob("*/events.xpt"))
    return Recorded(done, read_stream(found[0], EVENTS) if found else None)
