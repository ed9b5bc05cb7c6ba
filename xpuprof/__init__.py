# SPDX-License-Identifier: Apache-2.0
"""Representative, weighted, validated slices of CPU-GPU programs.

>>> import xpuprof
>>> run = xpuprof.open("RUN")  # doctest: +SKIP
>>> run.kernels  # doctest: +SKIP
>>> selection = run.select("stem-root", epsilon=0.02)  # doctest: +SKIP
>>> run.estimate(selection)  # doctest: +SKIP

`profile`, `time`, `run` and `validate` execute a program like the commands of the same names.
Everything is imported on first use: `import xpuprof` itself costs next to nothing, so a program may
use `xpuprof.window` freely.
"""

TYPE_CHECKING = False  # without typing: nothing is imported before __main__ handles Ctrl-C
if TYPE_CHECKING:
    from xpuprof.engines.filters import Filters
    from xpuprof.engines.native import include
    from xpuprof.errors import XpuprofError
    from xpuprof.estimation.estimate import Estimate
    from xpuprof.marker import window
    from xpuprof.methods.pkp import PrincipalKernelProjection
    from xpuprof.selection.design import Design
    from xpuprof.selection.identity import Identity
    from xpuprof.selection.results import RunSummary, Scores
    from xpuprof.selection.selection import Marker, Representative, Selection
    from xpuprof.version import __version__
    from xpuprof.workflow.compare import compare
    from xpuprof.workflow.export import export
    from xpuprof.workflow.imports import import_
    from xpuprof.workflow.opened import Run, open
    from xpuprof.workflow.profile import profile
    from xpuprof.workflow.run import run
    from xpuprof.workflow.time import time
    from xpuprof.workflow.validate import validate

__all__ = [
    "Design",
    "Estimate",
    "Filters",
    "Identity",
    "Marker",
    "PrincipalKernelProjection",
    "Representative",
    "Run",
    "RunSummary",
    "Scores",
    "Selection",
    "XpuprofError",
    "__version__",
    "compare",
    "export",
    "import_",
    "include",
    "open",
    "profile",
    "run",
    "time",
    "validate",
    "window",
]

_HOMES = {
    "Design": "selection.design",
    "Estimate": "estimation.estimate",
    "Filters": "engines.filters",
    "Identity": "selection.identity",
    "Marker": "selection.selection",
    "PrincipalKernelProjection": "methods.pkp",
    "Representative": "selection.selection",
    "Run": "workflow.opened",
    "RunSummary": "selection.results",
    "Scores": "selection.results",
    "Selection": "selection.selection",
    "XpuprofError": "errors",
    "__version__": "version",
    "compare": "workflow.compare",
    "export": "workflow.export",
    "import_": "workflow.imports",
    "include": "engines.native",
    "open": "workflow.opened",
    "profile": "workflow.profile",
    "run": "workflow.run",
    "time": "workflow.time",
    "validate": "workflow.validate",
    "window": "marker",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'xpuprof' has no attribute {name!r}")
    import importlib

    found: object = getattr(importlib.import_module(f"xpuprof.{_HOMES[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
