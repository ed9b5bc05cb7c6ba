# SPDX-License-Identifier: Apache-2.0
"""The tutorials of the documentation do what they show."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.probes import needs_valgrind, require_opencl
from tests.support.tutorials import PROGRAM, alike, pages, perform

pytestmark = [pytest.mark.opencl, pytest.mark.valgrind, needs_valgrind]


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_a_tutorial_prints_what_it_shows(page: Path, tmp_path: Path) -> None:
    """GIVEN a tutorial WHEN its commands run in order THEN each prints what the page shows."""
    require_opencl()
    if not PROGRAM.exists():
        pytest.skip(f"{PROGRAM} is not built: it needs ocl-icd-opencl-dev")
    for step, real in perform(page, tmp_path):
        assert alike(step.shown, real), f"{page.name} shows\n{step.text}\nand it prints\n{real}"
