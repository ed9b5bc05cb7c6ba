# SPDX-License-Identifier: Apache-2.0
"""Oclgrind, an interpreter of OpenCL kernels, as an independent count of instructions."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.support.compile import compile_files
from tests.support.layered import layered
from tests.support.paths import NATIVE_TESTS, OPENCL_PROGRAMS, ROOT
from tests.support.probes import require_programs
from tests.support.run import run
from xpuprof.trace.layout import MIX

RUNTIME = "/usr/lib/oclgrind/liboclgrind-rt.so"
LIBRARY = ("-shared", "-fPIC", "-Wno-deprecated-declarations", "-ldl")
KINDS = [kind for kind in sorted(MIX, key=MIX.__getitem__) if kind != "COUNT"]
_HERE = NATIVE_TESTS / "programs"


def _ffmpeg(graph: str, form: str = "yuv420p") -> tuple[object, ...]:
    """An OpenCL filter of ffmpeg on one small test picture."""
    device = ("-init_hw_device", "opencl=d", "-filter_hw_device", "d")
    source = ("-f", "lavfi", "-i", "testsrc2=size=64x32:rate=25:duration=0.04")
    filters = f"format={form},hwupload,{graph},hwdownload,format={form}"
    return ("ffmpeg", "-v", "error", *device, *source, "-vf", filters, "-f", "framemd5", "-")


_UFO = "ufo-launch dummy-data init=2 width=32 height=32 number=1 ! blur size=3 sigma=1 ! null"
PROGRAMS: dict[str, tuple[object, ...]] = {
    "particles": (ROOT / "build" / "examples" / "particles", 4, 256),
    "heat": (sys.executable, ROOT / "examples" / "heat" / "heat.py", 20, 32),
    "bench": (
        *(sys.executable, _HERE / "counted_kernels.py"),
        *(ROOT / "tools" / "bench" / "kernels" / "gpu_counters.cl", 32),
    ),
    "self-counting": (sys.executable, OPENCL_PROGRAMS / "self_counting.py"),
    "ffmpeg unsharp": _ffmpeg("unsharp_opencl=lx=5:ly=5"),
    "ffmpeg avgblur": _ffmpeg("avgblur_opencl=sizeX=3"),
    "ffmpeg sobel": _ffmpeg("sobel_opencl"),
    "ffmpeg convolution": _ffmpeg("convolution_opencl"),
    "ffmpeg nlmeans": _ffmpeg("nlmeans_opencl=p=3:r=3"),
    "ffmpeg erosion": _ffmpeg("erosion_opencl"),
    "ffmpeg transpose": _ffmpeg("transpose_opencl"),
    "ffmpeg colorkey": _ffmpeg("colorkey_opencl=0xff0000", "rgba"),
    "ufo blur": ("env", "UFO_DEVICE_TYPE=cpu", *_UFO.split()),
}
"""Programs whose launches are compared: ours, and public ones that Debian installs."""


@dataclass(frozen=True)
class Launch:
    """Instructions of one launch by class (enum xp_mix, without its prefix), over all
    work-items."""

    kernel: str
    mix: Counter[str]


def counted(program: Sequence[object], folder: Path) -> list[Launch]:
    """The launches of a program as the OpenCL engine counts them, or skip."""
    # Two threads of ufo compile at once: PoCL crashes in 5 of 40 native runs.
    for attempt in range(5):
        ran = layered(list(map(str, program)), folder / f"layered-{attempt}")
        if ran.done.returncode not in (-signal.SIGSEGV, -signal.SIGABRT):
            break
    assert ran.done.returncode == 0, ran.done.stderr.decode()
    gpu = ran.process.gpu
    assert gpu is not None
    found = []
    assert ran.process.launches["instrumented"].all()
    kernels = ran.process.launches["kernel"].astype(str)
    for kernel, grid in zip(kernels, gpu.launch_grid.tolist(), strict=True):
        mix = np.zeros(len(KINDS), np.int64)
        for warps in range(int(gpu.grid_start[grid]), int(gpu.grid_start[grid + 1])):
            vector = int(gpu.run_vector[warps])
            pairs = slice(int(gpu.vector_start[vector]), int(gpu.vector_start[vector + 1]))
            blocks = gpu.mix[gpu.block[pairs]].astype(np.int64)
            mix += int(gpu.run_length[warps]) * (gpu.count[pairs].astype(np.int64) @ blocks)
        found.append(Launch(kernel, Counter(dict(zip(KINDS, mix.tolist(), strict=True)))))
    return found


def interpreted(program: Sequence[object], folder: Path, own: bool = False) -> list[Launch]:
    """The launches of a program that runs on Oclgrind, or skip. The kernels are the program's own
    as far as the instrumenter prepares them, or with `own` as Oclgrind compiles them."""
    require_programs("oclgrind", package="oclgrind")
    require_programs("clang-15", "opt-15", package="clang-15, llvm-15")
    source, library = _HERE / "prepared_programs.c", folder / "prepared_programs.so"
    preload = [] if own else [str(compile_files([source], library, *LIBRARY))]
    added = {
        "LD_PRELOAD": ":".join([*preload, RUNTIME]),
        "OCLGRIND_INST_COUNTS": "1",
        "PREPARE": f"{sys.executable} {_HERE / 'prepare_code.py'}",
        "PYOPENCL_NO_CACHE": "1",
    }
    done = run(program, environment={**os.environ, **added}, cwd=folder)
    said = done.stderr.decode()
    assert done.returncode == 0 and "OCLGRIND FATAL ERROR" not in said, said
    return _launches(done.stdout.decode())


def _launches(printed: str) -> list[Launch]:
    found = []
    begin = r"Instructions executed for kernel '(.*)':\n((?: *[\d,]+ - .*\n)*)"
    for kernel, lines in re.findall(begin, printed):
        mix: Counter[str] = Counter()
        for number, name in re.findall(r"([\d,]+) - (.*)", lines):
            if kind := _class_of(re.sub(r" \([\d,]+ bytes\)", "", name)):
                mix[kind] += int(number.replace(",", ""))
        found.append(Launch(kernel, mix))
    return found


FLOAT = {"fadd", "fsub", "fmul", "fdiv", "frem", "fneg", "fcmp"}
OTHER = {"select", "extractelement", "insertelement", "shufflevector", "extractvalue"}
BRANCH = {"br", "ret", "switch", "unreachable"}
SPACES = {"global": "GLOBAL", "constant": "GLOBAL", "local": "LOCAL"}
NO_WORK = ("llvm.lifetime", "llvm.assume", "llvm.experimental.noalias")


def _class_of(name: str) -> str:
    """Class of an instruction by Oclgrind's name for it; "" for those that are no work."""
    operation, _, rest = name.partition(" ")
    if operation == "call":
        return _class_of_call(rest.removesuffix("()"))
    if operation in ("load", "store"):
        return f"{operation.upper()}_{SPACES[rest]}" if rest in SPACES else "PRIVATE"
    for kind, operations in {"FP": FLOAT, "OTHER": OTHER, "BRANCH": BRANCH}.items():
        if operation in operations:
            return kind
    return {"phi": "", "alloca": "PRIVATE"}.get(operation, "INT")


def _class_of_call(name: str) -> str:
    if name.startswith("llvm."):
        if name.startswith(NO_WORK):
            return ""
        if memory := re.match(r"llvm\.mem\w+\.p(\d)", name):
            return {"0": "PRIVATE", "3": "STORE_LOCAL"}.get(memory[1], "STORE_GLOBAL")
        return "FP" if re.search(r"\.v?\d*f\d+$", name) else "INT"
    mangled = re.match(r"_Z(\d+)(.*)", name)
    plain = mangled[2][: int(mangled[1])] if mangled else name
    if plain.startswith("atom"):
        return "ATOMIC"
    if plain == "barrier":
        return "BARRIER"
    if vector := re.match(r"v(load|store)", plain):
        space = re.search(r"PU3AS(\d)", name)
        where = ("LOCAL" if space[1] == "3" else "GLOBAL") if space else ""
        return f"{vector[1].upper()}_{where}" if where else "PRIVATE"
    return "SPECIAL"
