# SPDX-License-Identifier: Apache-2.0
"""Programs that no CPU engine can start: those with privileges on exec (setuid, setgid,
capabilities), and those that are executable but not readable."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Sequence


def startable(argv: Sequence[str]) -> list[str]:
    """The command line, run by a shell if the program must be executed natively: the engine starts
    the shell, leaves the program alone and says so."""
    path = shutil.which(argv[0])
    if path is None or (os.access(path, os.R_OK) and not _gives_rights(path)):
        return list(argv)
    return ["/bin/sh", "-c", 'exec "$0" "$@"', *argv]


def _gives_rights(path: str) -> bool:
    mode = os.stat(path).st_mode
    if mode & stat.S_ISUID or (mode & stat.S_ISGID and mode & stat.S_IXGRP):
        return True
    try:
        return bool(os.getxattr(path, "security.capability"))
    except OSError:
        return False
