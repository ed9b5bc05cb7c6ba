# SPDX-License-Identifier: Apache-2.0
"""Before its first launch a program's main thread runs outside DynamoRIO. What it does is what it
does natively, and what follows is counted as ever."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.compile import opencl_program
from tests.support.cpu_programs import build
from tests.support.layered import environment, natively
from tests.support.paths import OPENCL_PROGRAMS
from tests.support.probes import needs_dynamorio, require_processor
from tests.support.run import run, xpuprof, xpuprof_text
from tests.support.threads import files_executed
from tests.support.waiting import wait_for
from xpuprof.engines.base import CpuOptions
from xpuprof.engines.cpu.dynamorio import DynamoRio
from xpuprof.trace.reader import process_folders, read_process
from xpuprof.trace.tables import Process

pytestmark = [needs_dynamorio]

NATIVE = CpuOptions(native_start_up=True)


def started_natively(argv: list[object], folder: Path) -> subprocess.CompletedProcess[bytes]:
    """One run under the client alone."""
    folder.mkdir()
    line, more = DynamoRio().wrap([str(word) for word in argv], NATIVE, folder)
    return run(line, environment=dict(os.environ) | more)


def require_as_natively(argv: list[object], folder: Path) -> None:
    """Output and exit code or signal are the native run's."""
    expected, done = run(argv), started_natively(argv, folder)
    assert (done.returncode, done.stdout) == (expected.returncode, expected.stdout), done.stderr


@pytest.mark.parametrize(
    "case",
    ["terminated", "killed_by_segv", "segv_handled", "interrupted", "faults", "aborts", "alarms",
     "limited", "sleeps", "reads", "forks", "threads", "ends_elsewhere", "executes", "pool",
     "reports_signal", "killed_by_reports_signal", "forbids_calls"],
)  # fmt: skip
def test_as_natively(tmp_path: Path, case: str) -> None:
    require_as_natively([sys.executable, OPENCL_PROGRAMS / "start_up.py", case], tmp_path / "p")


@pytest.mark.parametrize(
    "case",
    ["ends_elsewhere", "forks_elsewhere", "clears_handlers", "long_breakpoint", "own_restorer",
     "traced", "traced_after_fault", "filtered_elsewhere", "loads_gs"],
)  # fmt: skip
def test_programs_in_c_as_natively(tmp_path: Path, case: str) -> None:
    require_as_natively([build("cpu_start_up"), case], tmp_path / "p")


def test_wide_registers_are_kept(tmp_path: Path) -> None:
    """GIVEN vectors of 512 bits that stay in registers WHEN signals come THEN they survive."""
    require_processor("avx512f")
    done = started_natively([build("cpu_zmm"), "alarms"], tmp_path / "p")
    assert done.stdout == b"kept\nalarms\n"


@pytest.mark.opencl
@pytest.mark.parametrize(
    "case",
    ["shapes", "events", "threads", "callbacks", "forks", "fork_in_calls", "launches_elsewhere",
     "nothing"],
)  # fmt: skip
def test_opencl_programs_as_natively(tmp_path: Path, case: str) -> None:
    cases = opencl_program("opencl_cases", tmp_path)
    expected = natively([cases, case]).done
    with environment("profile", "async", tmp_path / "p") as env:
        line, more = DynamoRio().wrap([str(cases), case], NATIVE, tmp_path / "p")
        done = run(line, environment=env | more)
    assert (done.returncode, done.stdout) == (expected.returncode, expected.stdout), done.stderr


def profile(folder: Path, options: Sequence[str], *argv: object) -> Process:
    done = xpuprof_text("profile", "-q", "--cpu", "dynamorio", *options, "-o", folder, "--", *argv)
    assert done.returncode == 0, done.stderr
    (part,) = process_folders(folder / "profile")
    return read_process(part, "profile", complete=True)


def counts(process: Process) -> dict[tuple[int, int, int], int]:
    """(slice, thread, block's identity): executions."""
    assert process.cpu is not None
    cpu = process.cpu
    identities = cpu.blocks.identity[cpu.block]
    keys = zip(cpu.slice.tolist(), cpu.thread.tolist(), identities.tolist(), strict=True)
    return dict(zip(keys, cpu.count.tolist(), strict=True))


@pytest.mark.opencl
def test_what_follows_the_first_launch_is_counted_as_ever(tmp_path: Path) -> None:
    """THEN all slices but the first and the last (start-up and exit) have the counts of a profile
    whose start-up is counted, block by block."""
    cases = opencl_program("opencl_cases", tmp_path)
    counted = counts(profile(tmp_path / "c", ("--start-up", "counted"), cases, "shapes"))
    process = profile(tmp_path / "n", (), cases, "shapes")
    found = counts(process)
    last = len(process.slices) - 1
    inner = {key: n for key, n in counted.items() if 0 < key[0] < last}
    assert {key: n for key, n in found.items() if 0 < key[0] < last} == inner
    assert len({key[0] for key in inner}) == last - 1 > 5
    of_first = [sum(key[0] == 0 for key in c) for c in (counted, found)]
    assert of_first[1] < of_first[0] / 10
    assert process.meta["cpu_start_up"] == "native"
    assert xpuprof("check", tmp_path / "n").returncode == 0
    assert "start-up ran natively, uncounted" in xpuprof_text("info", tmp_path / "n").stdout


@pytest.mark.opencl
@pytest.mark.parametrize("options", [("--start-up", "counted"), ("--window", "1-")])
def test_start_up_counts_where_it_is_asked_for(tmp_path: Path, options: Sequence[str]) -> None:
    """GIVEN --start-up counted, or a window of all launches THEN all of start-up is counted."""
    cases = opencl_program("opencl_cases", tmp_path)
    process = profile(tmp_path / "p", options, cases, "shapes")
    assert "cpu_start_up" not in process.meta
    assert sum(n for (slice_, _, _), n in counts(process).items() if slice_ == 0) > 100_000
    assert "ran natively" not in xpuprof_text("info", tmp_path / "p").stdout


@pytest.mark.opencl
def test_instructions_are_numbered_where_start_up_counts(tmp_path: Path) -> None:
    """GIVEN regions numbered from the program's start WHEN start-up ran natively THEN their export
    names the option to record with, with which it works."""
    cases = opencl_program("opencl_cases", tmp_path)
    for name, options in (("n", ()), ("c", ("--start-up", "counted"))):
        profile(tmp_path / name, options, cases, "shapes")
        assert xpuprof("select", "-q", tmp_path / name).returncode == 0
    exports = [
        xpuprof_text(
            "export", "-q", tmp_path / n, "--format", "pinpoints", "-o", tmp_path / f"{n}.o"
        )
        for n in ("n", "c")
    ]
    assert [done.returncode for done in exports] == [2, 0]
    assert "profile with --start-up counted" in exports[0].stderr


def test_start_up_runs_outside_dynamorio(tmp_path: Path) -> None:
    """GIVEN a program that handles SIGSYS, as LLVM does, starts another, and computes THEN its
    thread executes files, not copies in a code cache."""
    script, folder = tmp_path / "computes.py", tmp_path / "p"
    script.write_text(
        "import signal, subprocess\n"
        "signal.signal(signal.SIGSYS, lambda *_: None)\n"
        "subprocess.run(['true'])\n"
        "while True: sum(range(1000))\n"
    )
    folder.mkdir()
    line, more = DynamoRio().wrap([sys.executable, str(script)], NATIVE, folder)
    program = subprocess.Popen(line, env=dict(os.environ) | more)
    try:
        assert wait_for(lambda: any("python" in file for file in files_executed(program.pid)))
    finally:
        program.kill()
        program.wait()
