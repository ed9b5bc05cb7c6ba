# SPDX-License-Identifier: Apache-2.0
"""Output of `xpuprof doctor`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from xpuprof.engines.base import Engine, Probe
from xpuprof.report.text import number_of
from xpuprof.workflow.doctor import Diagnosis


def as_json(found: Diagnosis) -> dict[str, object]:
    """The object that `xpuprof doctor --json` prints."""
    return {
        "include": found.include,
        "clock": {"tsc_hz": found.tsc_hz, "tsc_invariant": found.tsc_invariant},
        "engines": [{"side": engine.kind.side, **asdict(probe)} for engine, probe in found.engines],
        "faults": found.faults,
        "cuda_driver": None if found.driver is None else asdict(found.driver),
        "carry_the_cuda_driver": [
            {"cpu": one.cpu, "gpu": one.gpu, "fault": one.outcome.fault} for one in found.outcomes
        ],
    }


def as_text(found: Diagnosis) -> str:
    """One paragraph per engine; then the driver, the clock and the marker header."""
    paragraphs = [_engine(engine, probe) for engine, probe in found.engines]
    if found.faults:
        paragraphs.append([f"other packages: {fault}" for fault in found.faults])
    if driver := found.driver:
        devices = number_of(driver.devices, "device")
        under = [f"     under {one.cpu} and {one.gpu}: {one.outcome}" for one in found.outcomes]
        paragraphs.append([f"CUDA driver {driver.version}, {devices}, {driver.path}", *under])
    kind = "invariant" if found.tsc_invariant else "NOT invariant: CLOCK_MONOTONIC_RAW is used"
    paragraphs.append(
        [
            f"clock  {found.tsc_hz / 1e9:.4f} GHz time stamp counter, {kind}",
            f"marker header  {found.include}/xpuprof/marker.h",
        ]
    )
    return "\n\n".join("\n".join(lines) for lines in paragraphs)


def _engine(engine: Engine[Any], probe: Probe) -> list[str]:
    state = "usable" if probe.available else f"not usable: {', '.join(probe.missing)}"
    lines = [f"{engine.kind.side}  {engine.name:9} {state}", f"       {engine.help}"]
    lines += [f"       {key:14} {value}" for key, value in probe.details.items()]
    if not probe.available and probe.advice:
        lines.append(f"       to get it      {probe.advice}")
    return lines
