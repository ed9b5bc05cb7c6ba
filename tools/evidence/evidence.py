# SPDX-License-Identifier: Apache-2.0
"""Runs public programs through every engine and every method, and writes one page of what came out.

    python tools/evidence/evidence.py [--only NAME,...] [--place build/evidence] [--page FILE]

Installs what the programs need (apt-get as root; packages from PyPI into an environment of its
own), measures one program after the other, and goes on where it stopped: a program with a record in
the folder is not measured again. Use an otherwise idle machine. `make evidence` does it all.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from tools.evidence.measure import measure
from tools.evidence.page import page
from tools.evidence.programs import PROGRAMS, Program

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
    given = options.parse_args()
    only = given.only.split(",") if given.only else [program.name for program in PROGRAMS]
    wanted = [program for program in PROGRAMS if program.name in only]
    if unknown := set(only) - {program.name for program in wanted}:
        sys.exit(f"no program {', '.join(sorted(unknown))} in tools/evidence/programs.py")
    place = given.place.resolve()
    place.mkdir(parents=True, exist_ok=True)
    python = install(wanted, place)
    records = []
    for program in wanted:
        file = place / program.name / "record.json"
        if not file.exists():
            print(f"{program.name} ...", file=sys.stderr, flush=True)
            record = measure(program, place / program.name, python)
            file.write_text(json.dumps(record, indent=1) + "\n")
        records.append(json.loads(file.read_text()))
    text = page(records)
    given.page.write_text(text) if given.page else print(text)


if __name__ == "__main__":
    main()
