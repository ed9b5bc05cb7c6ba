# SPDX-License-Identifier: Apache-2.0
"""Marks windows of a Python program for xpuprof: `xpuprof run --window @NAME -- python app.py`.

    import xpuprof

    with xpuprof.window("solve"):
        ...

A no-op unless the program runs under xpuprof. This file imports only the standard library, so a
program may carry a copy of it where xpuprof is not installed.
"""

from __future__ import annotations

import os
from typing import Any

_runtime: Any = None
_resolved = False


def _library() -> Any:
    """libxpuprof_rt, which the launcher names; None outside xpuprof."""
    global _runtime, _resolved
    if not _resolved:
        _resolved = True
        path = os.environ.get("XPUPROF_RUNTIME")
        if path:
            import ctypes

            try:
                _runtime = ctypes.CDLL(path)
            except OSError:
                _runtime = None
    return _runtime


def begin(name: str) -> None:
    """Opens the window `name`."""
    if (library := _library()) is not None:
        library.xpu_window_begin(name.encode())


def end(name: str) -> None:
    """Closes the window `name`."""
    if (library := _library()) is not None:
        library.xpu_window_end(name.encode())


class window:
    """A window around a block: `with window("solve"): ...`."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> window:
        begin(self.name)
        return self

    def __exit__(self, *_: object) -> None:
        end(self.name)
