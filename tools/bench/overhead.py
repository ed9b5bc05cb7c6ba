# SPDX-License-Identifier: Apache-2.0
"""What xpuprof costs on unmodified programs: kernel time under exact counting, and whole runs
under the timers, the GPU engine, the CPU engine and both, against native.

    python tools/bench/overhead.py [--pairs 5] [--ways kernels,gpu] [--json] [COMMAND ...]

Each COMMAND is one quoted string; without any, clpeak's kernel latency test (20,002 launches) and
the example programs. The OpenCL runtime is the machine's own, or with XPUPROF_OPENCL_RUNTIME=intel
Intel's, native runs included. The ways take turns, so that the machine's drift affects all of
them; the first round is not counted: it fills the caches of compiler and instrumenter.

Kernel time is the sum of each launch's device time (end - start): natively in a run
under the asynchronous timer, counted in a profile with the same device stamps. Whole
runs are compared by wall clock and by CPU time (the one to look at on a busy machine). Ratios are
medians over the pairs.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import numpy as np

from xpuprof.engines.base import CpuOptions, GpuOptions, Mode, Timer
from xpuprof.engines.cpu.valgrind import Valgrind
from xpuprof.engines.gpu.opencl import OpenCl, runtime_environment
from xpuprof.engines.native import native_file
from xpuprof.trace.clock import tsc_hz
from xpuprof.trace.reader import process_folders, read_process

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Way:
    """One way of running the program."""

    mode: Mode
    timer: Timer = "async"
    cpu: bool = False
    gpu: bool = True
    stamps: bool = False  # of the device, in a profile


WAYS = {
    "async": Way("time"),
    "sync": Way("time", "sync"),
    "gpu": Way("profile"),
    "kernels": Way("profile", stamps=True),
    "cpu": Way("profile", cpu=True, gpu=False),
    "both": Way("profile", cpu=True),
}


@dataclass
class Cost:
    """One run: seconds, and its record."""

    wall: float
    cpu: float
    kernels: float = 0.0
    launches: int = 0
    instrumented: int = 0
    trace: int = 0


@dataclass
class Row:
    """All runs of a program, a list per way, `native` included."""

    command: str
    runs: dict[str, list[Cost]] = field(default_factory=dict)

    def ratio(self, what: str, way: str, against: str = "native") -> float:
        pairs = zip(self.runs[way], self.runs[against], strict=True)
        return median(getattr(a, what) / getattr(b, what) for a, b in pairs)

    def middle(self, what: str, way: str) -> float:
        return median(getattr(cost, what) for cost in self.runs[way])


def defaults() -> list[str]:
    """The default programs that are available."""
    found = []
    if shutil.which("clpeak"):
        found.append("clpeak --kernel-latency")
    particles = native_file("demo/particles")
    if particles.is_file():
        found.append(str(particles))
    found.append(f"{sys.executable} {ROOT / 'examples' / 'heat' / 'heat.py'}")
    return found


def once(command: list[str], env: Mapping[str, str]) -> Cost:
    """Wall clock and CPU seconds of one run."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(command, env=env, check=True, stdout=subprocess.DEVNULL, cwd=ROOT)
    wall, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return Cost(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def native(command: list[str]) -> Cost:
    """One run without us, on the same runtime."""
    with tempfile.TemporaryDirectory() as name:
        return once(command, dict(os.environ) | runtime_environment(Path(name)))


def under(command: list[str], way: Way) -> Cost:
    """One run and its record."""
    engine, options = OpenCl(), GpuOptions()
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        env = dict(os.environ) | {"XPUPROF_DIR": name, "XPUPROF_MODE": way.mode}
        if way.gpu:
            env |= engine.environment(way.mode, way.timer, folder, options)
            env |= stack.enter_context(engine.start_services(way.mode, folder, options))
        else:
            env |= runtime_environment(folder)
        if way.stamps:
            env["XPUPROF_TIMER"] = "async"
        if way.cpu:
            command, more = Valgrind().wrap(command, CpuOptions(), folder)
            env |= more
        cost = once(command, env)
        for part in process_folders(folder):
            add_recorded(cost, part, way.mode)
    return cost


def add_recorded(cost: Cost, part: Path, mode: Mode) -> None:
    """The record of one process of the run."""
    process = read_process(part, mode, True)
    launches = process.launches
    cost.launches += len(launches)
    cost.instrumented += int(launches["instrumented"].sum())
    start, end = (launches[name].to_numpy(np.int64) for name in ("dev_start", "dev_end"))
    cost.kernels += float((end - start).sum()) / tsc_hz()
    for stream in part.glob("*.xpt"):
        cost.trace += stream.stat().st_size


def measure(text: str, pairs: int, ways: Iterable[str]) -> Row:
    """All runs of one program."""
    command, row = shlex.split(text), Row(text)
    for number in range(pairs + 1):
        for name in ("native", *ways):
            cost = native(command) if name == "native" else under(command, WAYS[name])
            if number:
                row.runs.setdefault(name, []).append(cost)
    return row


def geomean(values: Iterable[float]) -> float:
    """Geometric mean."""
    return math.exp(float(np.mean(np.log(list(values)))))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("commands", nargs="*")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--ways", default=",".join(WAYS), help=f"of {', '.join(WAYS)}")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    ways = arguments.ways.split(",")
    if "kernels" in ways and "async" not in ways:
        ways.insert(0, "async")  # which gives native kernel times
    rows = []
    for text in arguments.commands or defaults():
        rows.append(measure(text, arguments.pairs, ways))
        if not arguments.json:
            show(rows[-1], ways, header=len(rows) == 1)
    if arguments.json:
        print(json.dumps([{"command": r.command, "runs": as_json(r)} for r in rows]))
    else:
        show_means(rows, ways)


def as_json(row: Row) -> dict[str, list[dict[str, float]]]:
    return {way: [vars(cost) for cost in costs] for way, costs in row.runs.items()}


def show(row: Row, ways: list[str], header: bool) -> None:
    """One line: kernel time, then whole runs, then sizes."""
    whole = [way for way in ways if way != "kernels"]
    recorded = next((way for way in ("gpu", "kernels", "both") if way in ways), ways[0])
    if header:
        print(f"{'':32}", end="")
        if "kernels" in ways:
            print(f"{'kernels native':>16}{'counted':>12}{'ratio':>7}", end="")
        print(f"{'whole native':>14}", *(f"{way + ' wall/cpu':>15}" for way in whole), end="")
        print(f"{'launches':>10}{'counted':>9}{'trace B':>11}{'B a launch':>12}")
    print(f"{name_of(row.command):32}", end="")
    if "kernels" in ways:
        times = (1e3 * row.middle("kernels", way) for way in ("async", "kernels"))
        print("{:13.2f} ms{:9.2f} ms".format(*times), end="")
        print(f"{row.ratio('kernels', 'kernels', 'async'):7.2f}", end="")
    print(f"{row.middle('wall', 'native'):12.2f} s", end="")
    for way in whole:
        print(f"{row.ratio('wall', way):8.2f} /{row.ratio('cpu', way):6.2f}", end="")
    last = row.runs[recorded][-1]
    print(f"{last.launches:10,}{last.instrumented:9,}{last.trace:11,}", end="")
    print(f"{last.trace / max(1, last.launches):12.1f}", flush=True)


def name_of(command: str) -> str:
    """The program's name, without folders and `bash -c "cd FOLDER && ..."` around it."""
    return shlex.split(command)[-1].split("&&")[-1].strip().rpartition("./")[2][-31:]


def show_means(rows: list[Row], ways: list[str]) -> None:
    if "kernels" in ways:
        ratios = [row.ratio("kernels", "kernels", "async") for row in rows]
        print(f"kernel time: geomean {geomean(ratios):.2f}x, worst {max(ratios):.2f}x")
    for way in ways:
        if way == "kernels":
            continue
        means = (geomean(row.ratio(what, way) for row in rows) for what in ("wall", "cpu"))
        print("whole run, {}: geomean {:.2f}x wall, {:.2f}x CPU".format(way, *means))


if __name__ == "__main__":
    main()
