# SPDX-License-Identifier: Apache-2.0
"""Finds the user's program before any other work, so that a wrong command costs nothing."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Sequence

from xpuprof.errors import UsageError


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
        path = shutil.which(name)
        if path is None:
            own = shlex.quote(f"./{name}")
            raise UsageError(f"{name} is not on PATH; give its path, as in: -- {own}")
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


def _check_format(path: str) -> None:
    try:
        with open(path, "rb") as file:
            start = file.read(4)
    except OSError:
        return  # executable but not readable: the kernel decides
    if start[:2] != b"#!" and start != b"\x7fELF":
        raise UsageError(
            f"{path} is neither a program nor a script with a #! line; name its interpreter first, "
            f"as in: -- sh {shlex.quote(path)}"
        )
