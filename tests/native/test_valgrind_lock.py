# SPDX-License-Identifier: Apache-2.0
"""The lock under which the Valgrind tool runs translated code."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.compile import compile_files
from tests.support.paths import NATIVE_TESTS, ROOT

HEADERS = Path("/usr/include/valgrind")

pytestmark = pytest.mark.skipif(
    not (HEADERS / "pub_tool_basics.h").is_file(), reason="needs Valgrind's headers"
)


@pytest.mark.parametrize("threads", [1, 2, 5, 100])
def test_nobody_is_forgotten(tmp_path: Path, threads: int) -> None:
    """GIVEN more threads than places to sleep in, which are slow to fall asleep THEN each gets the
    lock each time it asks, alone."""
    program = compile_files(
        [NATIVE_TESTS / "programs" / "big_lock.c"],
        tmp_path / "big_lock",
        *("-pthread", "-DVGA_amd64=1", "-DVGO_linux=1", "-DVGP_amd64_linux=1"),
        *("-DVGPV_amd64_linux_vanilla=1", "-isystem", HEADERS),
        *(f"-I{ROOT / 'native' / folder}" for folder in ("cpu/valgrind", "runtime")),
    )
    ran = subprocess.run([program, str(threads), "100"], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, f"{threads * 100}\n", "")
