"""Representative, weighted, validated slices of CPU-GPU programs.

>>> import xpuprof
>>> run = xpuprof.open("RUN")
>>> run.status, run.profile.processes[0].slices  # doctest: +SKIP
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xpuprof.marker import window
from xpuprof.version import __version__

if TYPE_CHECKING:
    from pathlib import Path

    from xpuprof.trace.run import Run

__all__ = ["__version__", "include", "open", "window"]


def open(path: str | Path) -> Run:
    """Opens a run directory: `.manifest`, `.status`, `.profile`, `.times`, tables as pandas.

    Raises errors.TraceError when it is missing, foreign, damaged or too new.
    """
    from xpuprof.trace.run import Run  # loaded here: importing xpuprof stays cheap

    return Run.open(path)


def include() -> str:
    """The folder to give a C or C++ compiler (-I) for `#include <xpuprof/marker.h>`."""
    from xpuprof.engines.native import native_file

    return str(native_file("include/xpuprof/marker.h").parent.parent)
