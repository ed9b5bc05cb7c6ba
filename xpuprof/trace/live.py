# SPDX-License-Identifier: Apache-2.0
"""How far an execution has got, while it is recorded."""

from __future__ import annotations

import os
from pathlib import Path

from xpuprof._bridge import ffi, lib
from xpuprof.trace.layout import EVENTS
from xpuprof.trace.streams import FILES


class Live:
    """The streams of an execution's folder, read by the headers of their chunks."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._offsets: dict[Path, object] = {}
        self._launches: dict[Path, int] = {}

    def launches(self) -> int:
        """Launches recorded so far, of all processes."""
        for path in self._folder.glob(f"*/{FILES[EVENTS]}"):
            offset = self._offsets.setdefault(path, ffi.new("uint64_t *"))
            seen = int(lib.xp_stream_progress(os.fsencode(path), offset))
            self._launches[path] = max(seen, self._launches.get(path, 0))
        return sum(self._launches.values())

    def bytes(self) -> int:
        """Bytes of its streams on disk."""
        return sum(file.stat().st_blocks * 512 for file in self._folder.glob("*/*.xpt"))
