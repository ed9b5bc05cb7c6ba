# SPDX-License-Identifier: Apache-2.0
"""CPU engines count exactly: against known loops, by thread and by slice."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.support.compile import symbols
from tests.support.cpu_programs import build, every_engine, profile
from xpuprof.engines.base import CpuEngine

pytestmark = every_engine


@pytest.mark.parametrize("threads", [1, 4, 100])
def test_known_loops_by_thread_and_slice(engine: CpuEngine, tmp_path: Path, threads: int) -> None:
    """GIVEN threads with loops of known length in each slice THEN each count is that length."""
    program, slices = build("cpu_loops"), 6
    part = profile(engine, [program, threads, slices], tmp_path / "p").only
    assert part.executions(program, "spin_loop") == {
        (s, t): 1000 * (t + 1) + 10 * s for s in range(slices) for t in range(threads)
    }
    assert len(part.stream["threads"]) == threads
    assert len(part.stream["cuts"]) == slices + 1


def test_threads_that_wait_leave_no_vector(engine: CpuEngine, tmp_path: Path) -> None:
    """GIVEN threads that sleep in a barrier during odd slices THEN they spin only in even ones."""
    program = build("cpu_loops")
    part = profile(engine, [program, 3, 4, "gap"], tmp_path / "p").only
    spun = {key for key in part.executions(program, "spin_loop") if key[1] != 0}
    assert spun == {(s, t) for s in (0, 2) for t in (1, 2)}
    assert all(row["n_pairs"] for row in part.stream["bbvs"])


def test_every_instruction_of_a_program(engine: CpuEngine, tmp_path: Path) -> None:
    """GIVEN a program whose instructions are all known THEN blocks and total are as computed,
    also where a translator would merge `a && b` into one block; lackey counts the same."""
    program = build("cpu_exact", "-nostdlib", "-static", "-no-pie")
    part = profile(engine, [program], tmp_path / "p").only
    base = symbols(program)["_start"] & ~0xFFF
    counts: dict[str, int] = {}
    for name in ("second", "taken", "over"):
        offset = symbols(program)[name] - 0x400000
        counts[name] = sum(n for key, n in part.counts().items() if key[3] == offset)
    assert base == 0x401000
    assert counts == {"second": 500, "taken": 250, "over": 1}
    instructions = 3 + 1000 * 2 + 500 * 2 + 250 + 1000 * 2 + 3
    assert part.total() == part.stream.end[1] == instructions
    lackey = subprocess.run(
        ["valgrind", "--tool=lackey", "--vex-guest-chase=no", str(program)],
        capture_output=True,
        text=True,
    ).stderr
    found = re.search(r"guest instrs:\s+([\d,]+)", lackey)
    assert found and int(found[1].replace(",", "")) == instructions


def test_totals_agree(engine: CpuEngine, tmp_path: Path) -> None:
    """THEN vectors, slices and the independent total have the same sum."""
    for arguments in (("cpu_loops", 4, 20), ("cpu_cases", "short-threads"), ("cpu_cases", "api")):
        program = build(str(arguments[0]))
        part = profile(engine, [program, *arguments[1:]], tmp_path / str(arguments[1])).only
        cuts = part.stream["cuts"]
        assert part.stream.end == (len(cuts), int(cuts["instructions"].sum()))
        assert part.total() == part.stream.end[1]


def test_two_runs_give_the_same_vectors(engine: CpuEngine, tmp_path: Path) -> None:
    """GIVEN a deterministic program THEN blocks and counts of two profiles are identical."""
    program = build("cpu_loops")
    first = profile(engine, [program, 1, 5], tmp_path / "a").only.counts()
    second = profile(engine, [program, 1, 5], tmp_path / "b").only.counts()
    # Work in the dynamic loader and libc must not differ either.
    assert first == second


def test_first_slice_holds_the_start_up(engine: CpuEngine, tmp_path: Path) -> None:
    """THEN the dynamic loader's work is in slice 0 and nowhere else before the exit."""
    part = profile(engine, [build("cpu_loops"), 1, 4], tmp_path / "p").only
    loader = {key[0] for key in part.counts() if key[2].startswith("ld-linux")}
    assert 0 in loader
    assert not loader & {1, 2, 3}


def test_device_runtime_does_not_count(engine: CpuEngine, tmp_path: Path) -> None:
    """GIVEN work inside the device runtime, callbacks in it, and threads created in both THEN only
    the program's own work and the callbacks count, and threads created outside are numbered without
    gaps."""
    program = build("cpu_cases")
    part = profile(engine, [program, "api"], tmp_path / "p").only
    assert part.executions(program, "spin_loop") == {
        (0, 0): 100 + 20 + 400,
        (0, 1): 3,
        (0, 2): 5000,
    }
    assert len(part.stream["threads"]) == 3


def test_a_thousand_short_threads(engine: CpuEngine, tmp_path: Path) -> None:
    """THEN each has its own number and its exact count, including those that ended before the
    cut."""
    program = build("cpu_cases")
    part = profile(engine, [program, "short-threads"], tmp_path / "p").only
    assert part.executions(program, "spin_loop") == {
        (int(i >= 600), i + 1): 10 + i for i in range(1000)
    }


def test_generated_code_is_known_by_its_bytes(engine: CpuEngine, tmp_path: Path) -> None:
    """GIVEN code that is in no file THEN it counts, with the same identity in both runs."""
    found = []
    for name in "ab":
        part = profile(engine, [build("cpu_cases"), "generated"], tmp_path / name).only
        found.append({key: n for key, n in part.counts().items() if key[2] == ""})
    assert found[0] == found[1]
    by_size = {key[4]: n for key, n in found[0].items()}
    assert by_size == {3: 50, 2: 200, 1: 50}


def test_signal_handlers_count(engine: CpuEngine, tmp_path: Path) -> None:
    """THEN a handler's work and the work after it count for the interrupted thread."""
    program = build("cpu_cases")
    done = profile(engine, [program, "handler"], tmp_path / "p")
    assert done.process.returncode == 17
    assert done.process.stdout == "signal 15\n"
    assert done.only.executions(program, "spin_loop") == {(0, 0): 41}
