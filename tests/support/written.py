# SPDX-License-Identifier: Apache-2.0
"""Which files were written, and whether they were written again."""

from __future__ import annotations

from pathlib import Path


def written(folder: Path, pattern: str = "*") -> dict[Path, tuple[int, int]]:
    """The files below a folder that match, and what tells one from its successor; reading it does
    not change that."""
    found = {file: file.stat() for file in folder.rglob(pattern)}
    return {file: (stat.st_ino, stat.st_mtime_ns) for file, stat in found.items()}
