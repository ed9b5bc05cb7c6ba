# SPDX-License-Identifier: Apache-2.0
"""Output of `xpuprof import`."""

from __future__ import annotations

from collections.abc import Sequence

from xpuprof.report.text import number_of
from xpuprof.units import seconds
from xpuprof.workflow.imports import Imported, Refused

SHOWN = 12
"""Metrics named in the text; --json names all."""


def as_json(results: Sequence[Imported | Refused]) -> dict[str, object]:
    """The object that `xpuprof import --json` prints: the run, or all of several."""
    runs = [_run_json(each) for each in results if isinstance(each, Imported)]
    failed = [vars(each) for each in results if isinstance(each, Refused)]
    return runs[0] if len(runs) == 1 and not failed else {"runs": runs, "failed": failed}


def as_text(made: Sequence[Imported]) -> str:
    """Two lines per run directory."""
    return "\n".join(line for each in made for line in _lines(each))


def _lines(each: Imported) -> list[str]:
    total = "" if each.kernel_time is None else f", {seconds(each.kernel_time)} of kernels"
    more = f" and {len(each.metrics) - SHOWN} more" * (len(each.metrics) > SHOWN)
    return [
        f"{each.run}: {number_of(each.slices, 'slice')} from {each.format}{total}",
        f"metrics: {', '.join(each.metrics[:SHOWN]) or 'none'}{more}",
    ]


def _run_json(each: Imported) -> dict[str, object]:
    return {
        "run": each.run,
        "format": each.format,
        "slices": each.slices,
        "metrics": each.metrics,
        "vectors": each.vectors,
    }
