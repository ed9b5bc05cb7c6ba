# SPDX-License-Identifier: Apache-2.0
"""How the engine `dynamorio` starts programs, and where it builds traces of hot code."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from xpuprof.engines.cpu.dynamorio import has_interpreter, interpreted
from xpuprof.engines.gpu.opencl import OpenCl
from xpuprof.engines.scripts import MOST_SCRIPTS


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("/usr/bin/python3.11 x.py", True),
        ("mpirun -n 2 .venv/bin/python x.py", True),
        ("/usr/bin/perl x", True),
        ("./app python.txt javascript", False),
        ("./luajit-like --node 3", False),
    ],
)
def test_interpreters(command: str, expected: bool) -> None:
    """THEN they are recognised by their names, behind a launcher too, but not in other words."""
    assert has_interpreter(command.split()) == expected


@pytest.mark.parametrize(
    ("drivers", "native"),
    [
        (["libpocl.so.2.10.0"], True),
        (["/opt/pocl/lib/libpocl.so.2"], True),
        (["libpocl.so.2.10.0", "libintelocl.so"], False),
        (["libnvidia-opencl.so.1"], False),
        ([], False),
    ],
)
def test_native_runtime(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, drivers: list[str], native: bool
) -> None:
    """GIVEN the machine's OpenCL drivers THEN the runtime counts as native if all are PoCL."""
    for number, driver in enumerate(drivers):
        (tmp_path / f"{number}.icd").write_text(f"{driver}\n")
    monkeypatch.setenv("OCL_ICD_VENDORS", str(tmp_path))
    monkeypatch.delenv("OCL_ICD_FILENAMES", raising=False)
    monkeypatch.setenv("XPUPROF_OPENCL_RUNTIME", "system")
    assert OpenCl().runtime_is_native() == native


def test_scripts_of_scripts(tmp_path: Path) -> None:
    """GIVEN as many nested scripts as the kernel takes THEN this command is what it executes."""
    last = "/bin/echo"
    for number in range(MOST_SCRIPTS):
        script = tmp_path / f"script{number}"
        script.write_text(f"#!{last} -{number}\n")
        script.chmod(0o755)
        last = str(script)
    alone = subprocess.run([last, "x"], capture_output=True, check=True).stdout
    command = interpreted([last, "x"])
    assert command[0] == "/bin/echo"
    assert subprocess.run(command, capture_output=True, check=True).stdout == alone
