# SPDX-License-Identifier: Apache-2.0
"""Modules that are loaded while the instrumented program runs, which nobody times: pandas and SciPy
take longer than many a program."""

from __future__ import annotations

import importlib
from contextlib import suppress
from threading import Thread

from xpuprof.launch.streams import in_thread


class Loading:
    """Loads modules in a thread of its own, from `start` on."""

    def __init__(self, *modules: str) -> None:
        self._modules = modules
        self._thread: Thread | None = None

    def start(self) -> None:
        """Begins. Without a further thread they are loaded where they are needed."""
        with suppress(OSError):
            self._thread = in_thread(self._load)

    def wait(self) -> None:
        """Returns when they are loaded, at once if that never began: native runs are not disturbed
        by it."""
        if self._thread is not None:
            self._thread.join()

    def _load(self) -> None:
        # A module that cannot be loaded says so where it is needed.
        with suppress(Exception):
            for name in self._modules:
                importlib.import_module(name)
