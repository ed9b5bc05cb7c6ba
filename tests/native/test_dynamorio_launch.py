"""What only the engine `dynamorio` does: a kit of the user's, scripts, a pretence undone."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from cpu_programs import Profile, build, needs_dynamorio, profile

from xpuprof.engines.base import CpuOptions
from xpuprof.engines.dynamorio import DynamoRio
from xpuprof.errors import EngineError


def test_kit_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN no kit, or a folder that is none THEN the probe tells what is missing and the remedy,
    and the engine refuses."""
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
    native = subprocess.run([program, "isa"], capture_output=True, text=True).stdout
    done = profile(DynamoRio(), [program, "isa"], tmp_path / "p")
    assert done.process.stdout == native
    assert done.only.stream.meta()["hidden_isa"] == ""


@needs_dynamorio
def test_program_is_not_told_of_valgrind(tmp_path: Path) -> None:
    """GIVEN a program that asks whether Valgrind runs it THEN the answer is no, as natively."""
    done = profile(DynamoRio(), [build("cpu_cases"), "on-valgrind"], tmp_path / "p")
    assert done.process.returncode == 6


@needs_dynamorio
def test_script(tmp_path: Path) -> None:
    """GIVEN a script that runs a program THEN both have run, with the script's exit code."""
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
def test_child_with_an_empty_environment(tmp_path: Path) -> None:
    """THEN it is followed all the same."""
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
