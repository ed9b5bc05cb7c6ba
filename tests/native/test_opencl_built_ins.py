# SPDX-License-Identifier: Apache-2.0
"""Every built-in function that PoCL accepts from source works in an instrumented kernel."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.built_ins import bodies
from tests.support.clinst import POCL, find_device, program

pytestmark = pytest.mark.opencl


@pytest.mark.timeout(900)
def test_every_built_in_function() -> None:
    """GIVEN a call of each built-in function and type WHEN instrumented THEN it computes the
    same. In a process of its own, since a function that is missing in a launch ends the process."""
    program()
    find_device(POCL)
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.built_ins"],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    lines = [line.split() for line in done.stdout.splitlines()]
    assert done.returncode == 0, (lines[-1:], done.stderr)
    found = {name: word for word, name in lines}
    assert set(found) == set(bodies())
    assert not [name for name, word in found.items() if word not in ("same", "absent")]
    # What the device has is not known here, but most of it is there.
    assert list(found.values()).count("same") > 0.8 * len(found)
