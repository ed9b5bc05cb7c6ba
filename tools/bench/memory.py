# SPDX-License-Identifier: Apache-2.0
"""Stack distances of device accesses: what recording them costs, and what they do to the sampling
error.

    python tools/bench/memory.py [--pairs 3] [--repeat 5] [COMMAND ...]

Each COMMAND is one quoted string; without any, the tests' program `reach`, whose phases differ only
in the memory they touch, and the example programs. Wall times of the
program natively, in a GPU-only profile, and in one with --memory are taken in turns; ratios are
medians over the rounds, the first of which is not counted. Errors are for one run directory
(`xpuprof run --cpu none --memory`), selected with and without the distances, with one
representative per cluster and with the number that `auto` takes.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.support.compile import opencl_program
from tests.support.paths import ROOT
from xpuprof.engines.native import native_file
from xpuprof.trace.run import Run
from xpuprof.workflow.evaluate import evaluate
from xpuprof.workflow.select import select_run

WEIGHTS = (0.0, 0.1, 0.25, 0.5, 0.75)


def programs(folder: Path) -> list[str]:
    """The default commands."""
    reach = opencl_program("reach", folder)
    heat = f"{sys.executable} {ROOT / 'examples/heat/heat.py'}"
    return [f"{reach} 32 262144 12", str(native_file("demo/particles")), heat]


def wall(argv: list[str]) -> float:
    """Seconds of one execution."""
    begin = time.perf_counter()
    subprocess.run(argv, check=True, capture_output=True)
    return time.perf_counter() - begin


def profile(argv: list[str], folder: Path, *options: str) -> list[str]:
    """The command line of a GPU-only profile."""
    own = [sys.executable, "-m", "xpuprof", "profile", "-q", "--force", "--cpu", "none"]
    return [*own, "-o", str(folder), *options, "--", *argv]


def cost(command: str, folder: Path, pairs: int) -> None:
    """One line of the first table."""
    argv, plain, memory = shlex.split(command), folder / "plain", folder / "memory"
    ratios: list[tuple[float, float]] = []
    for _ in range(pairs + 1):
        native = wall(argv)
        without = wall(profile(argv, plain))
        ratios.append((without / native, wall(profile(argv, memory, "--memory")) / native))
    ratios = ratios[1:]
    runs = [Run.open(path).profile for path in (plain, memory)]
    assert runs[0] is not None and runs[1] is not None
    process = runs[1].processes[0]
    found = process.device_distances
    assert found is not None
    sizes = [sum(f.stat().st_size for f in p.rglob("events.xpt")) for p in (plain, memory)]
    accesses = int(found.accesses.sum())
    print(
        f"| {Path(argv[-1] if argv[0] == sys.executable else argv[0]).name} "
        f"| {len(process.launches):,} | {accesses:,} "
        f"| {100 * int(found.recorded.sum()) / max(accesses, 1):.1f} % "
        f"| {median(r[0] for r in ratios):.2f} | {median(r[1] for r in ratios):.2f} "
        f"| {(sizes[1] - sizes[0]) / len(process.launches):.0f} |",
        flush=True,
    )


def errors(command: str, folder: Path, repeat: int) -> None:
    """Lines of the second table."""
    argv, path = shlex.split(command), folder / "run"
    own = [sys.executable, "-m", "xpuprof", "run", "-q", "--force", "--cpu", "none", "--memory"]
    subprocess.run(
        [*own, "--repeat", str(repeat), "-o", str(path), "--", *argv],
        check=True,
        capture_output=True,
    )
    run = Run.open(path)
    name = Path(argv[-1] if argv[0] == sys.executable else argv[0]).name
    for per_cluster in (1, None):
        cells = []
        for weight in WEIGHTS:
            chosen = select_run(
                run, "xpu-point", seed=1, memory_weight=weight, per_cluster=per_cluster
            )
            clusters = len({r.cluster for r in chosen.representatives})
            result = evaluate(run, chosen)
            error = 100 * abs(result.estimate.value / result.measured - 1)
            low, high = result.estimate.low, result.estimate.high
            half = (
                ""
                if low is None or high is None
                else (f" ± {50 * (high - low) / result.measured:.1f}")
            )
            cells.append(f"{error:.2f}{half} % ({clusters}, {len(chosen.representatives)})")
        print(f"| {name} | {per_cluster or 'auto'} | {' | '.join(cells)} |", flush=True)


def cost_table(commands: list[str], folder: Path, pairs: int) -> None:
    """Wall times as ratios to the native run of the same round."""
    print("| program | launches | accesses | recorded | profile | --memory | bytes per launch |")
    print("|---|---|---|---|---|---|---|", flush=True)
    for command in commands:
        cost(command, folder, pairs)


def error_table(commands: list[str], folder: Path, repeat: int) -> None:
    """By weight: sampling error, half width of its 95 % interval, clusters and representatives."""
    print("| program | a cluster | " + " | ".join(f"{w:g}" for w in WEIGHTS) + " |")
    print("|---|---|" + "---|" * len(WEIGHTS), flush=True)
    for command in commands:
        errors(command, folder, repeat)


def main() -> None:
    """Prints both tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--table", choices=("cost", "errors", "both"), default="both")
    parser.add_argument("commands", nargs="*")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        commands = given.commands or programs(folder)
        if given.table != "errors":
            cost_table(commands, folder, given.pairs)
        if given.table != "cost":
            error_table(commands, folder, given.repeat)


if __name__ == "__main__":
    main()
