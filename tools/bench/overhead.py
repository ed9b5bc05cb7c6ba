# SPDX-License-Identifier: Apache-2.0
"""What xpuprof costs on unmodified programs: kernel time under exact counting, and whole runs
under the timers, the GPU engine, CPU engines and both sides, against native.

    python tools/bench/overhead.py [--pairs 5] [--ways kernels,gpu] [--json] [COMMAND ...]
    python tools/bench/overhead.py --ways both,cold --engine valgrind --engine dynamorio

Each COMMAND is one quoted string; without any, clpeak's kernel latency test (20,002 launches) and
the example programs. The OpenCL runtime is the machine's own, or with XPUPROF_OPENCL_RUNTIME=intel
Intel's, native runs included. The ways take turns, so that the machine's drift affects all of
them; the first round is not counted: it fills the caches of compiler and instrumenter. `cold` is
`both` with only what the native run before it left: the first `xpuprof run` of a program.

Kernel time is the sum of each launch's device time (end - start): natively in a run
under the asynchronous timer, counted in a profile with the same device stamps. Whole
runs are compared by wall clock and by CPU time (the one to look at on a busy machine; without the
instrumenter, which is a process of ours). Ratios are medians over the pairs. `more MB`: the largest
resident set of a process of the program, less the native one's.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median

import numpy as np

from xpuprof.engines.base import (
    Ahead,
    CpuEngine,
    CpuOptions,
    GpuOptions,
    Mode,
    Timer,
    recording,
)
from xpuprof.engines.gpu.opencl import OpenCl, runtime_environment
from xpuprof.engines.native import native_file
from xpuprof.engines.registry import engine as cpu_engine
from xpuprof.errors import XpuprofError
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
    cold: bool = False
    engine: str = ""


WAYS = {
    "async": Way("time"),
    "sync": Way("time", "sync"),
    "gpu": Way("profile"),
    "kernels": Way("profile", stamps=True),
    "cpu": Way("profile", cpu=True, gpu=False),
    "both": Way("profile", cpu=True),
    "cold": Way("profile", cpu=True, cold=True),
}


@dataclass
class Cost:
    """One run: seconds, and its record."""

    wall: float
    cpu: float
    peak: float  # MB
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
    """Wall clock, CPU seconds and memory of one run."""
    start = time.monotonic()
    process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, cwd=ROOT)
    _, status, used = os.wait4(process.pid, 0)
    wall = time.monotonic() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return Cost(wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def native(command: list[str]) -> Cost:
    """One run without us, on the same runtime."""
    with tempfile.TemporaryDirectory() as name:
        return once(command, dict(os.environ) | runtime_environment(Path(name)))


@contextmanager
def cold_caches(command: list[str], engine: str) -> Iterator[GpuOptions]:
    """Caches of the runtime and the instrumenter that have seen the first run of `xpuprof run`, and
    what this run left for the profile under `engine`."""
    kept = dict(os.environ)
    with tempfile.TemporaryDirectory() as name:
        os.environ["XDG_CACHE_HOME"] = name
        os.environ.pop("POCL_CACHE_DIR", None)
        first, ahead = Path(name) / "first", Path(name) / "ahead"
        first.mkdir()
        ahead.mkdir()
        options = GpuOptions(ahead=Ahead(ahead, engine))
        try:
            ours = OpenCl().environment("time", "async", first, options)
            once(command, dict(os.environ) | recording("time", "async", first) | ours)
            yield options
        finally:
            os.environ.clear()
            os.environ.update(kept)


def under(command: list[str], way: Way) -> Cost:
    """One run and its record."""
    opencl, options = OpenCl(), GpuOptions()
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        if way.cold:
            options = stack.enter_context(cold_caches(command, way.engine))
        folder = Path(name)
        env = dict(os.environ) | recording(way.mode, way.timer, folder)
        if way.gpu:
            env |= opencl.environment(way.mode, way.timer, folder, options)
            env |= stack.enter_context(opencl.start_services(way.mode, folder, options))
        else:
            env |= runtime_environment(folder)
        if way.stamps:
            env["XPUPROF_TIMER"] = "async"
        if way.cpu:
            engine = cpu_engine(CpuEngine, way.engine).kind()
            command, more = engine.wrap(
                command, CpuOptions(cold_runtime=way.gpu and not opencl.runtime_is_native()), folder
            )
            env |= more | {"XPUPROF_TRANSLATED": engine.name}
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


def by_engine(names: Iterable[str], engines: list[str]) -> dict[str, Way]:
    """The ways of these names; those with a CPU engine once for each."""
    ways: dict[str, Way] = {}
    for name in names:
        way = WAYS[name]
        for engine in engines if way.cpu else [""]:
            ways[f"{name} {engine}" if len(engines) > 1 and engine else name] = replace(
                way, engine=engine
            )
    return ways


def measure(text: str, pairs: int, ways: Mapping[str, Way]) -> Row:
    """All runs of one program."""
    command, row = shlex.split(text), Row(text)
    for number in range(pairs + 1):
        for name in ("native", *ways):
            cost = native(command) if name == "native" else under(command, ways[name])
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
    parser.add_argument("--engine", action="append", help="CPU engine, repeatable (valgrind)")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    names = arguments.ways.split(",")
    if "kernels" in names and "async" not in names:
        names.insert(0, "async")  # which gives native kernel times
    chosen = by_engine(names, arguments.engine or ["valgrind"])
    ways, rows = list(chosen), []
    for text in arguments.commands or defaults():
        try:
            rows.append(measure(text, arguments.pairs, chosen))
        except XpuprofError as error:
            parser.error(str(error))
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
    recorded = next((way for way in ways if way.startswith(("gpu", "kernels", "both"))), ways[0])
    if header:
        print(f"{'':32}", end="")
        if "kernels" in ways:
            print(f"{'kernels native':>16}{'counted':>12}{'ratio':>7}", end="")
        columns = (f"{way + ' wall/cpu, more MB':>35}" for way in whole)
        print(f"{'whole native':>14}", *columns, end="")
        print(f"{'launches':>10}{'counted':>9}{'trace B':>11}{'B a launch':>12}")
    print(f"{name_of(row.command):32}", end="")
    if "kernels" in ways:
        times = (1e3 * row.middle("kernels", way) for way in ("async", "kernels"))
        print("{:13.2f} ms{:9.2f} ms".format(*times), end="")
        print(f"{row.ratio('kernels', 'kernels', 'async'):7.2f}", end="")
    print(f"{row.middle('wall', 'native'):12.2f} s", end="")
    for way in whole:
        more = row.middle("peak", way) - row.middle("peak", "native")
        print(f"{row.ratio('wall', way):18.2f} /{row.ratio('cpu', way):6.2f},{more:7.0f}", end="  ")
    last = row.runs[recorded][-1]
    print(f"{last.launches:10,}{last.instrumented:9,}{last.trace:11,}", end="")
    print(f"{last.trace / max(1, last.launches):12.1f}", flush=True)


def name_of(command: str) -> str:
    """The program's name and arguments, without its folder."""
    program, *arguments = shlex.split(command)
    return " ".join([Path(program).name, *arguments])[:31]


def show_means(rows: list[Row], ways: list[str]) -> None:
    if "kernels" in ways:
        kernels = [row.ratio("kernels", "kernels", "async") for row in rows]
        print(f"kernel time: geomean {geomean(kernels):.2f}x, worst {max(kernels):.2f}x")
    for way in ways:
        if way == "kernels":
            continue
        ratios = {what: [row.ratio(what, way) for row in rows] for what in ("wall", "cpu")}
        print(
            f"whole run, {way}: geomean {geomean(ratios['wall']):.2f}x wall, "
            f"{geomean(ratios['cpu']):.2f}x CPU, worst {max(ratios['cpu']):.2f}x CPU"
        )


if __name__ == "__main__":
    main()
