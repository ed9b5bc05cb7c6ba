"""xpuprof doctor"""

from __future__ import annotations

import click

from xpuprof.cli import options
from xpuprof.engines.base import Probe
from xpuprof.launch.choose import probes
from xpuprof.report.text import table
from xpuprof.trace import clock


@click.command(name="doctor")
@options.as_json
def command(as_json: bool) -> int:
    """Tell what this machine can do, what is missing, and how to get it.

    \b
    xpuprof doctor
    xpuprof doctor --json
    """
    found = probes()
    if as_json:
        options.print_json(
            {
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
            }
        )
        return 0
    rows = [
        [side, probe.engine, "yes" if probe.available else "no", _what(probe)]
        for side, probe in found
    ]
    click.echo(table(["side", "engine", "usable", "found, or what is missing"], rows))
    kind = "invariant" if clock.tsc_invariant() else "NOT invariant: CLOCK_MONOTONIC_RAW is used"
    click.echo(f"\nclock  {clock.tsc_hz() / 1e9:.4f} GHz time stamp counter, {kind}")
    for _, probe in found:
        if not probe.available and probe.advice:
            click.echo(f"\n{probe.engine}: {probe.advice}")
    return 0


def _what(probe: Probe) -> str:
    if probe.available:
        return ", ".join(f"{key} {value}" for key, value in probe.details.items())
    return ", ".join(probe.missing)
