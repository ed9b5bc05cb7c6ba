# SPDX-License-Identifier: Apache-2.0
"""Which slices represent a cluster."""

from __future__ import annotations

import numpy as np
import pytest

from xpuprof.clustering.nearest_to_centroid import Portions, candidates_of


@pytest.mark.parametrize("distances", [(1.0, 0.9999999), (0.9999999, 1.0)])
def test_rounding_does_not_decide_between_two_slices(distances: tuple[float, float]) -> None:
    """GIVEN a cluster of two slices, equally far from their mean but for rounding WHEN one is to
    represent both THEN it is the same one however they were rounded."""
    labels = np.array([1, 0, 0, 1, 1], np.int32)
    distance2 = np.array([3.0, *distances, 1.0, 2.0], np.float32)
    portions = Portions((np.array([0, 2]), np.array([0, 3])), np.zeros(2, np.int64))
    assert candidates_of(labels, distance2, portions)["slice"].tolist() == [1, 3]
