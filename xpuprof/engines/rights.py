# SPDX-License-Identifier: Apache-2.0
"""Programs that a CPU engine cannot start: those with privileges on exec (setuid, setgid,
capabilities), those that are executable but not readable, and what else an engine cannot follow."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Sequence


def startable(
    argv: Sequence[str], is_left_alone: Callable[[str], bool] = lambda path: False
) -> list[str]:
    """The command line, run by a shell if the program must be executed natively: the engine starts
    the shell, leaves the program alone and says so. `is_left_alone` tells of further programs that
    this engine does not follow."""
    path = shutil.which(argv[0])
    if path is None:
        return list(argv)
    if os.access(path, os.R_OK) and not _gives_rights(path) and not is_left_alone(path):
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
