# SPDX-License-Identifier: Apache-2.0
"""Which slices represent a cluster."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from xpuprof.clustering.nearest_to_centroid import Portions, candidates_of, portion_bounds


@pytest.mark.parametrize("distances", [(1.0, 0.9999999), (0.9999999, 1.0)])
def test_rounding_does_not_decide_between_two_slices(distances: tuple[float, float]) -> None:
    """GIVEN a cluster of two slices, equally far from their mean but for rounding WHEN one is to
    represent both THEN it is the same one however they were rounded."""
    labels = np.array([1, 0, 0, 1, 1], np.int32)
    distance2 = np.array([3.0, *distances, 1.0, 2.0], np.float32)
    portions = Portions((np.array([0, 2]), np.array([0, 3])), np.zeros(2, np.int64))
    assert candidates_of(labels, distance2, portions)["slice"].tolist() == [1, 3]


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("within_reach", [False, True])
def test_the_best_slice_of_each_part(seed: int, within_reach: bool) -> None:
    """Against the definition, slice by slice: a run that shares its clusters with others, with many
    equally near slices."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 4, 300).astype(np.int32)
    distance2 = rng.integers(0, 6, 300).astype(np.float32)
    others = rng.integers(0, 50, 4)
    bounds_of = portion_bounds(np.bincount(labels, minlength=4) + others, rng.integers(0, 12, 4))
    portions = Portions(bounds_of, rng.integers(0, others + 1))
    reach = tuple(rng.uniform(0, 3, max(len(own) - 1, 0)) for own in portions.bounds)
    found = candidates_of(labels, distance2, portions, reach if within_reach else None)
    expected = []
    for cluster, bounds in enumerate(portions.bounds):
        members = np.flatnonzero(labels == cluster)
        for part, (first, end) in enumerate(pairwise(bounds)):
            own = [
                (float(distance2[s]), abs(2 * place - first - end + 1), place, s)
                for place, s in enumerate(members, int(portions.start[cluster]))
                if first <= place < end
            ]
            if within_reach:
                own = [(0.0, 0, *o[2:]) for o in own if np.sqrt(o[0]) <= reach[cluster][part]]
            expected += [(cluster, part, *min(own))] if own else []
    assert [tuple(row) for row in found.tolist()] == expected
