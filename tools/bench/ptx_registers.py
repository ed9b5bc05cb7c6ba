# SPDX-License-Identifier: Apache-2.0
"""Registers and spills of kernels before and after the PTX engine adds its counters.

    python tools/bench/ptx_registers.py [--unit lane] [--arch sm_80 ...] FILE...

Each FILE is PTX, or CUDA C++ that nvcc compiles for compute_80 first (with -I of its folder). ptxas
assembles every file as it is and with counters. Prints one Markdown row per file: kernels, blocks,
counters, and per architecture the registers of the kernel that needs most, before and after, and
the bytes spilled by all kernels. A file that nvcc does not compile is named and left out.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.support.ptx import build


@dataclass(frozen=True)
class Assembled:
    """What ptxas reports of a file: registers by kernel; bytes spilled."""

    registers: dict[str, int]
    spilled: int


def assemble(ptx: Path, arch: str) -> Assembled:
    """Raises CalledProcessError if ptxas refuses the file."""
    command = ["ptxas", "-v", f"-arch={arch}", str(ptx), "-o", "/dev/null"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{ptx}: {done.stderr or done.stdout}")
    report = done.stdout + done.stderr
    names = re.findall(r"Compiling entry function '([^']+)'", report)
    used = [int(n) for n in re.findall(r"Used (\d+) registers", report)]
    spilled = sum(map(int, re.findall(r"(\d+) bytes spill (?:stores|loads)", report)))
    return Assembled(dict(zip(names, used, strict=True)), spilled)


def ptx_of(source: Path, folder: Path) -> Path | None:
    """The file's PTX; None if nvcc refuses it."""
    if source.suffix == ".ptx":
        return source
    made = folder / f"{source.stem}.ptx"
    command = ["nvcc", "-arch=compute_80", "-ptx", "-w", f"-I{source.parent}"]
    done = subprocess.run([*command, str(source), "-o", str(made)], capture_output=True)
    return made if done.returncode == 0 else None


def row(rewriter: Path, ptx: Path, name: str, unit: str, archs: list[str]) -> str:
    """One line of the table."""
    done = subprocess.run([rewriter, ptx, unit], capture_output=True, text=True, check=True)
    kernels = [line.split("\t") for line in done.stderr.splitlines()]
    after = ptx.with_suffix(".counted.ptx")
    after.write_text(done.stdout)
    cells = [name, len(kernels), sum(int(k[1]) for k in kernels), sum(int(k[2]) for k in kernels)]
    cells.append(sum(bool(k[3]) for k in kernels))
    for arch in archs:
        old, new = assemble(ptx, arch), assemble(after, arch)
        most = max(old.registers, key=lambda k: new.registers[k], default="")
        if most:
            cells.append(f"{old.registers[most]} to {new.registers[most]}")
        else:
            cells.append("-")
        cells.append(f"{old.spilled} to {new.spilled}")
    return "| " + " | ".join(map(str, cells)) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--unit", choices=["lane", "warp"], default="lane")
    parser.add_argument("--arch", action="append", help="default: sm_80, sm_90, sm_100")
    parser.add_argument("files", nargs="+", type=Path)
    given = parser.parse_args()
    archs = given.arch or ["sm_80", "sm_90", "sm_100"]
    titles = ["program", "kernels", "blocks", "counters", "uncounted"]
    titles += [cell for arch in archs for cell in (f"registers, {arch}", "bytes spilled")]
    print("| " + " | ".join(titles) + " |\n" + "|---" * len(titles) + "|")
    with tempfile.TemporaryDirectory() as place:
        rewriter = build(Path(place), "rewrite_file")
        for source in given.files:
            folder = Path(place) / source.parent.name
            folder.mkdir(exist_ok=True)
            ptx = ptx_of(source, folder)
            name = f"{source.parent.name}/{source.name}"
            if ptx is None:
                print(f"nvcc does not compile {name}", file=sys.stderr)
            else:
                print(row(rewriter, ptx, name, given.unit, archs), flush=True)


if __name__ == "__main__":
    main()
