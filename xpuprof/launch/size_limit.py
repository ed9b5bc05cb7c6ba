# SPDX-License-Identifier: Apache-2.0
"""Ends a recording when its traces reach the size that the user allows; the program goes on."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from xpuprof.launch.streams import in_thread
from xpuprof.trace.live import Live
from xpuprof.units import size

FULL = "full"
"""place.h: once this file is in the execution's folder, streams end before their next chunk."""
PERIOD = 0.1
"""Seconds between two looks."""


class SizeLimit:
    """Watches the traces of an execution; `most`: bytes."""

    def __init__(self, folder: Path, most: int) -> None:
        self._folder, self._most = folder, most

    @property
    def reached(self) -> bool:
        """Whether the recording was ended."""
        return (self._folder / FULL).exists()

    def sentences(self) -> list[str]:
        """Why the recording is not whole; empty if it is."""
        if not self.reached:
            return []
        return [
            f"the traces reached {size(self._most)}, so what the program did then is not "
            "recorded; allow more with --max-size, or record a part with --window"
        ]

    def _watch(self, over: threading.Event) -> None:
        live = Live(self._folder)
        while not over.wait(PERIOD):
            if live.bytes() >= self._most:
                (self._folder / FULL).touch()
                return


@contextmanager
def size_limit(folder: Path, most: int | None) -> Iterator[SizeLimit | None]:
    """Watches an execution that is about to start; `most` None: nothing to watch."""
    if most is None:
        yield None
        return
    found, over = SizeLimit(folder, most), threading.Event()
    thread = in_thread(found._watch, over)
    try:
        yield found
    finally:
        over.set()
        thread.join()
