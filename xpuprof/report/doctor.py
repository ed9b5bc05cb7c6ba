# SPDX-License-Identifier: Apache-2.0
"""Output of `xpuprof doctor`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from click import style

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
    """The verdict, a line per engine; then what the usable ones use, and how to get the others."""
    paragraphs = [[_verdict(found)], [_line(engine, probe) for engine, probe in found.engines]]
    usable = [(engine, probe) for engine, probe in found.engines if probe.available]
    paragraphs += [_details(engine, probe) for engine, probe in usable if probe.details]
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
    remedies = [_remedy(engine, probe) for engine, probe in found.engines if not probe.available]
    remedies += [f"other packages: {fault}" for fault in found.faults]
    if remedies:
        paragraphs.append(["To get more:", *remedies])
    return "\n\n".join("\n".join(lines) for lines in paragraphs)


def _verdict(found: Diagnosis) -> str:
    names = {
        side: [e.name for e, probe in found.engines if probe.available and e.kind.side == side]
        for side in ("CPU", "GPU")
    }
    if not names["GPU"]:
        return style("No kernel can be seen here: no GPU engine is usable; see below", fg="red")
    host = " and ".join(names["CPU"]) or "none, so profiles lack CPU vectors"
    return style(f"Ready: GPU engine {' and '.join(names['GPU'])}, CPU engine {host}", fg="green")


def _line(engine: Engine[Any], probe: Probe) -> str:
    state, colour = ("usable", "green") if probe.available else ("not usable", "yellow")
    name = f"{engine.kind.side}  {engine.name:<10}"
    return f"{name} {style(f'{state:<10}', fg=colour)}  {engine.help}"


def _details(engine: Engine[Any], probe: Probe) -> list[str]:
    return [engine.name, *(f"  {key:14} {value}" for key, value in probe.details.items())]


def _remedy(engine: Engine[Any], probe: Probe) -> str:
    return f"  {f'{engine.name}: {probe.mistake}' if probe.mistake else probe.lack}"
