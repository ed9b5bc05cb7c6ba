# SPDX-License-Identifier: Apache-2.0
"""The instrumenter compiles with the newest LLVM of this machine, beside the one it is linked with.

That LLVM's SPIRV-LLVM translator need not be there: a header with its declarations stands in."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.run import run_text

SOURCES = sorted((ROOT / "native/gpu/opencl/instrumenter").glob("*.cpp"))
NEWEST = max(
    (n for n in range(16, 40) if Path(f"/usr/lib/llvm-{n}/include/clang/Frontend").is_dir()),
    default=0,
)


@pytest.mark.slow
@pytest.mark.skipif(not NEWEST, reason="needs llvm-N-dev and libclang-N-dev, N from 16")
@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_the_instrumenter_compiles_with_a_newer_llvm(source: Path) -> None:
    """GIVEN a newer LLVM WHEN a source is compiled against its headers THEN nothing is reported."""
    done = run_text(
        ["c++", "-std=c++17", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", source]
        + [f"-I{ROOT / part}" for part in ("native/gpu/opencl", "native/include")]
        + ["-isystem", f"/usr/lib/llvm-{NEWEST}/include"]
        + ["-isystem", ROOT / "tests/native/programs"]
    )
    assert done.returncode == 0, done.stderr
