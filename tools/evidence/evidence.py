# SPDX-License-Identifier: Apache-2.0
"""Runs public programs through every engine and every method, and writes one page of what came out.

    python tools/evidence/evidence.py [--only NAME,...] [--place build/evidence] [--page FILE]

Installs what the programs need (apt-get as root; packages from PyPI into an environment of its
own), measures one program after the other, and goes on where it stopped: a step in a program's
record is not measured again (remove the program's folder to do so), and a CPU engine that was
added since is measured in addition. FILE is Markdown; an HTML page beside it also leads to the
report of each run. Use an otherwise idle machine. `make evidence` does it all.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from tools.evidence.measure import cpu_engines, measure
from tools.evidence.page import html, page
from tools.evidence.programs import LEFT_OUT, PROGRAMS, Program

ROOT = Path(__file__).parents[2]


def install(programs: Sequence[Program], place: Path) -> Path:
    """Installs packages, and returns the interpreter for programs in Python."""
    debian = sorted({package for program in programs for package in program.apt})
    known = subprocess.run(["dpkg", "-s", *debian], capture_output=True) if debian else None
    if known and known.returncode:
        root = [] if os.geteuid() == 0 else ["sudo"]
        subprocess.run([*root, "apt-get", "install", "-y", "-q", *debian], check=True)
    python = place / "venv" / "bin" / "python"
    if not python.exists():
        venv.create(place / "venv", with_pip=True)
    packages = sorted({package for program in programs for package in program.pip})
    if packages:
        subprocess.run([python, "-m", "pip", "install", "-q", *packages], check=True)
    return python


def main() -> None:
    """Installs, measures what has no record yet, and writes the page."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--only", help="names of programs, separated by commas")
    options.add_argument("--place", type=Path, default=ROOT / "build" / "evidence")
    options.add_argument("--page", type=Path, help="the Markdown file to write")
    options.add_argument("--note", default="", help="a sentence about this machine for the page")
    given = options.parse_args()
    only = given.only.split(",") if given.only else [program.name for program in PROGRAMS]
    wanted = [program for program in PROGRAMS if program.name in only]
    if unknown := set(only) - {program.name for program in wanted}:
        sys.exit(f"no program {', '.join(sorted(unknown))} in tools/evidence/programs.py")
    place = given.place.resolve()
    place.mkdir(parents=True, exist_ok=True)
    python = install(wanted, place)
    engines = cpu_engines()
    records = [measure(program, place / program.name, python, engines) for program in wanted]
    remarks = {program.name: program.remark for program in wanted if program.remark} | LEFT_OUT
    text = page(records, remarks, given.note)
    if given.page is None:
        print(text)
    else:
        given.page.write_text(text)
        given.page.with_suffix(".html").write_text(html(text, records, place, given.page.parent))


if __name__ == "__main__":
    main()
