# SPDX-License-Identifier: Apache-2.0
"""Run-length coding of long integer sequences as readable text: `LABEL` or `LABELxLENGTH`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

_LINE = 88


def encode_runs(values: npt.NDArray[np.integer[Any]]) -> list[str]:
    """Lines of tokens, one token per run of equal values, wrapped for text editors."""
    if len(values) == 0:
        return []
    starts = np.flatnonzero(np.concatenate(([True], values[1:] != values[:-1])))
    lengths = np.diff(np.append(starts, len(values)))
    lines: list[str] = []
    line: list[str] = []
    width = 0
    for value, length in zip(values[starts].tolist(), lengths.tolist(), strict=True):
        token = f"{value}x{length}" if length > 1 else str(value)
        if line and width + len(token) > _LINE:
            lines.append(" ".join(line))
            line, width = [], 0
        line.append(token)
        width += len(token) + 1
    lines.append(" ".join(line))
    return lines


def decode_runs(lines: Iterable[str], expected: int | None = None) -> npt.NDArray[np.int32]:
    """Decode to int32. Lengths are summed before the array is allocated, and lines are decoded one
    by one, so that memory stays near that of the array.

    Raises ValueError for malformed tokens and for a total other than `expected`.
    """
    texts = list(lines)
    total = sum(sum(_tokens(line)[1]) for line in texts)
    if expected is not None and total != expected:
        raise ValueError(f"labels do not describe {expected} slices")
    labels, done = np.empty(total, np.int32), 0
    for line in texts:
        values, lengths = _tokens(line)
        labels[done : done + sum(lengths)] = np.repeat(np.array(values, np.int32), lengths)
        done += sum(lengths)
    return labels


def _tokens(line: str) -> tuple[list[int], list[int]]:
    """Values and lengths of the runs of a line."""
    tokens = [token.partition("x") for token in str.split(line)]
    lengths = [int(length) if mark else 1 for _, mark, length in tokens]
    if any(length < 1 for length in lengths):
        raise ValueError("a run of labels has length 0")
    return [int(value) for value, _, _ in tokens], lengths
