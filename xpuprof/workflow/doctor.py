# SPDX-License-Identifier: Apache-2.0
"""What this machine supports: engines, the CUDA driver under them, the clock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from xpuprof.engines.base import Engine, Probe
from xpuprof.engines.choose import CudaOutcome, cuda_outcomes, probes
from xpuprof.engines.cuda_driver import Driver
from xpuprof.engines.native import include
from xpuprof.engines.registry import faults
from xpuprof.trace import clock


@dataclass(frozen=True)
class Diagnosis:
    """The result of `diagnose`."""

    engines: tuple[tuple[Engine[Any], Probe], ...]
    """In `auto`'s order of preference."""
    faults: tuple[str, ...]
    """Third-party engines that cannot be loaded, one sentence each."""
    driver: Driver | None
    outcomes: tuple[CudaOutcome, ...]
    """Which engines carry the CUDA driver."""
    tsc_hz: float
    tsc_invariant: bool
    include: str
    """The include folder (-I) for `xpuprof/marker.h`."""


def diagnose(*, say: Callable[[str], None] = lambda text: None) -> Diagnosis:
    """Probe every engine. `say` is called before slow work."""
    driver, outcomes = cuda_outcomes(say)
    return Diagnosis(
        tuple(probes()),
        tuple(faults()),
        driver,
        tuple(outcomes),
        clock.tsc_hz(),
        clock.tsc_invariant(),
        include(),
    )
