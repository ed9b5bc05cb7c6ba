# SPDX-License-Identifier: Apache-2.0
"""Compares the instructions of each launch with those that the hardware counted.

    ncu --clock-control none --csv --metrics \\
        smsp__inst_executed.sum,smsp__thread_inst_executed.sum PROGRAM > NCU.csv
    python nvidia_counts.py RUN NCU.csv

RUN is a profile of the same program by engine `nvbit`, whose warp and lane instructions are
compared, launch by launch, as far as Nsight Compute went. Prints by how much each kernel's launches
differ at most, and ends with 1 when any do.
"""

from __future__ import annotations

import csv
import sys
from collections import defaultdict
from pathlib import Path

import xpuprof

METRICS = {"warp": "smsp__inst_executed.sum", "lane": "smsp__thread_inst_executed.sum"}


def counted_by_hardware(path: Path) -> dict[str, list[int]]:
    """Each metric's values, by launch; the program's own output is passed over."""
    lines = [line for line in path.read_text().splitlines() if line.startswith('"')]
    found = defaultdict(list)
    for row in csv.DictReader(lines):
        found[row["Metric Name"]].append(round(float(row["Metric Value"].replace(",", ""))))
    return found


def compare(unit: str, kernels: list[str], ours: list[int], theirs: list[int]) -> int:
    """Prints what differs, and how much is equal. Returns how many launches differ."""
    differ = defaultdict(list)
    for kernel, one, other in zip(kernels, ours, theirs, strict=False):
        if one != other:
            differ[kernel].append((one, other))
    for kernel, pairs in differ.items():
        one, other = max(pairs, key=lambda pair: abs(pair[0] - pair[1]) / max(pair[1], 1))
        print(f"{kernel:.50s}: {len(pairs)} launches differ, at most {one} from {other}")
    n, wrong = min(len(ours), len(theirs)), sum(map(len, differ.values()))
    print(
        f"{unit} instructions as counted by the hardware: {n - wrong} of {n} launches of "
        f"{len(set(kernels[:n]))} kernels, {sum(theirs[:n])} in all"
    )
    return wrong


def main() -> int:
    """Compares warp instructions, then lane instructions."""
    run = xpuprof.open(sys.argv[1])
    assert run.profile is not None
    process = run.profile.processes[0]
    theirs = counted_by_hardware(Path(sys.argv[2]))
    ours = {
        "warp": process.slices["gpu_instructions"].tolist()[:-1],
        "lane": process.launches["lane_instructions"].tolist(),
    }
    kernels = process.launches["kernel"].tolist()
    wrong = [compare(unit, kernels, ours[unit], theirs[METRICS[unit]]) for unit in ours]
    return int(any(wrong) or not theirs[METRICS["warp"]])


if __name__ == "__main__":
    sys.exit(main())
