#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Closes the loop in GPGPU-Sim: simulate a program as a whole, choose launches by each method,
simulate only those, estimate the whole and compare.

    . $GPGPUSIM_ROOT/setup_environment
    tools/bench/gpgpusim_loop.py FOLDER [--methods sieve ...] [--warmup N] -- ./app args

FOLDER holds gpgpusim.config; the program runs there. A simulation whose log exists is not repeated,
nor one of the same launches. CPU seconds are those of the simulator. Output is Markdown.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from xpuprof.formats.gpgpusim_log import parse
from xpuprof.inputs import Source

METHODS = {
    "sieve": [],
    "pka": [],
    "stem-root": [],
    "allegro": [],
    "xpu-stem": [],
    "random": ["--set", "n=8"],
}
METRICS = {
    "gpu_sim_cycle": "cycles",
    "gpu_sim_insn": "instructions",
    "L1D_total_cache_misses": "L1 misses",
    "L2_total_cache_accesses": "L2 accesses",
    "L2_total_cache_misses": "L2 misses",
    "total dram reads": "DRAM reads",
}
SETUP = "GPGPUSIM_SETUP_ENVIRONMENT_WAS_RUN"


@dataclass(frozen=True)
class Simulation:
    """A finished simulation: its log, and CPU seconds of the simulator."""

    log: Path
    cpu: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--warmup", default="0")
    parser.add_argument("program", nargs="+")
    arguments = parser.parse_args()
    if not os.environ.get(SETUP):
        sys.exit("source setup_environment of a built GPGPU-Sim first")
    os.chdir(arguments.folder)
    full = simulated(Path("full.log"), arguments.program)
    if not Path("RUN").exists():
        xpuprof("import", full.log, "-o", "RUN")
    every = [kernel.metrics for kernel in parse(Source(full.log))]
    truth = {name: sum(kernel[name] for kernel in every) for name in METRICS}
    row("method", "launches", "cycles simulated", "CPU s", *METRICS.values())
    row(*["---"] * (4 + len(METRICS)))
    row(
        "truth",
        len(every),
        "100%",
        f"{full.cpu:.0f}",
        *(f"{value:,.0f}" for value in truth.values()),
    )
    for method in arguments.methods:
        row(*result(method, arguments.warmup, arguments.program, truth))


def row(*cells: object) -> None:
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def result(method: str, warmup: str, program: list[str], truth: dict[str, float]) -> Iterator[str]:
    """The cells of a method: what it simulated, and each metric with its error and whether the
    interval holds the truth."""
    chosen, folder = Path(f"by-{method}"), Path(f"by-{method}-warmup-{warmup}")
    if not chosen.exists():
        xpuprof("select", "RUN", "--method", method, "-o", chosen, *METHODS.get(method, []))
    if not folder.exists():
        xpuprof("export", chosen, "--format", "gpgpusim", "--warmup", warmup, "-o", folder)
    part = simulated_part(folder, program)
    done = [kernel.metrics for kernel in parse(Source(part.log))]
    asked = [option for name in METRICS for option in ("--metric", name)]
    answer = xpuprof(
        "estimate", chosen / "selection.json", "--results", part.log, "--same-machine", *asked
    )
    cycles = sum(kernel["gpu_sim_cycle"] for kernel in done) / truth["gpu_sim_cycle"]
    yield from (method, str(len(done)), f"{cycles:.0%}", f"{part.cpu:.0f}")
    for metric in answer["metrics"]:
        true, value, (low, high) = truth[metric["metric"]], metric["value"], metric["interval"]
        error = f" ({value / true - 1:+.1%})" if true else ""
        held = "" if low is None else ", held" if low <= true <= high else ", missed"
        yield f"{value:,.0f}{error}{held}"


def simulated_part(folder: Path, program: list[str]) -> Simulation:
    """The simulation of an export's launches, or an earlier one of the same launches."""
    launches = (folder / "launches.h").read_text()
    for other in sorted(Path().glob("by-*/gpgpusim.log")):
        if (other.parent / "launches.h").read_text() == launches:
            return simulated(other, [])
    return simulated(
        folder / "gpgpusim.log", ["sh", str(folder / "run.sh"), *program], to_log=False
    )


def simulated(log: Path, command: list[str], to_log: bool = True) -> Simulation:
    """The log of a simulation, made by the command unless it is there with its CPU seconds."""
    cpu = log.with_suffix(".cpu")
    if not cpu.exists():
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        with open(log if to_log else os.devnull, "w") as output:
            subprocess.run(command, stdout=output, stderr=subprocess.DEVNULL, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        cpu.write_text(f"{seconds:.2f}\n")
    return Simulation(log, float(cpu.read_text()))


def xpuprof(command: str, *arguments: Any) -> Any:
    """What the command prints as JSON."""
    words = [sys.executable, "-m", "xpuprof", command, *map(str, arguments), "-q"]
    quiet = ["--json"] if command != "import" else []
    done = subprocess.run([*words, *quiet], check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout) if quiet else None


if __name__ == "__main__":
    main()
