#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How well selections travel between device runtimes, thread counts and instruction sets.

Each program is recorded and selected once, on the machine of origin; then it is timed natively
under every other setting of the environment, which stands in for another machine.

    tools/bench/transfer.py -o OUT --machine 1-thread:POCL_MAX_PTHREAD_COUNT=1 \\
        --program heat:build/examples/heat ...

Prints one Markdown row per program and machine: measured and projected time, sampling error, the
speed-up over the machine of origin as measured and as projected. OUT keeps every run directory.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.support.run import done_by_xpuprof as xpuprof

COLUMNS = (
    "program", "machine", "slices", "regions", "measured", "projected", "error", "in interval",
    "without first and last", "ratio", "projected", "ratio error",
)  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--program", action="append", required=True, metavar="NAME:COMMAND")
    parser.add_argument("--machine", action="append", required=True, metavar="NAME:VAR=VALUE ...")
    parser.add_argument("--repeat", default="5")
    parser.add_argument("--cpu", default="auto", help="CPU engine of the profile")
    parser.add_argument("--reuse", action="store_true", help="tables of the runs already in OUT")
    options = parser.parse_args()
    print("| " + " | ".join(COLUMNS) + " |\n" + "|---" * len(COLUMNS) + "|")
    errors: dict[str, list[tuple[float, float]]] = {}
    for text in options.program:
        name, _, command = text.partition(":")
        rows = travel(options, name, shlex.split(command))
        for machine, row in zip(["origin", *map(title, options.machine)], rows, strict=True):
            inner = row["inner_error"]
            errors.setdefault(machine, []).append((row["sampling_error"], inner or 0.0))
            print(line(name, machine, row), flush=True)
    print("\n| machine | error, mean | largest | without first and last, mean | largest |")
    print("|---|---|---|---|---|")
    for machine, pairs in errors.items():
        cells = [
            f"{100 * value:.2f} %"
            for values in zip(*pairs, strict=True)
            for value in (sum(values) / len(values), max(values))
        ]
        print(f"| {machine} | {' | '.join(cells)} |")
    return 0


def title(machine: str) -> str:
    """The machine's name."""
    return machine.partition(":")[0]


def travel(options: Any, name: str, command: list[str]) -> list[dict[str, Any]]:
    """Record on the machine of origin and time everywhere."""
    folder = options.output / name
    origin = folder / "origin"
    if options.reuse:
        runs = [origin, *(folder / title(machine) for machine in options.machine)]
        return rows_of(origin, runs)
    xpuprof("run", "--cpu", options.cpu, "--repeat", options.repeat, "--force", "-q", "-o", origin,
            "--", *command)  # fmt: skip
    runs = [origin]
    for machine in options.machine:
        settings = dict(pair.split("=", 1) for pair in shlex.split(machine.partition(":")[2]))
        runs.append(folder / title(machine))
        # The first timer run finds the runtime's kernel cache cold, so it is discarded.
        for repeat in ("1", options.repeat):
            xpuprof("time", "--repeat", repeat, "--force", "-q", "-o", runs[-1], "--", *command,
                    **settings)  # fmt: skip
    return rows_of(origin, runs)


def rows_of(origin: Path, runs: list[Path]) -> list[dict[str, Any]]:
    """The rows of `xpuprof transfer --json`."""
    table = xpuprof("transfer", "--json", origin / "selection.json", *runs)
    rows: list[dict[str, Any]] = json.loads(table)["runs"]
    return rows


def line(name: str, machine: str, row: dict[str, Any]) -> str:
    """A row of the table."""
    low, high = row["interval_s"]
    held = "-" if low is None else "yes" if low <= row["measured_s"] <= high else "no"
    cells = [
        name,
        machine,
        str(row["slices"]),
        str(round(row["slices"] / row["speedup"])),
        f"{1e3 * row['measured_s']:.1f} ms",
        f"{1e3 * row['projected_s']:.1f} ms",
        f"{100 * row['sampling_error']:.2f} %",
        held,
        "-" if row["inner_error"] is None else f"{100 * row['inner_error']:.2f} %",
        f"{row['measured_ratio']:.3f}",
        f"{row['projected_ratio']:.3f}",
        f"{100 * row['relative_error']:.2f} %",
    ]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(main())
