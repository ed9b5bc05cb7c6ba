# SPDX-License-Identifier: Apache-2.0
"""Compiles the small programs that tests run. Warnings are errors."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from tests.support.paths import OPENCL_PROGRAMS
from tests.support.run import output

STRICT = ("-O1", "-Wall", "-Wextra", "-Werror")


def compile_files(
    sources: Sequence[Path], target: Path, *flags: str | Path, compiler: str = "cc"
) -> Path:
    """A program or library from these files; libraries come after them."""
    first = [str(flag) for flag in flags if not str(flag).startswith("-l")]
    libraries = [str(flag) for flag in flags if str(flag).startswith("-l")]
    target.parent.mkdir(parents=True, exist_ok=True)
    command = [compiler, *STRICT, *first, *map(str, sources), "-o", str(target), *libraries]
    subprocess.run(command, check=True)
    return target


def compile_text(source: str, target: Path, *flags: str | Path, compiler: str = "cc") -> Path:
    """As `compile_files`, from a text, which is stored beside the target."""
    target.parent.mkdir(parents=True, exist_ok=True)
    file = target.with_name(f"{target.name}{'.c' if compiler in ('cc', 'gcc') else '.cpp'}")
    file.write_text(source)
    return compile_files([file], target, *flags, compiler=compiler)


def opencl_program(name: str, folder: Path, *flags: str | Path, compiler: str = "cc") -> Path:
    """One of integration/programs; they use OpenCL 1.2 calls that 2.0 deprecates on purpose."""
    source = OPENCL_PROGRAMS / f"{name}.c"
    more = ("-Wno-deprecated-declarations", "-lOpenCL", "-lpthread")
    return compile_files([source], folder / name, *flags, *more, compiler=compiler)


@cache
def symbols(program: Path) -> dict[str, int]:
    """Linked address of each symbol, with C++ names demangled."""
    found = {}
    for line in output(["nm", "-C", program]).splitlines():
        address, _, *name = line.split(maxsplit=2)
        if name:
            found[name[0].removesuffix("()")] = int(address, 16)
    return found
