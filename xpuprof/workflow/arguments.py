# SPDX-License-Identifier: Apache-2.0
"""Checks of arguments that the command line checks as well, for callers of the API."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from pathlib import Path
from typing import Literal

from xpuprof.errors import UsageError

LARGEST_SEED = 2**32 - 1

Processes = Literal["job", "each"]
"""For several processes: clusters over all of them, or one selection per process."""


def whole_number(name: str, value: object, low: int, high: int | None = None) -> None:
    """Raises UsageError unless `value` is a whole number from `low` to `high`."""
    if isinstance(value, Integral):
        number = int(value)
        if low <= number and (high is None or number <= high):
            return
    upper = "" if high is None else f" to {high}"
    raise UsageError(f"{name} takes a whole number from {low}{upper}, not {value!r}")


def fraction(name: str, value: float) -> None:
    """Raises UsageError unless `value` lies between 0 and 1."""
    if not 0.0 < value < 1.0:
        raise UsageError(f"{name} takes a fraction between 0 and 1 (0.05 is 5 %), not {value:g}")


def one_of(name: str, value: object, choices: Sequence[str]) -> None:
    """Raises UsageError unless `value` is one of `choices`."""
    if value not in choices:
        raise UsageError(f"{name} takes one of {', '.join(choices)}, not {value!r}")


def each_once(what: str, values: Sequence[object]) -> None:
    """Raises UsageError if a value occurs twice."""
    for number, value in enumerate(values):
        if value in values[:number]:
            raise UsageError(f"{what} {value} is named twice; name each once")


def runs_once(runs: Sequence[str | Path]) -> None:
    """Raises UsageError if there is no run, or one is named twice: it would count twice."""
    if not runs:
        raise UsageError("no run was given; name at least one run directory")
    each_once("run", [Path(run).resolve() for run in runs])
