# SPDX-License-Identifier: Apache-2.0
"""Where the engine `dynamorio` builds traces of hot code."""

from __future__ import annotations

from pathlib import Path

import pytest

from xpuprof.engines.cpu.dynamorio import has_interpreter
from xpuprof.engines.gpu.opencl import OpenCl


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
