# SPDX-License-Identifier: Apache-2.0
"""Plain text for the terminal: aligned tables and numbers with units."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence

from xpuprof.estimation.typical_times import ENOUGH_FOR_MEDIAN
from xpuprof.report.kernel_names import shorten
from xpuprof.trace.coordinates import EXIT_KERNEL, NO_KERNELS
from xpuprof.units import seconds


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], right: str = "") -> str:
    """Aligned columns. `right` has one letter per column: r aligns right, any other left."""
    rows = [[printable(cell) for cell in row] for row in rows]
    columns = list(zip(headers, *rows, strict=True)) if rows else [(h,) for h in headers]
    widths = [max(map(width_of, column)) for column in columns]

    def line(cells: Sequence[str]) -> str:
        gaps = (" " * (width - width_of(cell)) for cell, width in zip(cells, widths, strict=True))
        padded = (
            gap + cell if right[i : i + 1] == "r" else cell + gap
            for i, (cell, gap) in enumerate(zip(cells, gaps, strict=True))
        )
        return "  ".join(padded).rstrip()

    return "\n".join([line(headers), line(["-" * w for w in widths]), *map(line, rows)])


def width_of(text: str) -> int:
    """Columns that a terminal takes for `text`: two for a wide East Asian character, none for one
    that is combined with the character before it."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(unicodedata.combining(c) > 0 for c in text)


def printable(text: str) -> str:
    """`text` with escapes in place of control characters, which a kernel's name may hold."""
    if text.isprintable():
        return text
    escaped = (c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return "".join(escaped)


LEGEND = (
    "Each row is a representative, the slice that ends with that call of the kernel. Its time, or",
    "any other count, times its multiplier is its share of the whole.",
)
"""What a table of representatives says."""


def factor(value: float) -> str:
    """A multiplier or speedup: up to two decimals."""
    return f"{value:,.2f}".rstrip("0").rstrip(".")


def times_less(value: float) -> str:
    """How many times less is measured: `2.3x`; empty if what is measured takes no time."""
    return f"{value:,.1f}x" if math.isfinite(value) else ""


def amount(value: float, metric: str) -> str:
    """A time, or an amount of another metric: `1,200 cycles`."""
    return seconds(value) if metric.endswith("time") else f"{figure(value)} {metric}"


def figure(value: float) -> str:
    """A number of any size: six digits, or a whole number with thousands separators."""
    return f"{value:,.0f}" if 1e6 <= abs(value) < 1e15 else f"{value:,.6g}"


def count(value: int) -> str:
    """A count with thousands separators."""
    return f"{value:,}"


def number_of(value: int, noun: str) -> str:
    """`1 slice`, `2,000 slices`, `2 processes`, `2 launches`."""
    plural = noun + ("es" if noun.endswith(("s", "ch")) else "s")
    return f"{count(value)} {noun if value == 1 else plural}"


def times(value: int) -> str:
    """`once`, `3 times`."""
    return "once" if value == 1 else f"{count(value)} times"


def of_runs(runs: int) -> str:
    """How a typical time was taken from native runs: `median of 5 native runs`."""
    if runs == 1:
        return "one native run"
    return f"{'mean' if runs < ENOUGH_FOR_MEDIAN else 'median'} of {runs} native runs"


def percent(fraction: float) -> str:
    """A fraction as a percentage; a value that rounds to 0 has no sign."""
    return f"{round(100 * fraction, 2) + 0.0:.2f} %"


def marker(kernel: str, call: int) -> tuple[str, str]:
    """A slice's end for two columns: the kernel and its call, or what else ends it."""
    if kernel == EXIT_KERNEL:
        return NO_KERNELS[kernel], ""
    return NO_KERNELS.get(kernel) or shorten(kernel), f"{call:,}"
