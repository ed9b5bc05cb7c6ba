# SPDX-License-Identifier: Apache-2.0
"""Parts of arrays as long as a run, so that temporary arrays stay small."""

from __future__ import annotations

from collections.abc import Iterator

_PIECE = 1 << 16


def pieces(length: int) -> Iterator[slice]:
    """Consecutive parts of an array of this length."""
    for first in range(0, length, _PIECE):
        yield slice(first, min(first + _PIECE, length))
