# SPDX-License-Identifier: Apache-2.0
"""Temporary folders of a command. A killed command cannot remove its own; the next command does, if
the folder is ours and its process is gone."""

from __future__ import annotations

import os
import re
import stat
from typing import TYPE_CHECKING

from xpuprof.pids import namespace, started

if TYPE_CHECKING:
    import tempfile


def scratch() -> tempfile.TemporaryDirectory[str]:
    """A new folder among the temporary files. Its name states the process it belongs to."""
    import tempfile  # here and below: would lengthen the shell's completion of engines

    _collect(tempfile.gettempdir())
    pid = os.getpid()
    return tempfile.TemporaryDirectory(prefix=f"xpuprof-{namespace()}-{pid}-{started(pid)}-")


def _collect(folder: str) -> None:
    import shutil

    name = re.compile(rf"xpuprof-{namespace()}-(\d+)-(\d+)-\w+")
    with os.scandir(folder) as entries:
        for entry in entries:
            match = name.fullmatch(entry.name)
            if match and _is_ours(entry) and started(int(match[1])) != int(match[2]):
                shutil.rmtree(entry.path, ignore_errors=True)


def _is_ours(entry: os.DirEntry[str]) -> bool:
    try:
        status = entry.stat(follow_symlinks=False)
    except FileNotFoundError:  # another xpuprof has just removed it
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
