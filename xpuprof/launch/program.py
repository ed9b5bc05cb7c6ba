# SPDX-License-Identifier: Apache-2.0
"""Finds the user's program before any other work, so that a wrong command costs nothing."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Sequence

from xpuprof.engines.scripts import LONGEST_LINE, MOST_SCRIPTS, interpreter_in
from xpuprof.errors import UsageError

_SHELL = re.compile(r"[|&;<>()$`*?]")
_VARIABLE = re.compile(r"[A-Za-z_]\w*=")


def resolve(command: Sequence[str]) -> list[str]:
    """The command with its program as an executable path.

    Raises UsageError: no command, not found, a folder, not executable, an unknown format.
    """
    if not command:
        raise UsageError("no program was given; put it after --, as in: -- ./app args")
    name = command[0]
    if not name:
        raise UsageError("the program's name is empty; is a shell variable unset?")
    if "/" in name:
        path: str | None = name
        if not os.path.exists(name):
            raise UsageError(f"{name} does not exist; check the path of the program")
    else:
        path = shutil.which(name) or (name if os.path.isdir(name) else None)
        if path is None:
            raise UsageError(_not_found(command))
    assert path is not None
    if os.path.isdir(path):
        raise UsageError(f"{path} is a folder; name the program in it")
    if not os.access(path, os.X_OK):
        raise UsageError(
            f"{path} is not executable; run chmod +x {shlex.quote(path)}, or name its interpreter "
            "first"
        )
    _check_format(path)
    return [path, *command[1:]]


def _not_found(command: Sequence[str]) -> str:
    """Why the first word is no program, and what was probably meant."""
    name, words = command[0], command[0].split()
    if _SHELL.search(name):
        return f"{name} needs a shell; give it one, as in: -- sh -c {shlex.quote(name)}"
    if len(words) > 1 and shutil.which(words[0]):
        return f"{name} is one word; give it without quotes, as in: -- {name}"
    if _VARIABLE.match(name):
        line = shlex.join(["env", *command])
        return f"{name} is not a program; set variables with env, as in: -- {line}"
    own = shlex.quote(f"./{name}")
    return f"{name} is not on PATH; give its path, as in: -- {own}"


def _check_format(path: str) -> None:
    asked = path
    for _ in range(MOST_SCRIPTS + 1):
        try:
            with open(path, "rb") as file:
                start = file.read(LONGEST_LINE)
        except OSError:
            return  # executable but not readable: the kernel decides
        if start[:4] == b"\x7fELF":
            return
        words = interpreter_in(start)
        if not words:
            raise UsageError(
                f"{path} is neither a program nor a script with a #! line; name its interpreter "
                f"first, as in: -- sh {shlex.quote(path)}"
            )
        if not os.path.exists(words[0]):
            raise UsageError(f"{path} needs {words[0]}, which does not exist; correct its #! line")
        path = words[0]
    raise UsageError(f"{asked} needs more than {MOST_SCRIPTS} interpreters; correct its #! line")
