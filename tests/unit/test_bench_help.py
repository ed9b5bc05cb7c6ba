# SPDX-License-Identifier: Apache-2.0
"""Each bench imports what it uses and says how it is used."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.run import run_text

BENCHES = sorted((ROOT / "tools/bench").glob("*.py"))


@pytest.mark.parametrize("bench", BENCHES, ids=lambda bench: bench.stem)
def test_help(bench: Path) -> None:
    done = run_text([sys.executable, bench, "--help"])
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: ")
