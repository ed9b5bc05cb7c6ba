# SPDX-License-Identifier: Apache-2.0
"""Makes the tables for docs/results/nvidia.md from what `nvidia_checks.sh` left in a folder.

    python nvidia_tables.py OUT > OUT/tables.md

Sections that were not run are omitted.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def table(headers: list[str], rows: list[list[str]]) -> str:
    """A Markdown table; empty without rows."""
    lines = [headers, ["---"] * len(headers), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n" if rows else ""


def percent(value: float | None) -> str:
    """A share in per cent."""
    return "-" if value is None else f"{100 * value:.2f} %"


def errors(out: Path) -> str:
    """Sampling error of each program and method."""
    rows = []
    for path in sorted(out.glob("compare-*.txt")):
        try:
            found = json.loads(path.read_text().splitlines()[-1])
        except (ValueError, IndexError):
            continue
        for method in found["methods"]:
            if "error_mean" not in method:
                continue
            rows.append(
                [
                    path.stem.removeprefix("compare-"),
                    str(found["slices"]),
                    method["method"],
                    f"{method['samples']:.0f}",
                    percent(method["error_mean"]),
                    percent(method["interval_rel"]),
                    f"{method['time_speedup']:.1f}x",
                ]
            )
    return table(
        ["program", "slices", "method", "chosen", "error", "interval", "time speedup"], rows
    )


def overhead(out: Path) -> str:
    """Ratios of the launch loop's time, and microseconds added per launch."""
    path = out / "overhead.txt"
    if not path.is_file():
        return ""
    head, *lines = path.read_text().splitlines()
    rows = []
    for line in lines:
        launches, length, native, *others = (float(word) for word in line.split())
        ratios = [f"{t / native:.3f}x, {(t - native) / launches * 1e6:+.2f} us" for t in others]
        rows.append([f"{launches:.0f} of {length:.0f} us", f"{native:.4f} s", *ratios])
    return table(["launches", *head.split()[2:]], rows)


def carried(out: Path) -> str:
    """Which engines support the driver."""
    path = out / "doctor.json"
    if not path.is_file():
        return ""
    found: dict[str, Any] = json.loads(path.read_text().splitlines()[-1])
    rows = [
        [row["cpu"], row["gpu"], row["fault"] or "carried"]
        for row in found["carry_the_cuda_driver"]
    ]
    return table(["CPU engine", "GPU engine", "CUDA driver"], rows)


def lines_of(out: Path, pattern: str, last: bool = True) -> str:
    """The last line of each file, or all lines, as a list."""
    found = []
    for path in sorted(out.glob(pattern)):
        lines = path.read_text().strip().splitlines()
        found += [f"- {path.stem}: {line}" for line in (lines[-1:] if last else lines)]
    return "\n".join(found) + "\n" if found else ""


def main() -> int:
    """Prints the sections with results."""
    out = Path(sys.argv[1])
    sections = {
        "Versions": lines_of(out, "versions.txt", last=False),
        "Exactness": lines_of(out, "*-counts.txt"),
        "Instructions": lines_of(out, "counts-*-hardware.txt", last=False),
        "Launch coverage": lines_of(out, "coverage-*-launches.txt", last=False)
        + lines_of(out, "ncu-*-launches.txt"),
        "Overhead": overhead(out),
        "CPU engines under the CUDA driver": carried(out),
        "Sampling error": errors(out),
        "100,000 launches": lines_of(out, "many-*.time"),
        "Checks": lines_of(out, "log.txt", last=False),
    }
    for title, text in sections.items():
        if text:
            print(f"## {title}\n\n{text}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
