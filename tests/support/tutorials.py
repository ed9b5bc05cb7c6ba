# SPDX-License-Identifier: Apache-2.0
"""The tutorials of the documentation: their commands, run in order, against the output they show.

A block titled with a name is a file. A block `console` holds commands, each after `$ `, with their
output. Numbers, the order of a table's rows and how many are alike depend on the machine, so they
are not compared; neither are xpuprof's notes, except for those that the page shows. A line `...`
stands for lines left out.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from tests.support.paths import ROOT
from tests.support.run import TIMEOUT
from xpuprof.engines.native import native_file

TUTORIALS = ROOT / "docs" / "tutorials"
PROGRAM = native_file("demo/particles")
CUT, NOTE = "...", "xpuprof: "

_BLOCK = re.compile(r"^```(?P<head>[^\n]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
_TITLE = re.compile(r'title="([^"]+)"')
_NUMBER = re.compile(
    r"(?<![\w.])[-+]?\d[\d,]*(\.\d+)?(e[-+]?\d+)?( ?(ns|us|ms|s|min|x|%|[KMG]?B)(?!\w))?"
)
_DOUBT = re.compile(r" *UNRELIABLE$|, too wide to be of use$|^unreliable .*\n", re.MULTILINE)
"""What a noisy machine adds."""

Item = str | frozenset[str]
"""A line, or the different rows of a table."""


@dataclass(frozen=True)
class Step:
    """A command and the output that the page shows."""

    command: str
    shown: str

    @property
    def text(self) -> str:
        """The lines of the page."""
        return f"$ {self.command}\n{self.shown}"


def pages() -> list[Path]:
    """The tutorials that have commands."""
    return [path for path in sorted(TUTORIALS.glob("*.md")) if "```console" in path.read_text()]


def perform(page: Path, folder: Path) -> Iterator[tuple[Step, str]]:
    """Do what the page says in `folder`; each command with its real output."""
    (folder / PROGRAM.name).symlink_to(PROGRAM)
    for block in _BLOCK.finditer(page.read_text(encoding="utf-8")):
        if title := _TITLE.search(block["head"]):
            (folder / title[1]).write_text(block["body"], encoding="utf-8")
        elif block["head"] == "console":
            for step in _steps(block["body"]):
                yield step, _output(step.command, folder)


def alike(shown: str, real: str) -> bool:
    """Whether the page shows this output, up to what depends on the machine."""
    shown_notes, real_notes = _notes(shown), _notes(real)
    return set(shown_notes) <= set(real_notes) and _match(_items(shown), _items(real))


def rewrite(page: Path, folder: Path) -> list[Step]:
    """Replace the output that the page shows by the real one. Returns those that the page cuts and
    whose words have changed, with the real output: they have to be cut again."""
    text = page.read_text(encoding="utf-8")
    left = []
    for step, real in perform(page, folder):
        if CUT not in step.shown.splitlines():
            text = text.replace(step.text, replace(step, shown=real).text)
        elif not alike(step.shown, real):
            left.append(replace(step, shown=real))
    page.write_text(text, encoding="utf-8")
    return left


def _steps(body: str) -> Iterator[Step]:
    for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        yield Step(command, shown)


def _output(command: str, folder: Path) -> str:
    """What it prints where no kit is, as on the reader's machine."""
    kits = ("DYNAMORIO_HOME", "PIN_ROOT", "NVBIT_ROOT", "GTPIN_ROOT")
    environment = {name: value for name, value in os.environ.items() if name not in kits}
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env={**environment, "PATH": path},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT,
    )
    assert done.returncode == 0, f"{command}: exit code {done.returncode}\n{done.stdout}"
    return done.stdout


def _masked(text: str) -> list[str]:
    lines = _DOUBT.sub("", text.rstrip() + "\n").splitlines()
    return [" ".join(_NUMBER.sub("#", line).split()) for line in lines]


def _notes(text: str) -> list[str]:
    return [line for line in _masked(text) if line.startswith(NOTE)]


def _items(text: str) -> list[Item]:
    lines = [line for line in _masked(text) if not line.startswith(NOTE)]
    items: list[Item] = []
    while lines:
        line = lines.pop(0)
        if set(line) != {"-", " "} and set(line) != {"-"}:
            items.append(line)
            continue
        end = lines.index("") if "" in lines else len(lines)
        items.append(frozenset(lines[:end]))
        lines = lines[end:]
    return items


def _match(shown: list[Item], real: list[Item]) -> bool:
    if not shown:
        return not real
    if shown[0] == CUT:
        return any(_match(shown[1:], real[skipped:]) for skipped in range(len(real) + 1))
    return bool(real) and _same(shown[0], real[0]) and _match(shown[1:], real[1:])


def _same(shown: Item, real: Item) -> bool:
    if isinstance(shown, str) or isinstance(real, str):
        return shown == real
    return shown - {CUT} <= real if CUT in shown else shown == real
