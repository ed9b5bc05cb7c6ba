# SPDX-License-Identifier: Apache-2.0
"""Peak memory of the commands that read a run, by its number of launches.

    tools/bench/long_runs.py [--launches 1000000 100000000] [--times 3] [--folder DIR]
                             [--commands info check report]

Writes made-up runs (10^8 launches: 12 GB, and 6 GB for each timer run) and a selection in whose
labels no two neighbours are equal, and reads them as a user does. Output is Markdown.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.support.long_runs import COMMAND, peak_memory, write_long_run, write_long_selection


def main() -> None:
    """One row a number of launches, and the bytes that a launch adds."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--launches", type=int, nargs="+", default=[1_000_000, 100_000_000])
    parser.add_argument("--times", type=int, default=3, help="timer runs")
    parser.add_argument("--commands", nargs="+", default=["info", "check", "report"])
    parser.add_argument("--folder", type=Path, help="where the runs are written")
    asked = parser.parse_args()
    print("| launches |", *(f"{command}, MB (s) |" for command in asked.commands))
    print("|---|" + "---|" * len(asked.commands))
    peaks = []
    for launches in asked.launches:
        with tempfile.TemporaryDirectory(dir=asked.folder) as place:
            roles = ["profile", *["time"] * asked.times]
            run = write_long_run(Path(place) / "run", launches, roles)
            write_long_selection(run / "selection.json", launches)
            row, seconds = [], []
            for command in asked.commands:
                began = time.monotonic()
                row.append(peak_memory(COMMAND, command, run)[1])
                seconds.append(time.monotonic() - began)
        peaks.append(row)
        told = (f"{peak / 1e6:.0f} ({took:.0f})" for peak, took in zip(row, seconds, strict=True))
        print(f"| {launches:,} |", " | ".join(told), "|", flush=True)
    if len(peaks) > 1:
        added = asked.launches[-1] - asked.launches[0]
        each = (f"{(b - a) / added:.1f}" for a, b in zip(peaks[0], peaks[-1], strict=True))
        print("| bytes a launch |", " | ".join(each), "|")


if __name__ == "__main__":
    main()
