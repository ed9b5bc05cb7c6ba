# SPDX-License-Identifier: Apache-2.0
"""The run as a picture: slice times, clusters and representatives."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from xpuprof.errors import EngineError
from xpuprof.estimation.projection import rows_of
from xpuprof.estimation.typical_times import typical_times
from xpuprof.workflow.evaluate import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Distinct under the common colour vision deficiencies; further clusters repeat the colours.
_COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#555555"]


SUFFIXES = (".png", ".svg", ".pdf")
"""Formats of pictures."""


def draw(result: Result, target: Path) -> None:
    """Writes the picture; the suffix (.png, .svg, .pdf) sets the format.

    Raises EngineError when matplotlib is not installed.
    """
    figure = _figure(result)
    figure.savefig(target, dpi=150)


def _figure(result: Result) -> Figure:
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise EngineError(
            "pictures need matplotlib; install it with: pip install 'xpuprof[plot]'"
        ) from None
    selection, slices = result.selection, result.job.slices
    times = typical_times(result.times)
    index = np.arange(len(times))
    colours = [_COLOURS[label % len(_COLOURS)] for label in selection.labels]
    chosen = rows_of(selection)

    figure = Figure(figsize=(9, 6), layout="constrained")
    top, middle, bottom = figure.subplots(
        3, 1, sharex=True, gridspec_kw={"height_ratios": [3, 1, 1]}
    )
    top.scatter(index, times * 1e3, s=6, c=colours, linewidths=0)
    top.scatter(
        chosen,
        times[chosen] * 1e3,
        s=70,
        marker="D",
        facecolors=[colours[i] for i in chosen],
        edgecolors="black",
    )
    top.set_yscale("log")
    top.set_ylabel("slice time, ms")
    top.set_title(
        f"{len(times):,} slices in {selection.k} clusters, {len(chosen)} representatives "
        f"(diamonds); measured {result.measured:.3f} s, projected {result.estimate.value:.3f} s",
        loc="left",
    )
    for axis, column, name in (
        (middle, "cpu_instructions", "CPU instr."),
        (bottom, "gpu_instructions", "GPU instr."),
    ):
        values = np.asarray(slices[column], dtype=np.float64)
        axis.set_yscale("log", nonpositive="mask")  # no counts: nothing to draw
        axis.scatter(index, np.where(values > 0, values, np.nan), s=3, c=colours, linewidths=0)
        axis.set_ylabel(name)
    bottom.set_xlabel("slice (each ends with a kernel's end)")
    for axis in (top, middle, bottom):
        axis.spines[["top", "right"]].set_visible(False)
    return figure
