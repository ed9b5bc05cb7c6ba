# SPDX-License-Identifier: Apache-2.0
"""Units of time, and those that names of columns and metrics tell."""

from __future__ import annotations

import re

TIME_UNITS = {
    "s": 1.0,
    "sec": 1.0,
    "second": 1.0,
    "seconds": 1.0,
    "ms": 1e-3,
    "msec": 1e-3,
    "msecond": 1e-3,
    "millisecond": 1e-3,
    "milliseconds": 1e-3,
    "us": 1e-6,
    "usec": 1e-6,
    "usecond": 1e-6,
    "microsecond": 1e-6,
    "microseconds": 1e-6,
    "µs": 1e-6,
    "ns": 1e-9,
    "nsec": 1e-9,
    "nsecond": 1e-9,
    "nanosecond": 1e-9,
    "nanoseconds": 1e-9,
}
"""Factor to seconds."""


def words_of(name: str) -> list[str]:
    """`DurationNs`, `duration_ns` and `Duration (ns)` are duration and ns."""
    return re.findall(r"[a-zµ0-9]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower())


def unit_of(name: str) -> str:
    """The unit of time at the end of a column's name; may be empty."""
    *before, last = words_of(name) or [""]
    return last if before and last in TIME_UNITS else ""
