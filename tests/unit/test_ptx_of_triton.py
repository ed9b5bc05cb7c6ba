# SPDX-License-Identifier: Apache-2.0
"""The program that docs/ptx.md puts in place of Triton's ptxas."""

from __future__ import annotations

import os
import re
import subprocess
import textwrap
from pathlib import Path

import pytest

from tests.support.paths import ROOT


@pytest.fixture
def stand_in(tmp_path: Path) -> Path:
    """The documented program."""
    page = (ROOT / "docs" / "ptx.md").read_text()
    found = re.search(r"^    #!/bin/sh\n(?:    .*\n)+", page, re.M)
    assert found is not None
    program = tmp_path / "in-place-of-ptxas"
    program.write_text(textwrap.dedent(found[0]))
    program.chmod(0o755)
    return program


def test_it_hands_the_ptx_on(stand_in: Path, tmp_path: Path) -> None:
    """GIVEN arguments as Triton gives them to ptxas WHEN run THEN the output is the PTX."""
    (tmp_path / "a b.ptx").write_text(".version 9.0\n")
    given = ["-lineinfo", "-v", "--gpu-name=sm_90a", tmp_path / "a b.ptx", "-o", tmp_path / "a.o"]
    subprocess.run([stand_in, *given], check=True)
    assert (tmp_path / "a.o").read_text() == ".version 9.0\n"


def test_it_has_the_version_of_ptxas(stand_in: Path, tmp_path: Path) -> None:
    """GIVEN a ptxas on PATH WHEN asked for the version THEN it is that one's, from which Triton
    takes the version of the PTX."""
    (tmp_path / "ptxas").write_text("#!/bin/sh\necho release 13.0, $1\n")
    (tmp_path / "ptxas").chmod(0o755)
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        [stand_in, "--version"], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == "release 13.0, --version\n"
