# SPDX-License-Identifier: Apache-2.0
"""What only the engine `dynamorio` does: the user's kit, scripts, hiding that DynamoRIO poses as
Valgrind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cpu_programs import Profile, build, profile, with_and_without_traces
from tests.support.probes import needs_dynamorio
from tests.support.run import output, run_text
from xpuprof.engines.base import CpuOptions
from xpuprof.engines.cpu.dynamorio import DynamoRio, repeatable_addresses
from xpuprof.engines.cpu.valgrind import Valgrind
from xpuprof.errors import EngineError


def test_kit_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN no kit, or a folder that is not one, THEN the probe says what is missing and the
    remedy, and the engine refuses."""
    for home in ("", str(tmp_path)):
        monkeypatch.setenv("DYNAMORIO_HOME", home)
        probe = DynamoRio().probe()
        assert not probe.available
        assert any((home or "DYNAMORIO_HOME") in text for text in probe.missing)
        assert "set DYNAMORIO_HOME" in probe.advice
        with pytest.raises(EngineError, match="DYNAMORIO_HOME"):
            DynamoRio().wrap(["/bin/true"], CpuOptions(), tmp_path)


@needs_dynamorio
def test_instruction_sets_are_kept(tmp_path: Path) -> None:
    """THEN the program sees the processor that it sees natively."""
    program = build("cpu_cases")
    native = output([program, "isa"])
    done = profile(DynamoRio(), [program, "isa"], tmp_path / "p")
    assert done.process.stdout == native
    assert done.only.stream.meta()["hidden_isa"] == ""


@needs_dynamorio
@with_and_without_traces
@pytest.mark.parametrize(
    ("name", "ending"), [("cpu_generated", "0 failed\n"), ("cpu_rewritten", ", 1000 faults\n")]
)
def test_code_that_changes(tmp_path: Path, dynamorio: DynamoRio, name: str, ending: str) -> None:
    """GIVEN generated code that changes the target of a hot loop, and forks while threads generate
    code; or code that is rewritten before each call, so that DynamoRIO keeps copies of it, and
    faults THEN the program continues as it does natively, with and without traces."""
    program = build(name)
    native = run_text([program], check=True)
    done = profile(dynamorio, [program], tmp_path / "p")
    assert (done.process.stdout, done.process.returncode) == (native.stdout, 0)
    assert native.stdout.endswith(ending)


@needs_dynamorio
@with_and_without_traces
def test_what_instructions_leave_as_it_is(tmp_path: Path, dynamorio: DynamoRio) -> None:
    """GIVEN blocks that begin with an instruction that may leave flags or its result unchanged (a
    shift by 0, a test of a bit, ...) THEN counting does not change them either."""
    program = build("cpu_flags")
    assert run_text([program]).stdout == 6 * "500\n"
    done = profile(dynamorio, [program], tmp_path / "p")
    assert (done.process.stdout, done.process.returncode) == (6 * "500\n", 0)


@needs_dynamorio
def test_data_of_libraries_is_in_reach(tmp_path: Path) -> None:
    """THEN libraries lie below the code cache and within 2 GB: DynamoRIO leaves their operands
    relative to the instruction pointer as they are."""
    if not repeatable_addresses():
        pytest.skip("addresses are randomised here")
    done = profile(DynamoRio(), ["/bin/cat", "/proc/self/maps"], tmp_path / "p")
    lines = [line.split() for line in done.process.stdout.splitlines()]
    places = [([int(end, 16) for end in line[0].split("-")], line[1], line[-1]) for line in lines]
    cache = max(end for (_, end), rights, _ in places if rights == "rwxp")
    libraries = [(ends, path) for ends, _, path in places if "/libc." in path]
    assert libraries
    for (start, end), path in libraries:
        assert cache - (2 << 30) < start < end <= cache, path


@needs_dynamorio
def test_script(tmp_path: Path) -> None:
    """GIVEN a script that runs a program THEN both run, with the script's exit code."""
    program, script = build("cpu_loops"), tmp_path / "script"
    script.write_text(f'#!/bin/sh -e\n{program} 1 2\necho "$0 $1"\nexit 3\n')
    script.chmod(0o755)
    done = profile(DynamoRio(), [script, "word"], tmp_path / "p")
    assert done.process.returncode == 3
    assert done.process.stdout == f"done\n{script} word\n"
    found = [part.executions(program, "spin_loop") for part in done.parts]
    assert {(0, 0): 1000, (1, 0): 1010} in found


@needs_dynamorio
def test_programs_of_the_device_runtime(tmp_path: Path) -> None:
    """GIVEN a compiler that the device runtime starts, by fork or by posix_spawn THEN it runs
    natively, and the program has its part."""
    program = build("cpu_cases")
    done = profile(DynamoRio(), [program, "runtime-children"], tmp_path / "p")
    assert done.process.returncode == 0
    assert done.process.stdout == "native\nnative\n"
    assert done.only.stream.ended
    assert done.only.executions(program, "spin_loop") == {(0, 0): 8}


@needs_dynamorio
def test_threads_that_start_programs(tmp_path: Path) -> None:
    """GIVEN threads that start programs at the same time THEN the process goes on. Without turns
    (creations.c) one in three to ten executions crashed or hung."""
    for i in range(8):
        done = profile(DynamoRio(), [build("cpu_spawns")], tmp_path / str(i)).process
        assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr


@needs_dynamorio
def test_child_with_an_empty_environment(tmp_path: Path) -> None:
    """THEN it is followed."""
    program = build("cpu_loops")
    line = f"env -i XPUPROF_DIR=$XPUPROF_DIR {program} 1 2"
    done = profile(DynamoRio(), ["sh", "-c", line], tmp_path / "p")
    found = [part.executions(program, "spin_loop") for part in done.parts]
    assert {(0, 0): 1000, (1, 0): 1010} in found


@needs_dynamorio
def test_folder_with_blanks(tmp_path: Path) -> None:
    """GIVEN a folder name with blanks and quotes THEN it is taken as it is."""
    folder = tmp_path / "a b'c \"d"
    done = profile(DynamoRio(), [build("cpu_endings"), "0"], folder)
    assert Profile(done.process, folder).only.stream.ended


def command(*arguments: object) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "xpuprof", *(str(argument) for argument in arguments)]
    return run_text(line)


@needs_dynamorio
def test_auto_prefers_it_where_it_can(tmp_path: Path) -> None:
    """GIVEN a kit THEN auto takes it; with --memory, which it lacks, auto takes another engine;
    naming it with --memory is an error before anything runs."""
    program = build("cpu_endings")
    for name, options, engine in (("a", [], "dynamorio"), ("b", ["--memory"], "valgrind")):
        if not Valgrind().probe().available and options:
            continue
        done = command("profile", "--gpu", "none", *options, "-o", tmp_path / name, "--", program)
        assert done.returncode == 0
        assert done.stdout == "out\n"
        execution = json.loads((tmp_path / name / "manifest.json").read_text())["executions"][0]
        assert execution["cpu_engine"] == engine
    refused = command("profile", "--cpu", "dynamorio", "--memory", "-o", tmp_path / "c", "--", "ls")
    assert refused.returncode == 2
    assert "does not support --memory" in refused.stderr
    assert not (tmp_path / "c").exists()


@needs_dynamorio
def test_a_client_that_is_not_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN a kit that starts programs without our client THEN the program runs as it does alone,
    and the run is partial and says why."""
    kit = Path(os.environ["DYNAMORIO_HOME"])
    fake = tmp_path / "kit"
    (fake / "bin64").mkdir(parents=True)
    (fake / "lib64").symlink_to(kit / "lib64")
    (fake / "cmake").symlink_to(kit / "cmake")
    launcher = fake / "bin64" / "drrun"
    launcher.write_text('#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done\nshift\nexec "$@"\n')
    launcher.chmod(0o755)
    monkeypatch.setenv("DYNAMORIO_HOME", str(fake))
    out = tmp_path / "run"
    done = command("profile", "--gpu", "none", "-o", out, "--", build("cpu_endings"), "42")
    assert (done.returncode, done.stdout) == (42, "out\n")
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["status"] == "partial"
    assert manifest["reason"].startswith("CPU engine dynamorio wrote nothing")
