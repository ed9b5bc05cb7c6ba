# SPDX-License-Identifier: Apache-2.0
"""CPU engines do not change the program, and always leave a readable trace."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.cpu_programs import (
    Profile,
    build,
    command,
    every_engine,
    execution,
    failures,
    profile,
)
from tests.support.run import run, run_text
from xpuprof.engines.base import CpuEngine, CpuOptions

pytestmark = every_engine


@pytest.mark.parametrize(
    "how", ["0", "1", "42", "255", "segv", "abort", "trap", "kill", "term", "term-handled"]
)
def test_ends_as_it_does_natively(engine: CpuEngine, tmp_path: Path, how: str) -> None:
    """THEN exit code or signal, stdout and stderr are the native ones, and the trace is
    complete."""
    program = build("cpu_endings")
    native = run_text([program, how])
    done = profile(engine, [program, how], tmp_path / "p")
    assert done.process.returncode == native.returncode
    assert (done.process.stdout, done.process.stderr) == (native.stdout, native.stderr)
    assert done.only.stream.ended


@pytest.mark.parametrize(
    "case", ["spawned", "borrowed", "nested", "long", "enough", "many", "pointer"]
)
def test_a_program_that_cannot_be_started(engine: CpuEngine, tmp_path: Path, case: str) -> None:
    """GIVEN a program that starts another in vain, by posix_spawn, vfork or exec THEN it is told
    what it is told alone, and goes on."""
    if engine.name == "dynamorio" and case in ("nested", "enough"):
        pytest.skip("DynamoRIO hangs in a fork of vfork's child, and takes room for its variables")
    line = [build("cpu_refused"), case]
    alone = run_text(line)
    done = profile(engine, line, tmp_path / "p").process
    assert alone.stdout
    assert (done.returncode, done.stdout, done.stderr) == (0, alone.stdout, alone.stderr)


@pytest.mark.parametrize("how", ["self", "number", "thread", "spawn", "vfork", "named"])
def test_a_program_that_executes_its_own_file(engine: CpuEngine, tmp_path: Path, how: str) -> None:
    """GIVEN a program that executes its own file by the kernel's name for it, /proc/self/exe THEN
    it is that file, and not the engine's, with the name that it gives."""
    line = [build("cpu_itself"), how]
    alone = run_text(line)
    done = profile(engine, line, tmp_path / "p").process
    assert "with of 4" in alone.stdout
    assert (done.returncode, done.stdout, done.stderr) == (alone.returncode, alone.stdout, "")


def test_program_is_not_told_of_valgrind(engine: CpuEngine, tmp_path: Path) -> None:
    """GIVEN a program that asks whether Valgrind runs it THEN the answer is no, as natively. Mono
    then does without a stack for signals, and ended at a null reference under valgrind."""
    done = profile(engine, [build("cpu_cases"), "on-valgrind"], tmp_path / "p")
    assert done.process.returncode == 6


def test_a_script_that_executes_its_interpreter(engine: CpuEngine, tmp_path: Path) -> None:
    """GIVEN a script THEN the kernel's name for its executable is that of the interpreter."""
    script = tmp_path / "script.sh"
    script.write_text("#!/bin/sh\nexec /proc/self/exe -c 'echo here; exit 4'\n")
    script.chmod(0o755)
    done = profile(engine, [script], tmp_path / "p").process
    assert (done.returncode, done.stdout) == (4, "here\n")


def test_a_script_whose_interpreter_is_a_script(
    engine: CpuEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIVEN scripts that interpret scripts, started by the user and by a program THEN each gets
    the words that the kernel gives it."""
    for name, line in {
        "shim": "/bin/echo",
        "tool": "./shim  of the shim ",
        "app": "./tool",
    }.items():
        (tmp_path / name).write_text(f"#! {line}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.chdir(tmp_path)
    words = "./shim of the shim ./tool ./app 1  2\n"
    for program in (["./app", "1 ", "2"], ["/bin/sh", "-c", "./app '1 ' 2"]):
        alone = run_text(program)
        line, environment = command(engine, program, tmp_path / "p")
        done = run_text(line, environment=environment)
        assert (done.stdout, done.stderr) == (alone.stdout, "") == (words, "")


def test_fault_of_one_thread_of_many(engine: CpuEngine, tmp_path: Path) -> None:
    """THEN the signal ends the program each time, however its other threads take their leave."""
    program = build("cpu_endings")
    line, environment = command(engine, [program, "segv-thread"], tmp_path / "p")
    ends = {run(line, environment=environment).returncode for _ in range(20)}
    assert ends == {-signal.SIGSEGV}


def test_no_memory_for_the_counters_of_a_thread(engine: CpuEngine, tmp_path: Path) -> None:
    """GIVEN a thread that starts when little memory is left to be mapped THEN the program goes on,
    its finished slices are there, and the reason for the lack of others is told."""
    folder = execution(tmp_path)
    done = profile(engine, [build("cpu_scarce"), 32], folder)
    assert (done.process.returncode, done.process.stdout) == (0, "done\n")
    assert failures(folder) == ["there is no memory for a thread's counters"]
    assert len(done.only.stream["cuts"]) == 1
    assert not done.only.stream.ended


def test_killed_from_outside_keeps_finished_slices(engine: CpuEngine, tmp_path: Path) -> None:
    """GIVEN SIGKILL in the third slice THEN the two finished ones are there, exact, unclosed."""
    program = build("cpu_cases")
    line, environment = command(engine, [program, "killed"], tmp_path / "p")
    with subprocess.Popen(line, env=environment, stdout=subprocess.PIPE) as running:
        assert running.stdout and running.stdout.readline() == b"ready\n"
        running.kill()
    part = Profile(subprocess.CompletedProcess(line, running.returncode), tmp_path / "p").only
    assert running.returncode == -signal.SIGKILL
    assert not part.stream.ended
    assert len(part.stream["cuts"]) == 2
    assert part.executions(program, "spin_loop") == {(0, 0): 100, (1, 0): 200}


def test_child_without_device_work_leaves_nothing(engine: CpuEngine, tmp_path: Path) -> None:
    """GIVEN a forked child THEN the parent's trace does not hold its work, nor any other file."""
    program = build("cpu_cases")
    done = profile(engine, [program, "fork"], tmp_path / "p")
    assert done.process.returncode == 4
    assert done.only.executions(program, "spin_loop") == {(0, 0): 100, (1, 0): 20}
    assert done.only.stream.ended


def test_child_with_device_work_has_its_own_part(engine: CpuEngine, tmp_path: Path) -> None:
    """THEN the child's slices start at the fork."""
    program = build("cpu_cases")
    done = profile(engine, [program, "fork-device"], tmp_path / "p")
    assert done.process.returncode == 4
    parent, child = sorted(done.parts, key=lambda part: -len(part.stream["cuts"]))
    assert parent.executions(program, "spin_loop") == {(0, 0): 100, (1, 0): 20}
    assert child.executions(program, "spin_loop") == {(0, 0): 3, (1, 0): 5}
    for part in (parent, child):
        assert part.stream.ended
        assert part.stream.end[1] == part.total()


def test_program_started_by_a_shell(engine: CpuEngine, tmp_path: Path) -> None:
    """GIVEN a program that a shell starts THEN it has a part, with exact counts."""
    program = build("cpu_loops")
    done = profile(engine, ["sh", "-c", f"{program} 1 2; exit 3"], tmp_path / "p")
    assert done.process.returncode == 3
    found = [part.executions(program, "spin_loop") for part in done.parts]
    assert {(0, 0): 1000, (1, 0): 1010} in found


def test_program_started_by_exec(engine: CpuEngine, tmp_path: Path) -> None:
    """GIVEN a program started by exec THEN the process has one part, the new program's."""
    program = build("cpu_loops")
    part = profile(engine, ["env", program, 1, 2], tmp_path / "p").only
    assert part.executions(program, "spin_loop") == {(0, 0): 1000, (1, 0): 1010}


def test_no_launch_makes_one_slice(engine: CpuEngine, tmp_path: Path) -> None:
    """GIVEN a program that never launches THEN the whole run is one slice."""
    program = build("cpu_cases")
    part = profile(engine, [program, "no-device"], tmp_path / "p").only
    assert len(part.stream["cuts"]) == 1
    assert part.executions(program, "spin_loop") == {(0, 0): 1234}


def test_logs_without_content_go_away(engine: CpuEngine, tmp_path: Path) -> None:
    """THEN an ordinary run leaves no log behind."""
    profile(engine, [build("cpu_cases"), "fork"], tmp_path / "p")
    assert not list((tmp_path / "p").glob("*.log"))


def test_our_libraries_do_not_count(engine: CpuEngine, tmp_path: Path) -> None:
    """THEN no image is ours, the OpenCL loader's, or Valgrind's."""
    part = profile(engine, [build("cpu_loops"), 1, 2], tmp_path / "p").only
    names = [Path(path).name for path in part.stream.texts(part.stream["images"]["path"])]
    assert "cpu_loops" in names
    assert not [name for name in names if name.startswith(("libxpuprof", "vgpreload"))]


@pytest.mark.parametrize(
    ("options", "counted"),
    [
        (CpuOptions(main_image_only=True), {"cpu_loops"}),
        (CpuOptions(include_images=("libc.so*",)), {"libc.so.6"}),
        (
            CpuOptions(include_images=("*/ld-linux*", "cpu_*")),
            {"ld-linux-x86-64.so.2", "cpu_loops"},
        ),
        (CpuOptions(exclude_images=("ld-*", "libc.*")), {"cpu_loops"}),
        (CpuOptions(include_images=("cpu_*", "libc.*"), exclude_images=("cpu_*",)), {"libc.so.6"}),
    ],
)
def test_image_filters(
    engine: CpuEngine, tmp_path: Path, options: CpuOptions, counted: set[str]
) -> None:
    """THEN only the requested images are counted, and META records the filters."""
    part = profile(engine, [build("cpu_loops"), 1, 2], tmp_path / "p", options).only
    assert {key[2] for key in part.counts()} == counted
    assert part.stream.end[1] == part.total() > 0
    assert part.stream.meta()["filters"]


def test_routine_filter(engine: CpuEngine, tmp_path: Path) -> None:
    """GIVEN --routine THEN only blocks of that routine count: its loop and its return."""
    program = build("cpu_loops")
    part = profile(engine, [program, 1, 2], tmp_path / "p", CpuOptions(routines=("spi?",))).only
    assert part.total() == 2 * (1000 + 1010) + 2
    assert part.executions(program, "spin_loop") == {(0, 0): 1000, (1, 0): 1010}


def test_thread_filter(engine: CpuEngine, tmp_path: Path) -> None:
    """GIVEN threads 1 and 3 THEN the others have no vectors; numbers stay."""
    program = build("cpu_loops")
    part = profile(engine, [program, 4, 2], tmp_path / "p", CpuOptions(threads=(1, 3))).only
    assert {key[1] for key in part.counts()} == {1, 3}
    assert part.executions(program, "spin_loop")[1, 3] == 4010
