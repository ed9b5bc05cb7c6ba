# SPDX-License-Identifier: Apache-2.0
"""The engine `valgrind` holds what it needs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from xpuprof.engines import native
from xpuprof.engines.base import CpuOptions
from xpuprof.engines.cpu.valgrind import Valgrind


def test_no_valgrind_on_the_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """GIVEN no program `valgrind` on the path THEN the engine runs a program and its child."""
    if not Valgrind().probe().available:
        pytest.skip("the Valgrind tool is not built")
    script = 'exec 2>&1; /bin/sh -c "exit 3"; echo $?'
    command, environment = Valgrind().wrap(["/bin/sh", "-c", script], CpuOptions(), tmp_path)
    done = subprocess.run(
        command, env={"PATH": str(tmp_path), **environment}, capture_output=True, text=True
    )
    assert (done.stdout, done.stderr, done.returncode) == ("3\n", "", 0)
    assert not list(tmp_path.glob("valgrind-*.log"))


def test_missing_parts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """GIVEN an installation without the tool THEN the probe names its files and the packages."""
    monkeypatch.setattr(native, "native_file", lambda name: tmp_path / name)
    probe = Valgrind().probe()
    assert not probe.available
    assert "valgrind/launcher (not built)" in probe.missing
    assert "apt-get install valgrind" in probe.advice
