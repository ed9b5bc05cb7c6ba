# SPDX-License-Identifier: Apache-2.0
"""The small programs of tools/evidence through `xpuprof run`: the program is unharmed, every launch
is counted, and there is a result."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from tools.evidence.measure import Suite
from tools.evidence.programs import PROGRAMS, Program


@pytest.mark.opencl
@pytest.mark.parametrize("program", [p for p in PROGRAMS if p.small], ids=lambda p: p.name)
def test_a_public_program(tmp_path: Path, program: Program) -> None:
    """GIVEN a public program WHEN it is run THEN its output and exit code are the native ones, all
    its launches are instrumented, and the run passes its check."""
    suite = Suite(program, tmp_path / "place", Path(sys.executable))
    executable = suite.filled(program.command)[0]
    if shutil.which(executable) is None:
        pytest.skip(f"{executable} is not installed ({', '.join(program.apt)})")
    native = suite.native()
    assert suite.passes(native), native.said
    found = suite.run({"native_s": native.wall_s, "output": native.output})
    assert found["same_output"] and found["code"]
    assert 0 < found["launches"] == found["instrumented"]
    assert 0 < found["representatives"] <= found["slices"]
    assert found["checked"] == 0
