"""The Pin and GTPin tools as far as a machine without their kits goes: types against a kit's
headers (PIN_ROOT) or against declarations of what GTPin documents; and the part of the Pin tool
that is plain C++: block identity."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GPP = ["g++", "-std=c++17", "-Wall", "-Wextra", "-Werror"]


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
    subprocess.run([*command, f"OBJDIR={tmp_path}/", "objects"], check=True)
    assert (tmp_path / "profiler.o").exists() and (tmp_path / "probe.o").exists()


def test_gtpin_tool_fits_the_documented_interface(tmp_path: Path) -> None:
    """GIVEN declarations of what GTPin's documentation shows WHEN compiled THEN the tool's types
    fit. This is no proof that it compiles with a kit."""
    includes = [f"-I{ROOT}/native/{p}" for p in ("include", "gpu/cuda")]
    interface = f"-I{ROOT}/tests/native/gtpin_interface"
    source = str(ROOT / "native" / "gpu" / "gtpin" / "tool.cpp")
    subprocess.run(
        [*GPP, *includes, interface, "-c", source, "-o", str(tmp_path / "tool.o")], check=True
    )


def test_identity_of_an_image(tmp_path: Path) -> None:
    """GIVEN files with and without a build-id WHEN named THEN it is readelf's build-id, or the
    FNV-1a hash of the bytes, and empty for a file that is not there."""
    (tmp_path / "main.cpp").write_text(
        '#include <stdio.h>\n#include "identity.h"\n'
        "int main(int, char **argv) { puts(build_id_of(argv[1]).c_str()); }\n"
    )
    pin = ROOT / "native" / "cpu" / "pin"
    program = tmp_path / "identity"
    sources = [str(tmp_path / "main.cpp"), str(pin / "identity.cpp"), f"-I{pin}"]
    subprocess.run([*GPP, *sources, "-Wl,--build-id=sha1", "-o", str(program)], check=True)

    def named(path: Path) -> str:
        done = subprocess.run([str(program), str(path)], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    shown = subprocess.run(["readelf", "-n", str(program)], capture_output=True, text=True).stdout
    assert named(program) == shown.split("Build ID:")[1].split()[0]
    plain = tmp_path / "plain"
    plain.write_bytes(b"no image" * 10000)
    expected = 0xCBF29CE484222325
    for byte in plain.read_bytes():
        expected = (expected ^ byte) * 0x100000001B3 % (1 << 64)
    assert named(plain) == f"h{expected:016x}"
    assert named(tmp_path / "absent") == ""
