# SPDX-License-Identifier: Apache-2.0
"""Program builds and transfers in the description of slices."""

from __future__ import annotations

import numpy as np

from xpuprof.signature.matrix import (
    MOST_BUILT,
    Part,
    Projection,
    Scale,
    Vectors,
    apart_of,
    join,
    scale_of,
    summed,
)


def built(slices: int, *numbers: int) -> np.ndarray:
    """A million instructions in the slices with these numbers, which hold a build."""
    return np.where(np.isin(np.arange(slices), numbers), 1e6, 0.0)


def test_slices_with_a_build_stand_apart() -> None:
    """GIVEN builds before some launches THEN each such slice is set apart, as start and exit are;
    those beyond the limit share a cluster with others that execute about as much."""
    assert apart_of(8, True, built(8, 0, 3, 5)).tolist() == [1, 0, 0, 3, 0, 4, 0, 2]
    works = built(100, *range(1, 60))
    works[50:55] = 1e8
    many = apart_of(100, True, works)
    assert many[1 : MOST_BUILT + 1].tolist() == list(range(3, 3 + MOST_BUILT))
    assert len(set(many[MOST_BUILT + 1 : 60])) == 2
    assert len({*many[50:55]}) == 1 and many[50] > many[49] == many[55] > many[MOST_BUILT]
    assert not many[60:-1].any()


def test_slices_that_are_clustered_all_the_same() -> None:
    """GIVEN no ends to set apart, or a build in every slice, THEN builds set nothing apart."""
    assert not apart_of(8, False, built(8, 3)).any()
    assert apart_of(5, True, built(5, 1, 2, 3)).tolist() == [1, 0, 0, 0, 2]


def distance(moved: list[float], instructions: float) -> float:
    """Between the second and the third of four equal launches that move these bytes."""
    n = len(moved)
    length = np.array(moved)
    same = Vectors(np.ones((1, 4), np.float32), np.array([instructions]), np.zeros(n, np.int64))
    transfers = Vectors((length > 0).astype(np.float32)[:, None], length, np.arange(n))
    parts = [Part("gpu", 1.0, same), Part("transfers", 0.1, transfers)]
    apart = apart_of(n, True)
    scales: list[Scale] = summed([[scale_of(part, apart) for part in parts]])
    matrix, extent, counted = join(parts, scales, Projection(1))
    assert np.isclose(extent.sum(), 1.0) and np.allclose(counted, instructions)
    return float(np.linalg.norm(matrix[1] - matrix[2]))


def test_transfers_count_by_their_share_of_the_work() -> None:
    """GIVEN equal launches of which one moves data THEN they differ by as much as the transfer
    weighs beside the launch, and not at all without transfers."""
    assert distance([9e9, 0.0, 0.0, 9e9], 1e6) == 0.0
    large = distance([0.0, 1e8, 0.0, 0.0], 1e6)
    assert large > 10 * distance([0.0, 4.0, 0.0, 0.0], 1e6) > 0.0
    assert large > 2 * distance([0.0, 1e6, 0.0, 0.0], 1e9)
