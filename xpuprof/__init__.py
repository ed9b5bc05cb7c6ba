"""Representative, weighted, validated slices of CPU-GPU programs.

>>> import xpuprof
>>> run = xpuprof.open("RUN")
>>> run.status, run.profile.processes[0].slices  # doctest: +SKIP
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from xpuprof.trace.run import Run

__version__ = "0.1.0"


def open(path: str | Path) -> Run:
    """Opens a run directory: `.manifest`, `.status`, `.profile`, `.times`, tables as pandas.

    Raises errors.TraceError when it is missing, foreign, damaged or too new.
    """
    from xpuprof.trace.run import Run  # loaded here: importing xpuprof stays cheap

    return Run.open(path)
