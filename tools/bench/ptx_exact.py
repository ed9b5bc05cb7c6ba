# SPDX-License-Identifier: Apache-2.0
"""Whether the PTX engine's counts of kernels in files are exact, by the emulator of the tests.

    python tools/bench/ptx_exact.py [--unit lane] FILE...

Each FILE is PTX, or CUDA C++ that nvcc compiles for compute_80 first (with -I of its folder). Every
kernel is executed as it is and with counters, on arguments made for its parameters: a buffer for
each pointer, a small number for each scalar. Memory afterwards must be bit-equal, and each warp's
count of each block what the emulator saw. Prints one line per kernel: what was executed, or why the
emulator cannot.
"""

from __future__ import annotations

import argparse
import itertools
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from ptx_registers import ptx_of

from tests.support.ptx import build

BUFFER = 4 << 20
SCALARS = (16, 5, 1)
SECONDS = 60
SCALAR_KINDS = {"f32": "f32:{}", "f64": "f64:{}", "u64": "u64:{}", "b64": "u64:{}"}


def argument(number: int, declaration: str, scalar: int, all_pointers: bool) -> str:
    """What `check` is to pass for a parameter: `.u64 .ptr .align 1 name`, `.align 8 .b8 name[24]`.
    Compilers may leave out that a `.u64` is a pointer."""
    if array := re.search(r"\[(\d+)\]", declaration):
        return f"bytes:{array[1]}"
    kind = declaration.split()[0].lstrip(".")
    if ".ptr" in declaration or (kind == "u64" and all_pointers):
        return f"buffer:{BUFFER}:{number}"
    return SCALAR_KINDS.get(kind, "u32:{}").format(scalar)


def kernels(ptx: str) -> dict[str, tuple[str, list[str]]]:
    """Each kernel's block size and its parameters' declarations."""
    found = {}
    for name, declared, directives in re.findall(r"\.entry\s+([\w$]+)\s*\(([^)]*)\)([^{]*)\{", ptx):
        threads = re.search(r"\.(?:req|max)ntid\s+(\d+)", directives)
        parameters = re.findall(r"\.param\s+([^,]+)", declared)
        found[name] = (f"{min(int(threads[1]), 256) if threads else 64},1,1", parameters)
    return found


def outcome(check: Path, ptx: Path, kernel: str, unit: str) -> str:
    """The first arguments that the emulator can execute it with decide: with some, kernels leave
    their buffers or never end."""
    block, parameters = kernels(ptx.read_text())[kernel]
    said = ""
    for scalar, pointers in itertools.product(SCALARS, (True, False)):
        given = [argument(i, p, scalar, pointers) for i, p in enumerate(parameters)]
        command = [check, ptx, kernel, unit, "2,2,1", block, "16384", *given]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            said = said or f"does not end within {SECONDS} s"
            continue
        if done.returncode == 0:
            return "exact: " + done.stdout.splitlines()[0]
        said = done.stderr.strip() or f"leaves its buffers (signal {-done.returncode})"
        if "emulator does not know" in said:
            break
    return said


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--unit", choices=["lane", "warp"], default="lane")
    parser.add_argument("files", nargs="+", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        check = build(Path(place), "check")
        for source in given.files:
            ptx = ptx_of(source, Path(place))
            if ptx is None:
                print(f"nvcc does not compile {source}", file=sys.stderr)
                continue
            for kernel in kernels(ptx.read_text()):
                print(
                    f"{source.name}\t{kernel}\t{outcome(check, ptx, kernel, given.unit)}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
