# SPDX-License-Identifier: Apache-2.0
"""Instructions that the OpenCL engine counts against those that Oclgrind interprets."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.oclgrind import PROGRAMS, counted, interpreted
from tests.support.probes import require_programs


@pytest.mark.opencl
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_launch_has_the_instructions_that_an_interpreter_executes(
    name: str, tmp_path: Path
) -> None:
    """GIVEN a program WHEN the engine counts it on a device, and Oclgrind interprets the same code
    THEN every launch has the same number of instructions of every class."""
    program = PROGRAMS[name]
    tool = next(word for word in map(str, program) if "=" not in word and word != "env")
    require_programs(tool, package=f"{name.split()[0]}")
    expected = interpreted(program, tmp_path)
    assert expected and all(sum(launch.mix.values()) for launch in expected)
    assert counted(program, tmp_path) == expected
