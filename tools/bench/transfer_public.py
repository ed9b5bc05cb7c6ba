#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Selections across architectures, on public profiles of one program on two vendors' devices.

    tools/bench/transfer_public.py FOLDER

A selection made from each side's kernel times is moved to the other side by aligning the launch
sequences. Prints one Markdown row per pair, direction and method: the share of matched
launches, the error at home and abroad, and the error of the projected speed-up.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.support.run import done_by_xpuprof as xpuprof
from xpuprof.errors import InputError
from xpuprof.selection.selection import Selection
from xpuprof.validation.align import LEVELS, align
from xpuprof.validation.timed import open_timed
from xpuprof.validation.transfer import Row, hold_against
from xpuprof.workflow.select import Request, select_subject
from xpuprof.workflow.subjects import open_subject

PAIRS = (("qwen_h100", "qwen_mi300x"), ("owlv2_h100", "owlv2_mi300x"))
METHODS = ("stem-root", "allegro", "random", "first-n")
METRIC = "gpu_time"
COLUMNS = (
    "from", "to", "method", "regions", "slices", "same kernel and grid", "same kernel",
    "same function", "same operator", "attributed", "unknown", "their time", "regions lost",
    "replaced", "covered", "error at home", "error abroad", "of it unknown kernels", "ratio",
    "projected", "ratio error",
)  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, help="folder of the Kineto traces")
    parser.add_argument("--seeds", type=int, default=10)
    options = parser.parse_args()
    print("| " + " | ".join(COLUMNS) + " |\n" + "|---" * len(COLUMNS) + "|")
    with tempfile.TemporaryDirectory() as scratch:
        for pair in PAIRS:
            runs = [bring(options.data, name, Path(scratch)) for name in pair]
            for home, abroad in (runs, runs[::-1]):
                for method in METHODS:
                    print(row(home, abroad, method, options.seeds), flush=True)
    return 0


def bring(data: Path, name: str, scratch: Path) -> Path:
    """Import a trace."""
    run = scratch / name
    xpuprof("import", data / f"{name}.json.gz", "-o", run, "-q")
    return run


def choose(run: Path, method: str, seed: int) -> Selection:
    return select_subject(open_subject(run), Request(method, seed=seed))


def row(home: Path, abroad: Path, method: str, seeds: int) -> str:
    """Means over the seeds."""
    timed = [open_timed(path, METRIC) for path in (home, abroad)]
    found: list[Sequence[Row]] = []
    regions = []
    for seed in range(seeds):
        chosen = choose(home, method, seed)
        regions.append(len(chosen.representatives))
        try:
            found.append(hold_against(chosen, timed, allow_missing=True))
        except InputError as error:
            return f"| {home.name} | {abroad.name} | {method} | {error} |"
    levels = align(timed[0].slices, timed[1].slices).level
    there = [rows[1].validation for rows in found]

    def mean(values: Sequence[float]) -> float:
        return float(np.mean(values))

    def share(values: Sequence[float]) -> str:
        return f"{100 * mean(values):.2f} %"

    cells = [
        home.name,
        abroad.name,
        method,
        f"{mean(regions):.0f}",
        f"{len(timed[0].slices)} / {len(timed[1].slices)}",
        *(share((levels == number).tolist()) for number in range(len(LEVELS))),
        f"{mean([len(v.transplant.attributed) for v in there]):.0f}",
        f"{mean([len(v.transplant.unknown) for v in there]):.0f}",
        share([v.unknown_time for v in there]),
        f"{mean([len(v.transplant.missing) for v in there]):.1f}",
        f"{mean([len(v.transplant.stand_ins) for v in there]):.1f}",
        share([v.selection.covered for v in there]),
        share([rows[0].validation.error for rows in found]),
        share([v.error for v in there]),
        share([v.unknown_effect for v in there]),
        f"{mean([rows[1].measured_ratio for rows in found]):.3f}",
        f"{mean([rows[1].projected_ratio for rows in found]):.3f}",
        share([rows[1].relative_error for rows in found]),
    ]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(main())
