# SPDX-License-Identifier: Apache-2.0
"""Khronos's OpenCL conformance tests, natively and under the OpenCL layer.

    python tools/bench/cts.py BUILD [--suite events ...] [--match REGEX] [--limit 60]
                              [-o results.json]

BUILD is a build folder of OpenCL-CTS that holds test_conformance/SUITE/test_SUITE. Each test runs
in a process of its own, natively and then under `xpuprof profile --cpu none` (every kernel
instrumented); one whose results differ runs both ways once more with three times the limit, since
a busy machine alone can make the difference. A result is the exit code and the verdict that the
test prints. Prints the tests that differ and a row of the table; XPUPROF_OPENCL_RUNTIME=intel
chooses Intel's runtime for both.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from xpuprof.engines.base import GpuOptions
from xpuprof.engines.gpu.opencl import OpenCl
from xpuprof.trace.reader import process_folders, read_process

OUT_OF_TIME = -1000


@dataclass
class Outcome:
    """One test's results, and the layer's record of it."""

    test: str
    native: tuple[int, str] = (0, "")
    layered: tuple[int, str] | None = None
    again: tuple[tuple[int, str], tuple[int, str]] | None = None
    launches: int = 0
    left_out: dict[str, int] = field(default_factory=dict)

    @property
    def same(self) -> bool:
        return self.native == self.layered or (
            self.again is not None and self.again[0] == self.again[1]
        )


def environment(folder: Path) -> dict[str, str]:
    """Environment of a native run, with the same runtime as a layered one."""
    added = OpenCl().environment("time", "async", folder, GpuOptions())
    del added["OPENCL_LAYERS"]
    return dict(os.environ, CL_WIMPY_MODE="1") | added


def run(command: list[str], env: Mapping[str, str], cwd: Path, limit: float) -> tuple[int, str]:
    """Exit code and verdict."""
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            env=env,
            cwd=cwd,
            timeout=limit,
        )
    except subprocess.TimeoutExpired:
        return OUT_OF_TIME, "out of time"
    lines = [
        line.strip()
        for line in done.stdout.splitlines()
        if re.search("passed|failed|skipped", line, re.IGNORECASE)
    ]
    return done.returncode, lines[-1] if lines else ""


def one(program: Path, test: str, env: Mapping[str, str], folder: Path, limit: float) -> Outcome:
    """Runs a test both ways."""
    outcome = Outcome(test)
    target = folder / "run"
    shutil.rmtree(target, ignore_errors=True)
    native = [str(program), test]
    layered = [sys.executable, "-m", "xpuprof", "profile", "--cpu", "none", "-q", "--force"]
    layered += ["-o", str(target), "--", *native]
    outcome.native = run(native, env, program.parent, limit)
    if outcome.native[0] == OUT_OF_TIME:
        return outcome
    outcome.layered = run(layered, env, program.parent, limit + 10)
    if not outcome.same:
        outcome.again = (
            run(native, env, program.parent, 3 * limit),
            run(layered, env, program.parent, 3 * limit),
        )
    for part in process_folders(target / "profile") if target.is_dir() else ():
        launches = read_process(part, "profile", complete=True).launches
        outcome.launches += len(launches)
        left_out = launches.loc[~launches["instrumented"], "reason"]
        outcome.left_out = dict(Counter(outcome.left_out) + Counter(left_out.tolist()))
    return outcome


def names(program: Path, env: Mapping[str, str]) -> list[str]:
    """The tests of a suite."""
    listed = subprocess.run(
        [program, "-list"], capture_output=True, text=True, env=env, check=False
    )
    return re.findall(r"^\s+([a-z]\w*)$", listed.stdout, re.MULTILINE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=Path)
    parser.add_argument("--suite", nargs="+", default=["events", "api", "basic"])
    parser.add_argument("--match", default="", help="only tests whose name contains this text")
    parser.add_argument("--limit", type=float, default=60, help="seconds per test")
    parser.add_argument("-o", "--output", type=Path, help="every test's results as JSON")
    arguments = parser.parse_args()
    results: dict[str, list[Outcome]] = {}
    with tempfile.TemporaryDirectory(prefix="xpuprof-cts-") as folder:
        env = environment(Path(folder))
        for suite in arguments.suite:
            program = arguments.build.resolve() / "test_conformance" / suite / f"test_{suite}"
            results[suite] = []
            for test in filter(re.compile(arguments.match).search, names(program, env)):
                outcome = one(program, test, env, Path(folder), arguments.limit)
                results[suite].append(outcome)
                print(asdict(outcome), file=sys.stderr, flush=True)
                if arguments.output:
                    arguments.output.write_text(
                        json.dumps({s: [asdict(o) for o in of] for s, of in results.items()})
                    )
    print(
        "| suite | tests | out of time natively | passed natively | passed under the layer "
        "| same | launches | instrumented |\n|" + "---|" * 8
    )
    for suite, of in results.items():
        compared = [o for o in of if o.layered is not None]
        launches, left_out = sum(o.launches for o in of), sum(sum(o.left_out.values()) for o in of)
        passed = [
            sum(o.native[0] == 0 for o in compared),
            sum((o.again[1] if o.again else o.layered or (1, ""))[0] == 0 for o in compared),
        ]
        print(
            f"| {suite} | {len(of)} | {len(of) - len(compared)} | {passed[0]} | {passed[1]} | "
            f"{sum(o.same for o in compared)} of {len(compared)} | {launches} | "
            f"{launches - left_out} |"
        )
        for outcome in compared:
            if not outcome.same:
                print(f"differs: {suite} {outcome}", file=sys.stderr)


if __name__ == "__main__":
    main()
