# SPDX-License-Identifier: Apache-2.0
"""Which files were written, and whether they were written again."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def written(folder: Path, pattern: str = "*") -> dict[Path, tuple[int, int]]:
    """The files below a folder that match, and what tells one from its successor; reading it does
    not change that. A file that goes meanwhile (a compiler's own, renamed when complete) is not
    among them."""
    found = {}
    for place, _, names in os.walk(folder):
        for file in (Path(place, name) for name in names):
            with suppress(FileNotFoundError):
                if file.match(pattern):
                    stat = file.stat()
                    found[file] = (stat.st_ino, stat.st_mtime_ns)
    return found
