# SPDX-License-Identifier: Apache-2.0
"""What engines keep for later runs, in the user's cache folder."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def cache_folder(name: str) -> Path:
    """`name` below ${XDG_CACHE_HOME:-~/.cache}/xpuprof; it may not exist."""
    cache = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(cache) if cache.startswith("/") else Path.home() / ".cache"
    return base / "xpuprof" / name


def limited_folder(name: str, limit: int) -> Path | None:
    """The folder, made where it is missing. Files in its folders are removed, those used least
    recently first, until the others take at most `limit` bytes. None: nothing can be kept there."""
    try:
        folder = cache_folder(name)
        if not folder.is_absolute() or os.environ.get("HOME") == "":
            return None
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        own = folder.stat()
        if own.st_uid != os.geteuid() or own.st_mode & 0o022:
            return None  # others could write what the engine would execute
    except (OSError, RuntimeError):
        return None
    known = [(file, status) for file in folder.glob("*/*") if (status := _status(file))]
    size = sum(status.st_size for _, status in known)
    for file, status in sorted(known, key=lambda entry: entry[1].st_mtime_ns):
        if size <= limit:
            break
        with suppress(OSError):  # another process removes files, too
            file.unlink()
        size -= status.st_size
    return folder


def _status(file: Path) -> os.stat_result | None:
    with suppress(OSError):
        return file.stat()
    return None
