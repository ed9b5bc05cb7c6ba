"""Where the native files of the package lie: libraries, programs and tools of the engines."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path


def native_file(name: str) -> Path:
    """Path of the native file `name`, whether it was built or not.

    Ask for files, not for folders: an editable installation spreads a folder over two places."""
    return Path(str(files("xpuprof") / "_native" / name))
