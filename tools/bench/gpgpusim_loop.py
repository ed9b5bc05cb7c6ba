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
    heads = "method, launches, cycles simulated, CPU s, metric, estimate, truth, error, interval"
    print(f"| {heads.replace(', ', ' | ')} |\n{'|---' * 9}|")
    for method in arguments.methods:
        for row in rows(method, arguments.warmup, arguments.program, full):
            print("| " + " | ".join(row) + " |", flush=True)


def rows(method: str, warmup: str, program: list[str], full: Simulation) -> list[list[str]]:
    """The table's rows of a method, one a metric."""
    chosen, folder = Path(f"by-{method}"), Path(f"by-{method}-warmup-{warmup}")
    if not chosen.exists():
        xpuprof("select", "RUN", "--method", method, "-o", chosen, *METHODS.get(method, []))
    if not folder.exists():
        xpuprof("export", chosen, "--format", "gpgpusim", "--warmup", warmup, "-o", folder)
    part = simulated_part(folder, program)
    every = [kernel.metrics for kernel in parse(Source(full.log))]
    done = [kernel.metrics for kernel in parse(Source(part.log))]
    asked = [option for name in METRICS for option in ("--metric", name)]
    answer = xpuprof(
        "estimate", chosen / "selection.json", "--results", part.log, "--same-machine", *asked
    )
    cycles = sum(k["gpu_sim_cycle"] for k in done) / sum(k["gpu_sim_cycle"] for k in every)
    what = [
        method,
        f"{len(done)} of {len(every)}",
        f"{cycles:.1%}",
        f"{part.cpu:.0f} of {full.cpu:.0f}",
    ]
    found = []
    for metric in answer["metrics"]:
        truth = sum(kernel[metric["metric"]] for kernel in every)
        value, (low, high) = metric["value"], metric["interval"]
        error = f"{value / truth - 1:+.2%}" if truth else "-"
        interval = "none"
        if low is not None:
            held = "held" if low <= truth <= high else "missed"
            interval = f"{low:,.0f} to {high:,.0f}, {held}"
        name = METRICS[metric["metric"]]
        found.append([*what, name, f"{value:,.0f}", f"{truth:,.0f}", error, interval])
        what = [""] * len(what)
    return found


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
