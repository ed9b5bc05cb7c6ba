# SPDX-License-Identifier: Apache-2.0
"""Instructions of every launch as the OpenCL engine counts them, against an interpreter's.

    python tools/bench/oclgrind.py [PROGRAM ...]

Runs programs of tests/support/oclgrind.py under the engine, on Oclgrind with the code that the
engine instruments, and on Oclgrind with the code that it compiles itself (-Oz). Prints a
table with a row for each kernel.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.support.oclgrind import PROGRAMS, Launch, counted, interpreted

GLOBAL, LOCAL = ("LOAD_GLOBAL", "STORE_GLOBAL"), ("LOAD_LOCAL", "STORE_LOCAL")


def total(launches: list[Launch], kernel: str) -> Counter[str]:
    """Instructions of all launches of a kernel, by class."""
    return sum((each.mix for each in launches if each.kernel == kernel), Counter())


def accesses(mix: Counter[str], classes: tuple[str, ...]) -> str:
    """Loads and stores."""
    return " / ".join(f"{mix[kind]:,}" for kind in classes)


def rows(name: str, folder: Path) -> None:
    """Prints the rows of a program."""
    ours = counted(PROGRAMS[name], folder)
    same = interpreted(PROGRAMS[name], folder)
    own = interpreted(PROGRAMS[name], folder, own=True)
    equal = Counter(a.kernel for a, b in zip(ours, same, strict=True) if a == b)
    for kernel, launches in Counter(each.kernel for each in ours).items():
        mix, theirs = total(ours, kernel), total(own, kernel)
        print(
            f"| {name} | {kernel} | {launches} | {equal[kernel]} | {sum(mix.values()):,} "
            f"| {accesses(mix, GLOBAL)} | {accesses(mix, LOCAL)} | {mix['ATOMIC']:,} "
            f"| {mix['BARRIER']:,} | {sum(theirs.values()):,} | {accesses(theirs, GLOBAL)} |",
            flush=True,
        )


def main() -> None:
    """Every program in a folder of its own."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("programs", nargs="*", metavar="PROGRAM")
    programs = parser.parse_args().programs or PROGRAMS
    if unknown := set(programs) - set(PROGRAMS):
        parser.error(f"no program {', '.join(unknown)}; there are {', '.join(PROGRAMS)}")
    print(
        "| program | kernel | launches | equal | instructions | global loads / stores "
        "| local loads / stores | atomics | barriers | -Oz: instructions | global loads / stores |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for name in programs:
        with tempfile.TemporaryDirectory() as folder:
            rows(name, Path(folder))


if __name__ == "__main__":
    main()
