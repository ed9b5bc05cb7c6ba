"""What only the engine `valgrind` does: hide an instruction set, have settings of its own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.cpu_programs import build, profile
from tests.support.probes import needs_valgrind
from xpuprof.engines.cpu.valgrind import Valgrind

pytestmark = [needs_valgrind, pytest.mark.valgrind]


def test_fma_is_hidden_and_said_so(tmp_path: Path) -> None:
    """THEN the program sees a machine with AVX and without FMA, as META says."""
    if "fma" not in Path("/proc/cpuinfo").read_text():
        pytest.skip("this processor has no FMA")
    done = profile(Valgrind(), [build("cpu_cases"), "isa"], tmp_path / "p")
    assert done.process.stdout == "fma 0 avx2 0 avx 1\n"
    assert "fma" in done.only.stream.meta()["hidden_isa"].split()


def test_folder_with_percent_sign(tmp_path: Path) -> None:
    """GIVEN a folder name that looks like a format THEN it is taken as it is."""
    folder = tmp_path / "100%p"
    assert profile(Valgrind(), [build("cpu_endings"), "0"], folder).only.stream.ended
    assert os.listdir(tmp_path) == ["100%p"]


def test_users_valgrind_settings_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIVEN a .valgrindrc for memcheck where the program runs THEN it does not reach our tool."""
    monkeypatch.chdir(tmp_path)
    Path(".valgrindrc").write_text("--leak-check=full\n--tool=memcheck\n")
    done = profile(Valgrind(), [build("cpu_endings"), "42"], tmp_path / "p")
    assert done.process.returncode == 42
    assert done.only.stream.ended
