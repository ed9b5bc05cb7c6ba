# SPDX-License-Identifier: Apache-2.0
"""A launch's counts as an array, from the grid that its trace holds."""

from __future__ import annotations

import numpy as np

from xpuprof.trace.streams import Stream


def vectors(stream: Stream, launch: int) -> np.ndarray | None:
    """Counts of a launch, warps x blocks of its kernel; None when it has none."""
    found = stream["launch_grids"][stream["launch_grids"]["launch"] == launch]
    if not len(found):
        return None
    grid = stream["grids"][found["grid"][0]]
    kernel = stream["kernels"][grid["kernel"]]
    rows = []
    first, n = int(grid["first_run"]), int(grid["n_runs"])
    for vector, length in zip(
        stream["run_vector"][first : first + n],
        stream["run_length"][first : first + n],
        strict=True,
    ):
        row = np.zeros(int(kernel["n_blocks"]), np.uint64)
        at = stream["vectors"][vector]
        pairs = slice(int(at["first_pair"]), int(at["first_pair"] + at["n_pairs"]))
        row[stream["vector_block"][pairs] - kernel["first_block"]] = stream["vector_count"][pairs]
        rows += [row] * int(length)
    return np.array(rows)
