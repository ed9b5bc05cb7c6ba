# SPDX-License-Identifier: Apache-2.0
"""Numbers with units."""

from __future__ import annotations

import pytest

from xpuprof.units import size


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (1, "1 B"),
        (999, "999 B"),
        (1500, "1.5 kB"),
        (600_000, "600 kB"),
        (1_234_567, "1.23457 MB"),
        (2 * 10**9, "2 GB"),
        (5 * 10**12, "5,000 GB"),
    ],
)
def test_sizes(count: int, text: str) -> None:
    assert size(count) == text
