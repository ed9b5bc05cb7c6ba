# SPDX-License-Identifier: Apache-2.0
"""Imports allowed at the start of the command line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import BashComplete

import xpuprof.cli
from tests.support.run import python
from xpuprof.cli import cli
from xpuprof.cli.group import COMMANDS

HEAVY = {"numpy", "pandas", "scipy", "sklearn", "distributed", "xpuprof._bridge", "xpuprof._select"}
LATE = {"subprocess", "socket", "tempfile", "hashlib", "gzip", "pkgutil"}
"""Modules that a shell's completion need not load."""
SCRIPT = Path(sys.executable).with_name("xpuprof")


def imported(*arguments: str, **environment: str) -> set[str]:
    """The heavy and late modules that a command line imported."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", SCRIPT, *arguments],
        capture_output=True,
        text=True,
        env=os.environ | environment,
        check=True,
    )
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    assert len(lines) > 20, done.stderr
    return (HEAVY | LATE) & {line.rpartition("|")[2].strip() for line in lines}


def test_every_command_is_listed_and_found() -> None:
    """GIVEN the table of commands THEN it names exactly the modules that declare one."""
    files = Path(xpuprof.cli.__file__).parent.glob("*.py")
    declared = {file.stem.rstrip("_") for file in files if "@click.command(" in file.read_text()}
    assert set(COMMANDS) == declared


def test_help_and_version_are_light() -> None:
    """GIVEN --help or --version THEN no heavy module is loaded."""
    assert imported("--help") == set()
    assert imported("--version") == set()


def test_help_of_a_command_is_light() -> None:
    """GIVEN a command's --help THEN no numerical library is loaded."""
    script = (
        "import sys\n"
        "from click.testing import CliRunner\n"
        "from xpuprof.cli import cli\n"
        "from xpuprof.cli.group import COMMANDS\n"
        "for name in COMMANDS:\n"
        "    assert CliRunner().invoke(cli, [name, '--help']).exit_code == 0, name\n"
        f"    assert not {HEAVY!r} & set(sys.modules), name\n"
    )
    python(script)


STARTS = """
import sys
from click.testing import CliRunner
from xpuprof.cli import cli
from xpuprof.launch.start import Start

def note():
    told.append(" ".join(sorted({"pandas", "scipy", "sklearn"} & set(sys.modules))))

def noted(own):
    note()
    go(own)

told, go, Start.go = [], Start.go, noted
done = CliRunner().invoke(cli, [*sys.argv[1:], "--gpu", "none", "--", "true"])
assert done.exit_code == 0, done.output
note()
print(*told, sep=",")
"""
"""Prints which of these libraries are loaded at each start of the program, and at the end."""


@pytest.mark.parametrize(
    ("command", "at_starts", "at_end"),
    [
        ("profile", {0: ""}, ""),
        ("time", {0: "", 4: ""}, ""),
        ("run", {0: "", 1: "", 2: "pandas scipy"}, "pandas scipy"),
    ],
)
def test_programs_do_not_wait_for_pandas(
    tmp_path: Path, command: str, at_starts: dict[int, str], at_end: str
) -> None:
    """GIVEN a command that executes a program THEN libraries for tables and reports are loaded
    afterwards, or not at all; `run` loads them during the profile, its second execution."""
    *starts, end = python(STARTS, command, "-o", tmp_path / "run").strip().split(",")
    assert {at: starts[at] for at in at_starts} == at_starts
    assert end == at_end


@pytest.mark.parametrize(
    ("words", "start", "completed"),
    [
        ("select R --method", "stem", "stem-root"),
        ("compare R --methods", "pka,ran", "pka,random"),
        ("profile --cpu", "va", "valgrind"),
        ("profile --gpu", "ope", "opencl"),
        ("export R --format", "per", "perfetto"),
        ("import F --format", "ns", "nsys"),
        ("help", "sel", "select"),
    ],
)
def test_values_are_completed(words: str, start: str, completed: str) -> None:
    """GIVEN the start of a method, engine, format or command THEN the shell completes it."""
    shell = BashComplete(cli, {}, "xpuprof", "_XPUPROF_COMPLETE")
    assert completed in [item.value for item in shell.get_completions(words.split(), start)]


@pytest.mark.parametrize(
    "words",
    [
        "xpuprof ",
        "xpuprof run --",
        "xpuprof select --method s",
        "xpuprof export --format l",
        "xpuprof import --format n",
        "xpuprof run --cpu v",
        "xpuprof profile --gpu o",
    ],
)
def test_completion_is_light(words: str) -> None:
    """GIVEN the start of a command, option, method, format or engine WHEN the shell completes it
    THEN no heavy module is loaded."""
    place = str(len(words.split(" ")) - 1)
    environment = {"COMP_WORDS": words, "COMP_CWORD": place}
    assert imported(_XPUPROF_COMPLETE="bash_complete", **environment) == set()
