# SPDX-License-Identifier: Apache-2.0
"""Chooses the engines of a run: by name, or `auto`, the best on this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from xpuprof.engines.base import CpuEngine, Engine, GpuEngine, Probe
from xpuprof.engines.cuda_driver import Driver, Outcome, carries, driver
from xpuprof.engines.filters import MEMORY, Filters, wanted_of_cpu_engine
from xpuprof.engines.registry import engine, engines
from xpuprof.errors import EngineError

E = TypeVar("E", CpuEngine, GpuEngine)


@dataclass(frozen=True)
class Engines:
    """The engines of a run. `fallbacks`: why engines that cannot carry the CUDA driver were passed
    over, one sentence each; `notes`: also why a side has no engine, and what is not recorded."""

    cpu: CpuEngine | None
    gpu: GpuEngine | None
    fallbacks: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class CudaOutcome(NamedTuple):
    """How a CUDA program ended under these engines (`cpu` may be `none`)."""

    cpu: str
    gpu: str
    outcome: Outcome


def gpu_engine(name: str) -> GpuEngine | None:
    """The GPU engine `name`, for runs without a CPU engine; None for `none` or when `auto` finds
    none.

    Raises EngineError for an unknown name, or with what is missing and how to get it.
    """
    return next(_candidates(GpuEngine, name), None)


def choose(cpu: str, gpu: str, filters: Filters, say: Callable[[str], None]) -> Engines:
    """Engines that can run together here; `auto` chooses among those that honour the filters.
    `say` is called before slow work.

    Raises EngineError for an unknown name, with what is missing and how to get it, or when a named
    engine does not carry this machine's CUDA driver.
    """
    known: list[Driver] = []  # probed once, and only if a CUDA engine may be used

    def outcome(cpu_engine: CpuEngine | None, gpu_engine: GpuEngine) -> Outcome | None:
        if not gpu_engine.in_cuda_driver:
            return None
        if not known and (found := driver()):
            known.append(found)
        return carries(cpu_engine, gpu_engine, known[0], say) if known else None

    device, refused = _carried(GpuEngine, gpu, lambda engine: outcome(None, engine))
    name = able(cpu, filters)
    host, more = _carried(
        CpuEngine, name, lambda engine: outcome(engine, device) if device else None
    )
    fallbacks = (*refused, *more)
    notes = [
        *fallbacks,
        *([] if refused else _none_usable(GpuEngine, gpu, device)),
        *([] if more else _none_usable(CpuEngine, name, host)),
    ]
    if host and host.caveat:
        notes.append(host.caveat)
    if filters.memory and device and not device.honours >= MEMORY:
        notes.append(
            f"GPU engine {device.name} records no stack distances; only the CPU's are kept"
        )
    return Engines(host, device, fallbacks, tuple(notes))


def able(cpu: str, filters: Filters) -> str:
    """The CPU engine's name: `auto` becomes the best engine that honours all filters."""
    wanted = wanted_of_cpu_engine(filters)
    if cpu != "auto" or not wanted:
        return cpu
    found = (e.name for e in _candidates(CpuEngine, cpu) if e.honours.issuperset(wanted))
    return next(found, cpu)


def probes() -> list[tuple[Engine[Any], Probe]]:
    """Every engine and its probe, for `doctor`."""
    every: list[Engine[Any]] = [*engines(CpuEngine), *engines(GpuEngine)]
    return [(declared, declared.kind().probe()) for declared in every]


def cuda_outcomes(say: Callable[[str], None]) -> tuple[Driver | None, list[CudaOutcome]]:
    """Which of this machine's engines carry its CUDA driver, for `doctor`; none without a GPU."""
    found = driver()
    if found is None or not found.devices:
        return found, []
    gpus = [engine for engine in _available(GpuEngine) if engine.in_cuda_driver]
    hosts: list[CpuEngine | None] = [None, *_available(CpuEngine)]
    return found, [
        CudaOutcome(cpu.name if cpu else "none", gpu.name, carries(cpu, gpu, found, say))
        for gpu in gpus
        for cpu in hosts
    ]


def _candidates(side: type[E], name: str) -> Iterator[E]:
    """The usable engines, best first. Raises EngineError if a named one is not usable, or if on the
    way to the one that is taken a setting is wrong."""
    if name == "none":
        return
    if name == "auto":
        for candidate, probe in _probed(side):
            if probe.mistake:
                raise EngineError(probe.mistake)
            if probe.available:
                yield candidate
        return
    named = engine(side, name).kind()
    named.usable()
    yield named


def _probed(side: type[E]) -> Iterator[tuple[E, Probe]]:
    """Every engine of a side, best first."""
    for declared in engines(side):
        candidate = declared.kind()
        yield candidate, candidate.probe()


def _available(side: type[E]) -> list[E]:
    return [candidate for candidate, probe in _probed(side) if probe.available]


def _carried(
    side: type[E], name: str, outcome_of: Callable[[E], Outcome | None]
) -> tuple[E | None, list[str]]:
    """The first engine under which CUDA programs run, and why earlier ones were passed over."""
    refused: list[str] = []
    for candidate in _candidates(side, name):
        outcome = outcome_of(candidate)
        if outcome is None or not outcome.fault:
            return candidate, [f"{why}; {candidate.name} is used instead" for why in refused]
        why = f"{side.side} engine {candidate.name} does not carry the CUDA driver here ({outcome})"
        if name != "auto":
            raise EngineError(f"{why}; use --{side.side.lower()} auto, or none")
        refused.append(why)
    return None, [f"{why}; the run has no {side.side} engine" for why in refused]


def _none_usable(side: type[E], name: str, found: E | None) -> list[str]:
    """Why `auto` found no engine for a side, and how to get one; else empty."""
    if name != "auto" or found is not None:
        return []
    suggested = next(declared for declared in engines(side) if declared.suggested)
    lack = suggested.kind().probe().lack
    return [f"the run has no {side.side} engine, since none is usable here; {lack}"]
