"""What xpuprof costs: whole runs under the timers, the GPU engine, the CPU engine and both, against
native.

    python tools/bench/overhead.py [--pairs 5] [--json] [COMMAND ...]

Each COMMAND is one quoted string; without any, clpeak's kernel latency test (20,002 launches) and
the example programs. The modes take turns, so that the machine's drift falls on all of them.
Prints the median of the ratios mode / native of the same round, for wall clock and for CPU time
(the one to look at on a busy machine), the launches seen and instrumented, and what a launch takes
in the trace. The first round is not counted: it fills the caches of compiler and instrumenter.
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
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from xpuprof.engines.base import CpuOptions, GpuOptions, Mode, Timer
from xpuprof.engines.opencl import OpenCl
from xpuprof.engines.valgrind import Valgrind
from xpuprof.trace.reader import process_folders, read_process

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Way:
    """One way of running the program."""

    mode: Mode
    timer: Timer = "async"
    cpu: bool = False
    gpu: bool = True


WAYS = {
    "async": Way("time"),
    "sync": Way("time", "sync"),
    "gpu": Way("profile"),
    "cpu": Way("profile", cpu=True, gpu=False),
    "both": Way("profile", cpu=True),
}


def defaults() -> list[str]:
    """Programs that are at hand."""
    found = []
    if shutil.which("clpeak"):
        found.append("clpeak --kernel-latency")
    particles = ROOT / "build" / "examples" / "particles"
    if particles.is_file():
        found.append(str(particles))
    found.append(f"{sys.executable} {ROOT / 'examples' / 'heat' / 'heat.py'}")
    return found


def once(command: list[str], env: Mapping[str, str]) -> tuple[float, float]:
    """Wall clock and CPU seconds of one run."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(command, env=env, check=True, stdout=subprocess.DEVNULL, cwd=ROOT)
    wall, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def under(command: list[str], way: Way) -> tuple[tuple[float, float], dict[str, int]]:
    """One run, and what was recorded."""
    engine, options = OpenCl(), GpuOptions()
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        env = dict(os.environ) | {"XPUPROF_DIR": name, "XPUPROF_MODE": way.mode}
        if way.gpu:
            env |= engine.environment(way.mode, way.timer, folder, options)
            env |= stack.enter_context(engine.start_services(way.mode, folder, options))
        if way.cpu:
            command, more = Valgrind().wrap(command, CpuOptions(), folder)
            env |= more
        cost = once(command, env)
        launches = instrumented = size = 0
        for part in process_folders(folder):
            process = read_process(part, way.mode, True)
            launches += len(process.launches)
            instrumented += int(process.launches["instrumented"].sum())
            size += sum(stream.stat().st_size for stream in part.glob("*.xpt"))
    return cost, {"launches": launches, "instrumented": instrumented, "bytes": size}


def measure(text: str, pairs: int) -> dict[str, object]:
    """The row of one program."""
    command = shlex.split(text)
    wall: dict[str, list[float]] = {name: [] for name in WAYS}
    cpu: dict[str, list[float]] = {name: [] for name in WAYS}
    native_s, seen = [], {}
    for number in range(pairs + 1):
        native = once(command, os.environ)
        for name, way in WAYS.items():
            cost, recorded = under(command, way)
            seen[name] = recorded
            if number:
                wall[name].append(cost[0] / native[0])
                cpu[name].append(cost[1] / native[1])
        if number:
            native_s.append(native[0])
    profile = seen["both"]
    return {
        "command": text,
        "native_s": median(native_s),
        "wall": {name: median(ratios) for name, ratios in wall.items()},
        "cpu": {name: median(ratios) for name, ratios in cpu.items()},
        "launches": profile["launches"],
        "instrumented": profile["instrumented"],
        "bytes_a_launch": profile["bytes"] / max(1, profile["launches"]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("commands", nargs="*")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rows = [measure(text, arguments.pairs) for text in arguments.commands or defaults()]
    if arguments.json:
        print(json.dumps(rows))
        return
    names = list(WAYS)
    print(f"{'':40} native  " + "  ".join(f"{f'{n} wall/cpu':>14}" for n in names), end="")
    print("  launches  instrumented  bytes a launch")
    for row in rows:
        ratios = (f"{row['wall'][n]:6.2f}x {row['cpu'][n]:5.2f}x" for n in names)
        print(
            f"{row['command'][-40:]:40} {row['native_s']:4.2f} s  {'  '.join(ratios)}"
            f"  {row['launches']:8,}  {row['instrumented']:12,}  {row['bytes_a_launch']:14.1f}"
        )
    for what in ("wall", "cpu"):
        means = (math.exp(sum(math.log(row[what][n]) for row in rows) / len(rows)) for n in names)
        print(
            f"geometric mean, {what}: "
            + ", ".join(f"{n} {m:.2f}x" for n, m in zip(names, means, strict=True))
        )


if __name__ == "__main__":
    main()
