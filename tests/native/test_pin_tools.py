# SPDX-License-Identifier: Apache-2.0
"""The Pin tools against a kit's headers (PIN_ROOT), and the plain C++ part: block identity."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.compile import compile_files
from tests.support.paths import ROOT
from tests.support.run import output


@pytest.mark.slow
def test_pin_tools_compile_against_a_kit(tmp_path: Path) -> None:
    """GIVEN a kit's headers WHEN built by the kit's make system THEN every object compiles."""
    kit = os.environ.get("PIN_ROOT")
    if not kit:
        pytest.skip("PIN_ROOT is not set; see docs/pin.md")
    command = [
        "make",
        "-C",
        str(ROOT / "native" / "cpu" / "pin"),
        f"PIN_ROOT={kit}",
        "TARGET=intel64",
    ]
    output([*command, f"OBJDIR={tmp_path}/", "objects"])
    assert (tmp_path / "profiler.o").exists() and (tmp_path / "probe.o").exists()


def test_identity_of_an_image(tmp_path: Path) -> None:
    """GIVEN files with and without a build-id THEN the name is readelf's build-id, or the FNV-1a
    hash of the bytes, and empty for a missing file."""
    (tmp_path / "main.cpp").write_text(
        '#include <stdio.h>\n#include "identity.h"\n'
        "int main(int, char **argv) { puts(build_id_of(argv[1]).c_str()); }\n"
    )
    pin, common = ROOT / "native" / "cpu" / "pin", ROOT / "native" / "cpu" / "common"
    sources = [tmp_path / "main.cpp", pin / "identity.cpp", common / "build_id.c"]
    flags = [f"-I{pin}", f"-I{common}", "-Wl,--build-id=sha1"]
    program = compile_files(sources, tmp_path / "identity", *flags, compiler="g++")

    def named(path: Path) -> str:
        return output([program, path]).strip()

    shown = output(["readelf", "-n", program])
    assert named(program) == shown.split("Build ID:")[1].split()[0]
    plain = tmp_path / "plain"
    plain.write_bytes(b"no image" * 10000)
    expected = 0xCBF29CE484222325
    for byte in plain.read_bytes():
        expected = (expected ^ byte) * 0x100000001B3 % (1 << 64)
    assert named(plain) == f"h{expected:016x}"
    assert named(tmp_path / "absent") == ""
