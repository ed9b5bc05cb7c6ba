#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Closes the loop in GPGPU-Sim: simulate a program as a whole, choose launches by each method,
simulate only those, estimate the whole and compare.

    . $GPGPUSIM_ROOT/setup_environment
    tools/bench/gpgpusim_loop.py FOLDER [--methods sieve ...] [--warmup N | --warm-cache SIZE]
        -- ./app args

FOLDER holds gpgpusim.config; the program runs there. Methods of block vectors choose from
FOLDER/TWIN, a profile of the same launches (cuda_twin.py); with `--memory` it has the distances
that --warm-cache needs. A simulation that was done is not repeated, nor one of the same launches;
a log in hand is FOLDER/full.log, with its CPU seconds in full.cpu. CPU seconds are those of the
simulator. Output is Markdown.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.support.run import done_by_xpuprof as xpuprof
from xpuprof.formats.gpgpusim_log import parse
from xpuprof.inputs import Source
from xpuprof.selection.selection import Selection
from xpuprof.workflow.estimate import estimate_results

OF_VECTORS = ("xpu-point", "gpu-point")
METHODS = {
    **{method: [] for method in OF_VECTORS},
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
    parser.add_argument("--warm-cache", metavar="SIZE")
    parser.add_argument("program", nargs="+")
    arguments = parser.parse_args()
    if not os.environ.get(SETUP):
        sys.exit("source setup_environment of a built GPGPU-Sim first")
    os.chdir(arguments.folder)
    if Path("full.log").exists() and not Path("full.cpu").exists():
        sys.exit("full.log has no CPU seconds: write them to full.cpu if it is whole, or remove it")
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
    warm = ["--warmup", arguments.warmup]
    if arguments.warm_cache:
        warm = ["--warm-cache", arguments.warm_cache]
    for method in arguments.methods:
        row(*result(method, warm, arguments.program, truth))


def row(*cells: object) -> None:
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def result(
    method: str, warm: list[str], program: list[str], truth: dict[str, float]
) -> Iterator[str]:
    """The cells of a method: what it simulated, and each metric with its error and whether the
    interval holds the truth."""
    chosen, folder = Path(f"by-{method}"), Path(f"by-{method}{'-'.join(warm)[1:]}")
    run = "TWIN" if method in OF_VECTORS else "RUN"
    if not chosen.exists():
        xpuprof("select", run, "--method", method, "-o", chosen, *METHODS.get(method, []))
    if not folder.exists():
        source = ["TWIN", "--selection", chosen / "selection.json"]
        if run == "RUN" and "--warm-cache" not in warm:
            source = [chosen]
        xpuprof("export", *source, "--format", "gpgpusim", *warm, "-o", folder)
    part = simulated_part(folder, program)
    done = [kernel.metrics for kernel in parse(Source(part.log))]
    selection = Selection.read(chosen / "selection.json")
    found = estimate_results(selection, [str(part.log)], only=list(METRICS), same_machine=True)
    cycles = sum(kernel["gpu_sim_cycle"] for kernel in done) / truth["gpu_sim_cycle"]
    yield from (method, str(len(done)), f"{cycles:.0%}", f"{part.cpu:.0f}")
    for metric in found:
        true, estimate = truth[metric.name], metric.estimate
        error = f" ({estimate.value / true - 1:+.1%})" if true else ""
        held = ""
        if estimate.low is not None and estimate.high is not None:
            held = ", held" if estimate.low <= true <= estimate.high else ", missed"
        yield f"{estimate.value:,.0f}{error}{held}"


def simulated_part(folder: Path, program: list[str]) -> Simulation:
    """The simulation of an export's launches, or an earlier one of the same launches."""
    launches = (folder / "launches.h").read_text()
    for cpu in sorted(Path().glob("by-*/gpgpusim.cpu")):
        if (cpu.parent / "launches.h").read_text() == launches:
            return simulated(cpu.with_suffix(".log"), [])
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


if __name__ == "__main__":
    main()
