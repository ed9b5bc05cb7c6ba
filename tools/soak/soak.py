# SPDX-License-Identifier: Apache-2.0
"""Runs xpuprof for long, and says what was lost.

    tools/soak/soak.py sides [--runs 64]            profiles side by side, one kernel cache for all
    tools/soak/soak.py starts [--seconds 3600]      start and stop, half of the runs by a signal
    tools/soak/soak.py launches [--count 10000000]  launches in one program, with its memory

Each run has to open with all its launches; one that was stopped has to be partial, with its reason.
No folder and no process may stay behind. The exit code is 1 when something was lost; the runs are
then kept to be looked at.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.support.compile import compile_files, opencl_program
from tests.support.paths import OPENCL_PROGRAMS
from tests.support.run import xpuprof_line
from xpuprof.trace.run import Run

LAUNCHES = 2
"""Steps of the small program: its third launches a kernel that races, so its output would vary."""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)


def environment(place: Path) -> dict[str, str]:
    """One kernel cache and one folder for temporary files, both new."""
    for name in ("kernels", "tmp", "cache"):
        (place / name).mkdir()
    return os.environ | {
        "POCL_CACHE_DIR": str(place / "kernels"),
        "TMPDIR": str(place / "tmp"),
        "XDG_CACHE_HOME": str(place / "cache"),
    }


def start(run: Path, program: list[str], added: dict[str, str]) -> subprocess.Popen[bytes]:
    line = xpuprof_line("profile", "-q", "--cpu", "none", "-o", run, "--", *program)
    return subprocess.Popen(
        line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=added, start_new_session=True
    )


def fault(folder: Path, launches: int) -> str:
    """What is wrong with a run that nobody stopped; empty: nothing."""
    run = Run.open(folder)
    (execution,) = run.executions
    seen = sum(process.sums.seen for process in execution.processes)
    counted = sum(process.sums.instrumented for process in execution.processes)
    if run.status != "complete":
        return f"{folder.name} is {run.status}: {run.reason}"
    if (seen, counted) != (launches, launches):
        return f"{folder.name} has {seen} launches, {counted} instrumented, of {launches}"
    return ""


def left_behind(place: Path) -> list[str]:
    """Temporary folders and processes of ours that stayed."""
    time.sleep(1)
    found = [f"{path} stayed" for path in (place / "tmp").glob("xpuprof-*")]
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and os.fsencode(place) in (entry / "environ").read_bytes():
                found.append(f"process {entry.name} stayed")
        except OSError:  # gone, or another user's
            continue
    return found


def sides(place: Path, runs: int) -> list[str]:
    """Profiles side by side."""
    program = [str(opencl_program("steps", place / "program")), str(LAUNCHES)]
    added = environment(place)
    started = [start(place / f"run{number}", program, added) for number in range(runs)]
    wrong, outputs = [], set()
    for number, process in enumerate(started):
        outputs.add(process.communicate()[0])
        wrong.append(fault(place / f"run{number}", LAUNCHES))
        if process.returncode:
            wrong.append(f"run{number} ended with {process.returncode}")
    if len(outputs) > 1:
        wrong.append(f"the programs printed {outputs}")
    print(f"{runs} runs side by side")
    return [*filter(None, wrong), *left_behind(place)]


def starts(place: Path, seconds: float) -> list[str]:
    """One run after the other."""
    program = [str(opencl_program("steps", place / "program")), str(LAUNCHES)]
    added, draw = environment(place), random.Random(1)
    deadline, wrong, number, stopped = time.monotonic() + seconds, [], 0, 0
    took = 1.0  # the run before
    while time.monotonic() < deadline:
        began = time.monotonic()
        folder = place / f"run{number}"
        process = start(folder, program, added)
        chosen = draw.choice(SIGNALS) if number % 2 else None
        if chosen:
            time.sleep(draw.random() * took)
            process.send_signal(chosen)
        said, _ = process.communicate()
        (place / f"{folder.name}.out").write_bytes(said)
        if b"Traceback" in said:
            wrong.append(f"{folder.name} printed a traceback")
        if process.returncode:
            stopped += 1
            if (folder / "manifest.json").exists() and Run.open(folder).status != "partial":
                wrong.append(fault(folder, LAUNCHES))  # stopped while it printed
            if process.returncode != -(chosen or 0):
                wrong.append(f"{folder.name} ended with {process.returncode}")
        else:
            wrong.append(fault(folder, LAUNCHES))
            took = time.monotonic() - began
        number += 1
    start(place / "last", program, added).communicate()  # collects what killed ones left
    print(f"{number} runs in {seconds:.0f} s, {stopped} of them stopped by a signal")
    return [*filter(None, wrong), *left_behind(place)]


def launches(place: Path, count: int) -> list[str]:
    """Many launches in one program."""
    flags = ("-Wno-deprecated-declarations", f"-I{OPENCL_PROGRAMS}", "-lOpenCL")
    source = Path(__file__).with_name("launches.c")
    program = [str(compile_files([source], place / "launches", *flags)), str(count)]
    said, _ = start(place / "run", program, environment(place)).communicate()
    early, late = map(int, said.split())
    print(f"{count} launches: {early} KB after a tenth, {late} KB at the end")
    grown = [f"the program's memory grew by {late - early} KB"] if late - early > 4096 else []
    return [*filter(None, [fault(place / "run", count)]), *grown, *left_behind(place)]


def main() -> int:
    """Runs one kind of soak."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    kinds = parser.add_subparsers(dest="kind", required=True)
    kinds.add_parser("sides").add_argument("--runs", type=int, default=64)
    kinds.add_parser("starts").add_argument("--seconds", type=float, default=3600)
    kinds.add_parser("launches").add_argument("--count", type=int, default=10_000_000)
    asked = vars(parser.parse_args())
    kind = {"sides": sides, "starts": starts, "launches": launches}[asked.pop("kind")]
    place, began = Path(tempfile.mkdtemp(prefix="soak-")), time.monotonic()
    wrong = kind(place, **asked)
    print(f"{time.monotonic() - began:.0f} s, {len(wrong)} faults", *wrong, sep="\n")
    if wrong:
        print(f"kept in {place}")
    else:
        shutil.rmtree(place)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
