# SPDX-License-Identifier: Apache-2.0
"""Where the engine `dynamorio` builds traces of hot code."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.compile import compile_text
from xpuprof.engines.cpu.dynamorio import has_interpreter, has_much_code
from xpuprof.engines.gpu.opencl import OpenCl


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("/usr/bin/python3.11 x.py", True),
        ("mpirun -n 2 .venv/bin/python x.py", True),
        ("/usr/bin/perl x", True),
        ("./app python.txt javascript", False),
        ("./luajit-like --node 3", False),
    ],
)
def test_interpreters(command: str, expected: bool) -> None:
    """THEN they are recognised by their names, behind a launcher too, but not in other words."""
    assert has_interpreter(command.split()) == expected


LARGE = '__asm__(".text\\nlarge: .skip 7 << 20\\n");\nvoid use(void) {}\n'
MAIN = "char data[7 << 20] = {1};\nvoid use(void);\nint main(void) { use(); return data[3]; }\n"


@pytest.mark.parametrize("where", ["nowhere", "program", "library"])
def test_much_code(tmp_path: Path, where: str) -> None:
    """THEN a program's own code counts, and that of its libraries, but not data."""
    library = "void use(void) {}\n" if where != "library" else LARGE
    compile_text(library, tmp_path / "libuse.so", "-shared", "-fPIC")
    main = MAIN + (LARGE.replace("use", "unused") if where == "program" else "")
    flags = (f"-L{tmp_path}", f"-Wl,-rpath,{tmp_path}", "-luse")
    program = compile_text(main, tmp_path / "main", *flags)
    assert has_much_code(str(program)) == (where != "nowhere")


def test_no_program(tmp_path: Path) -> None:
    """THEN what is no program has no code."""
    (tmp_path / "text").write_bytes(b"x" * (7 << 20))
    assert not has_much_code(str(tmp_path / "text"))
    assert not has_much_code(str(tmp_path / "missing"))


@pytest.mark.parametrize(
    ("drivers", "native"),
    [
        (["libpocl.so.2.10.0"], True),
        (["/opt/pocl/lib/libpocl.so.2"], True),
        (["libpocl.so.2.10.0", "libintelocl.so"], False),
        (["libnvidia-opencl.so.1"], False),
        ([], False),
    ],
)
def test_native_runtime(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, drivers: list[str], native: bool
) -> None:
    """GIVEN the machine's OpenCL drivers THEN the runtime counts as native if all are PoCL."""
    for number, driver in enumerate(drivers):
        (tmp_path / f"{number}.icd").write_text(f"{driver}\n")
    monkeypatch.setenv("OCL_ICD_VENDORS", str(tmp_path))
    monkeypatch.delenv("OCL_ICD_FILENAMES", raising=False)
    monkeypatch.setenv("XPUPROF_OPENCL_RUNTIME", "system")
    assert OpenCl().runtime_is_native() == native
