"""xpuprof doctor"""

from __future__ import annotations

from dataclasses import asdict

import click

import xpuprof
from xpuprof.cli import options
from xpuprof.engines.base import Probe
from xpuprof.engines.choose import CudaOutcome, cuda_outcomes, probes
from xpuprof.engines.cuda_driver import Driver
from xpuprof.trace import clock


@click.command(name="doctor")
@click.option(
    "--include", is_flag=True, help="Print only the folder of xpuprof/marker.h, for cc -I."
)
@options.as_json
def command(include: bool, as_json: bool) -> int:
    """Tell what this machine can do, what is missing, and how to get it.

    \b
    xpuprof doctor
    xpuprof doctor --json
    cc -I$(xpuprof doctor --include) app.c      with markers, docs/filters.md
    """
    if include:
        click.echo(xpuprof.include())
        return 0
    found = probes()
    driver, outcomes = cuda_outcomes(lambda text: options.note(text, quiet=False))
    if as_json:
        options.print_json(
            {
                "include": xpuprof.include(),
                "clock": {"tsc_hz": clock.tsc_hz(), "tsc_invariant": clock.tsc_invariant()},
                "engines": [
                    {
                        "side": side,
                        "engine": probe.engine,
                        "available": probe.available,
                        "missing": list(probe.missing),
                        "advice": probe.advice,
                        "details": probe.details,
                    }
                    for side, probe in found
                ],
                "cuda_driver": None if driver is None else asdict(driver),
                "carry_the_cuda_driver": [
                    {"cpu": one.cpu, "gpu": one.gpu, "fault": one.outcome.fault} for one in outcomes
                ],
            }
        )
        return 0
    for side, probe in found:
        click.echo("\n".join([*_lines(side, probe), ""]))
    if driver is not None:
        click.echo("\n".join([*_driver_lines(driver, outcomes), ""]))
    kind = "invariant" if clock.tsc_invariant() else "NOT invariant: CLOCK_MONOTONIC_RAW is used"
    click.echo(f"clock  {clock.tsc_hz() / 1e9:.4f} GHz time stamp counter, {kind}")
    click.echo(f"marker header  {xpuprof.include()}/xpuprof/marker.h")
    return 0


def _lines(side: str, probe: Probe) -> list[str]:
    state = "usable" if probe.available else f"not usable: {', '.join(probe.missing)}"
    lines = [f"{side}  {probe.engine:9} {state}"]
    lines += [f"       {key:14} {value}" for key, value in probe.details.items()]
    if not probe.available and probe.advice:
        lines.append(f"       to get it      {probe.advice}")
    return lines


def _driver_lines(driver: Driver, outcomes: list[CudaOutcome]) -> list[str]:
    return [
        f"CUDA driver {driver.version}, {driver.devices} devices, {driver.path}",
        *(f"     under {one.cpu} and {one.gpu}: {one.outcome}" for one in outcomes),
    ]
