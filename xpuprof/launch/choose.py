"""Which engines a run uses: by name, or `auto`, the best that this machine has."""

from __future__ import annotations

from importlib import import_module
from typing import cast

from xpuprof.engines.base import CpuEngine, GpuEngine, Probe
from xpuprof.errors import EngineError

# In the order in which `auto` prefers them. The class of an engine bears its module's name.
CPU_ENGINES = {"dynamorio": "DynamoRio", "pin": "Pin", "valgrind": "Valgrind"}
GPU_ENGINES = {"nvbit": "Nvbit", "cuda": "Cuda", "opencl": "OpenCl", "gtpin": "Gtpin"}


def _load(name: str, classes: dict[str, str]) -> CpuEngine | GpuEngine | None:
    try:
        module = import_module(f"xpuprof.engines.{name}")
    except ModuleNotFoundError as error:
        if error.name == f"xpuprof.engines.{name}":
            return None
        raise
    return cast("CpuEngine | GpuEngine", getattr(module, classes[name])())


def _choose(side: str, name: str, classes: dict[str, str]) -> CpuEngine | GpuEngine | None:
    if name == "none":
        return None
    if name == "auto":
        for candidate in classes:
            engine = _load(candidate, classes)
            if engine and engine.probe().available:
                return engine
        return None
    engine = _load(name, classes) if name in classes else None
    if engine is None:
        raise EngineError(
            f"there is no {side} engine {name}; choose auto, none, {', '.join(classes)}"
        )
    probe = engine.probe()
    if not probe.available:
        raise EngineError(
            f"engine {name} cannot be used: {', '.join(probe.missing)}. {probe.advice}"
        )
    return engine


def cpu_engine(name: str) -> CpuEngine | None:
    """The CPU engine of that name; None for `none` or when `auto` finds nothing.

    Raises EngineError: unknown name, or what is missing and how to get it.
    """
    return cast("CpuEngine | None", _choose("CPU", name, CPU_ENGINES))


def gpu_engine(name: str) -> GpuEngine | None:
    """The GPU engine of that name; None for `none` or when `auto` finds nothing."""
    return cast("GpuEngine | None", _choose("GPU", name, GPU_ENGINES))


def passed_over(cpu: str, gpu: str, program_cpu: object, program_gpu: object) -> list[str]:
    """Why `auto` found no engine for a side, one sentence each; empty when it found both."""
    found = []
    sides = (
        ("CPU", cpu, program_cpu, "valgrind", CPU_ENGINES),
        ("GPU", gpu, program_gpu, "opencl", GPU_ENGINES),
    )
    for side, name, engine, usual, classes in sides:
        if name != "auto" or engine is not None or not (candidate := _load(usual, classes)):
            continue
        probe = candidate.probe()
        found.append(
            f"no {side} engine can be used here, so the {side} side stays empty: "
            f"{', '.join(probe.missing)} missing; {probe.advice or 'see xpuprof doctor'}"
        )
    return found


def probes() -> list[tuple[str, Probe]]:
    """What every engine finds on this machine, for `doctor`."""
    found = []
    for side, classes in (("CPU", CPU_ENGINES), ("GPU", GPU_ENGINES)):
        for name in classes:
            engine = _load(name, classes)
            if engine is not None:
                found.append((side, engine.probe()))
    return found
