"""Which engines a run uses: by name, or `auto`, the best that this machine has."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import NamedTuple, cast

from xpuprof.engines.base import CpuEngine, GpuEngine, Probe
from xpuprof.engines.cuda_driver import CUDA_ENGINES, Driver, Outcome, carries, driver
from xpuprof.errors import EngineError

Engine = CpuEngine | GpuEngine

# In the order in which `auto` prefers them. The class of an engine bears its module's name.
CPU_ENGINES = {"dynamorio": "DynamoRio", "pin": "Pin", "valgrind": "Valgrind"}
GPU_ENGINES = {"nvbit": "Nvbit", "cuda": "Cuda", "opencl": "OpenCl", "gtpin": "Gtpin"}


class CudaOutcome(NamedTuple):
    """What became of a CUDA program under these engines (`cpu` may be `none`)."""

    cpu: str
    gpu: str
    outcome: Outcome


def _load(name: str, classes: dict[str, str]) -> Engine | None:
    path = f"xpuprof.engines.{'cpu' if classes is CPU_ENGINES else 'gpu'}.{name}"
    try:
        module = import_module(path)
    except ModuleNotFoundError as error:
        if error.name == path:
            return None
        raise
    return cast("Engine", getattr(module, classes[name])())


def _candidates(side: str, name: str, classes: dict[str, str]) -> Iterator[Engine]:
    """The engines that may be used, best first. Raises EngineError for a named one that cannot."""
    if name == "none":
        return
    if name == "auto":
        for candidate in classes:
            engine = _load(candidate, classes)
            if engine and engine.probe().available:
                yield engine
        return
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
    yield engine


def able(cpu: str, wanted: Collection[str]) -> str:
    """The CPU engine for these options: `auto` is then the best of those that honour them all."""
    if cpu != "auto" or not wanted:
        return cpu
    found = (e.name for e in _candidates("CPU", cpu, CPU_ENGINES) if e.honours.issuperset(wanted))
    return next(found, cpu)


def without_distances(gpu: GpuEngine | None) -> list[str]:
    """What --memory leaves empty on the device's side, as a sentence."""
    if gpu is None or "--memory" in gpu.honours:
        return []
    return [f"GPU engine {gpu.name} records no stack distances: --memory is of the CPU alone"]


def gpu_engine(name: str) -> GpuEngine | None:
    """The GPU engine of that name, for runs without a CPU engine; None for `none` or when `auto`
    finds nothing.

    Raises EngineError: unknown name, or what is missing and how to get it.
    """
    return cast("GpuEngine | None", next(_candidates("GPU", name, GPU_ENGINES), None))


@dataclass(frozen=True)
class Engines:
    """The engines of a profile. `fallbacks`: what had to be passed over because it cannot carry
    the CUDA driver, one sentence each; `notes`: these, and why a side stays empty."""

    cpu: CpuEngine | None
    gpu: GpuEngine | None
    fallbacks: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def engines(cpu: str, gpu: str, say: Callable[[str], None]) -> Engines:
    """The engines of those names, which can run together here; `say` is told of what takes long.

    Raises EngineError: unknown name, or what is missing and how to get it, or that a named engine
    does not carry this machine's CUDA driver.
    """
    known: list[Driver] = []  # asked for once, and only when a CUDA engine may be used

    def outcome(cpu_engine: CpuEngine | None, gpu_engine: GpuEngine) -> Outcome | None:
        if gpu_engine.name not in CUDA_ENGINES:
            return None
        if not known and (found := driver()):
            known.append(found)
        return carries(cpu_engine, gpu_engine, known[0], say) if known else None

    chosen_gpu, refused = _carried(
        "GPU", gpu, GPU_ENGINES, lambda engine: outcome(None, cast("GpuEngine", engine))
    )
    device = cast("GpuEngine | None", chosen_gpu)
    chosen_cpu, more = _carried(
        "CPU",
        cpu,
        CPU_ENGINES,
        lambda engine: outcome(cast("CpuEngine", engine), device) if device else None,
    )
    fallbacks = (*refused, *more)
    empty = [
        *([] if refused else _passed_over("GPU", gpu, device, "opencl", GPU_ENGINES)),
        *([] if more else _passed_over("CPU", cpu, chosen_cpu, "valgrind", CPU_ENGINES)),
    ]
    return Engines(cast("CpuEngine | None", chosen_cpu), device, fallbacks, (*fallbacks, *empty))


def _carried(
    side: str,
    name: str,
    classes: dict[str, str],
    outcome_of: Callable[[Engine], Outcome | None],
) -> tuple[Engine | None, list[str]]:
    """The first engine under which CUDA programs run, and why those before it were not taken."""
    refused: list[str] = []
    for engine in _candidates(side, name, classes):
        outcome = outcome_of(engine)
        if outcome is None or not outcome.fault:
            return engine, [f"{sentence}; {engine.name} is used instead" for sentence in refused]
        sentence = f"{side} engine {engine.name} does not carry the CUDA driver here ({outcome})"
        if name != "auto":
            raise EngineError(f"{sentence}; use --{side.lower()} auto, or none")
        refused.append(sentence)
    return None, [f"{sentence}; the {side} side stays empty" for sentence in refused]


def _passed_over(
    side: str, name: str, engine: Engine | None, usual: str, classes: dict[str, str]
) -> list[str]:
    """Why `auto` found no engine for a side; empty when it found one."""
    if name != "auto" or engine is not None or not (candidate := _load(usual, classes)):
        return []
    probe = candidate.probe()
    return [
        f"no {side} engine can be used here, so the {side} side stays empty: "
        f"{', '.join(probe.missing)} missing; {probe.advice or 'see xpuprof doctor'}"
    ]


def cuda_outcomes(say: Callable[[str], None]) -> tuple[Driver | None, list[CudaOutcome]]:
    """Which of this machine's engines carry its CUDA driver, for `doctor`; none without a GPU."""
    found = driver()
    if found is None or not found.devices:
        return found, []
    gpus = [e for n in CUDA_ENGINES if (e := _load(n, GPU_ENGINES)) and e.probe().available]
    cpus = [e for n in CPU_ENGINES if (e := _load(n, CPU_ENGINES)) and e.probe().available]
    return found, [
        CudaOutcome(
            cpu.name if cpu else "none",
            gpu.name,
            carries(cast("CpuEngine | None", cpu), cast("GpuEngine", gpu), found, say),
        )
        for gpu in gpus
        for cpu in (None, *cpus)
    ]


def probes() -> list[tuple[str, Probe]]:
    """What every engine finds on this machine, for `doctor`."""
    found = []
    for side, classes in (("CPU", CPU_ENGINES), ("GPU", GPU_ENGINES)):
        for name in classes:
            engine = _load(name, classes)
            if engine is not None:
                found.append((side, engine.probe()))
    return found
