# SPDX-License-Identifier: Apache-2.0
"""Numbers with units, as sentences and tables show them."""

from __future__ import annotations

import math


def seconds(value: float) -> str:
    """A time with three digits and a suitable unit."""
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if abs(value) * factor >= 1 or unit == "us":
            return f"{_three_digits(value * factor)} {unit}"
    raise AssertionError


def size(count: int) -> str:
    """A number of bytes with up to six digits and a decimal prefix."""
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 1000)):
        if count >= factor:
            return f"{count / factor:,.6g} {unit}"
    return f"{count} B"


def _three_digits(value: float) -> str:
    decimals = 2 - math.floor(math.log10(abs(value))) if value else 0
    return f"{value:,.{max(decimals, 0)}f}"
