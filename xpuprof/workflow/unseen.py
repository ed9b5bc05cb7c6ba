# SPDX-License-Identifier: Apache-2.0
"""Why an execution saw no kernel, and which engine would see those of the program."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from xpuprof.engines.base import GpuEngine
from xpuprof.engines.registry import engines
from xpuprof.errors import series
from xpuprof.trace.records import ExecutionRecord

LOADER = "libOpenCL.so"
RUNTIMES = (LOADER, "libcuda.so", "libcudart.so", "libamdhip64.so", "libze_loader.so")
"""Libraries through which programs launch kernels."""
DRIVERS = ("libpocl.so", "libintelocl.so", "libigdrcl.so", "libamdocl64.so", "libnvidia-opencl.so")
"""Drivers that the OpenCL loader loads for a program; some programs do it themselves."""


def no_kernel(
    record: ExecutionRecord, losses: Sequence[str], program: str, images: Iterable[str] = ()
) -> str:
    """The sentence. `losses`: what the execution could not record; `program`: the path of its
    executable; `images`: paths of the images whose code it ran, if known."""
    engine = record.gpu_engine
    if losses:
        return f"no kernel was recorded: {losses[0]}"
    if engine == "none":
        return "no kernel was seen, since no GPU engine watched the program; choose one with --gpu"
    if record.signal:
        return "the program was ended before it launched a kernel"
    used = _used((*RUNTIMES, *DRIVERS), program, images)
    return f"no kernel was seen: {_unwatched(engine, used)}"


def _unwatched(engine: str, used: Sequence[str]) -> str:
    watches = {e.name: e.kind.runtimes for e in engines(GpuEngine)}
    own = watches.get(engine, ())
    for library in used:
        if library in own or library in DRIVERS:
            continue
        able = series([name for name, theirs in watches.items() if library in theirs], "or")
        remedy = (
            f"GPU engine {able} would see it; xpuprof doctor says what that needs"
            if able
            else "no engine sees it, so import another tool's profile (xpuprof help import)"
        )
        return f"GPU engine {engine} watches {', '.join(own)}, the program uses {library}; {remedy}"
    driver = next((library for library in used if library in DRIVERS), None)
    if driver and LOADER in own and LOADER not in used:
        return (
            f"the program loads the OpenCL driver {driver} itself, past the loader that engine "
            f"{engine} watches; link the program with {LOADER}"
        )
    return (
        f"GPU engine {engine} watches {', '.join(own) or 'other programs'}, and the program "
        "launched none there; check its arguments, choose another engine (xpuprof doctor), or run "
        "a program without kernels with --gpu none"
    )


def _used(libraries: Sequence[str], program: str, images: Iterable[str]) -> list[str]:
    """The libraries that the program names, or whose code it ran."""
    ran = {Path(path).name for path in images}
    try:
        text = Path(program).read_bytes()
    except OSError:
        text = b""
    return [
        name
        for name in libraries
        if name.encode() in text or any(image.startswith(name) for image in ran)
    ]
