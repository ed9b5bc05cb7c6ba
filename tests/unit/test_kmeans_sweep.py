# SPDX-License-Identifier: Apache-2.0
"""The k-means sweep against plain computations."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xpuprof.clustering import kmeans


def blobs(n: int = 600, dim: Any = 7, k: int = 5, noise: Any = 0.05, seed: int = 0) -> Any:
    """Points around k centres, and their labels."""
    rng = np.random.default_rng(seed)
    centres = rng.random((k, dim))
    owner = np.arange(n) % k
    return (centres[owner] + rng.normal(0, noise, (n, dim))).astype(np.float32), owner


def squared(x: Any, centres: Any) -> Any:
    """points x centres, in double."""
    return ((x[:, None, :].astype(float) - centres[None].astype(float)) ** 2).sum(2)


@pytest.mark.parametrize(("n", "dim", "k"), [(600, 7, 5), (97, 1, 3), (5000, 33, 20), (40, 130, 9)])
def test_each_k_is_a_converged_clustering(n: int, dim: int, k: int) -> None:
    """Labels are the nearest centres, centres the means; sums and masses are correct."""
    x, _ = blobs(n, dim, k, noise=0.2)
    found = kmeans.sweep(kmeans.merged(x), k, seed=1, restarts=1)
    assert sorted(found) == list(range(1, k + 1))
    for result in found.values():
        result = kmeans.polished(kmeans.merged(x), result)
        distance = squared(x, result.centre)
        chosen = distance[np.arange(n), result.label]
        assert (chosen <= distance.min(1) + 1e-5).all()
        np.testing.assert_allclose(result.wcss, chosen.sum(), rtol=1e-5, atol=1e-6)
        assert result.mass.tolist() == np.bincount(result.label, minlength=result.k).tolist()
        for c in range(result.k):
            np.testing.assert_allclose(result.centre[c], x[result.label == c].mean(0), atol=1e-5)


def test_separate_clusters_are_found() -> None:
    """Well separated groups are recovered."""
    x, owner = blobs(noise=0.01)
    found = kmeans.sweep(kmeans.merged(x), 8, seed=3)[5]
    assert len({(a, b) for a, b in zip(found.label.tolist(), owner.tolist(), strict=True)}) == 5


@pytest.mark.slow
def test_not_worse_than_scikit_learn() -> None:
    """Within-cluster sums at most those of ten k-means++ starts."""
    from sklearn.cluster import KMeans

    x, _ = blobs(400, 10, 12, noise=0.3, seed=5)
    found = kmeans.sweep(kmeans.merged(x), 12, seed=1)
    for k in (2, 6, 12):
        other = KMeans(k, n_init=10, random_state=0).fit(x).inertia_
        assert found[k].wcss <= other * 1.02


def test_within_sums_fall_with_k() -> None:
    """One more centre never hurts, up to randomness."""
    x, _ = blobs(500, 9, 6, noise=0.4)
    found = kmeans.sweep(kmeans.merged(x), 15, seed=1)
    sums = [found[k].wcss for k in sorted(found)]
    assert all(b < a * 1.01 for a, b in pairwise(sums))


@pytest.mark.parametrize("dim", [1, 15, 16, 17, 128])
def test_threads_do_not_show(dim: int) -> None:
    """One and two threads give the same bytes (more than one part of points)."""
    x, _ = blobs(5000, dim, 6, noise=0.3)
    one, two = (kmeans.sweep(kmeans.merged(x), 6, seed=2, threads=t, restarts=2) for t in (1, 2))
    for k in one:
        assert one[k].label.tobytes() == two[k].label.tobytes()
        assert one[k].centre.tobytes() == two[k].centre.tobytes()
        assert one[k].wcss == two[k].wcss


def test_equal_rows_are_one_weighted_point() -> None:
    """Merging changes no sum; each slice knows its point."""
    x, _ = blobs(50, 4, 5, noise=0.1)
    rng = np.random.default_rng(1)
    rows = rng.integers(0, 50, 2000)
    points = kmeans.merged(x[rows])
    assert len(points.x) == len(np.unique(rows))
    np.testing.assert_array_equal(points.x[points.point], x[rows])
    assert points.weight.sum() == 2000
    for result in kmeans.sweep(points, 6, seed=1).values():
        label = result.label[points.point]
        direct = squared(x[rows], result.centre)[np.arange(2000), label].sum()
        np.testing.assert_allclose(result.wcss, direct, rtol=1e-5, atol=1e-5)


def test_no_more_clusters_than_distinct_slices() -> None:
    """Three distinct rows give three clusters without spread, and no fourth."""
    x = np.repeat(np.eye(3, 6, dtype=np.float32), [5, 1, 9], axis=0)
    found = kmeans.sweep(kmeans.merged(x), 10, seed=1)
    assert max(found) == 3
    assert found[3].wcss < 1e-9
    assert sorted(found[3].mass.tolist()) == [1.0, 5.0, 9.0]


def test_one_point() -> None:
    """A single slice is a single cluster."""
    found = kmeans.sweep(kmeans.merged(np.ones((1, 3), np.float32)), 20, seed=1)
    assert list(found) == [1]
    assert found[1].wcss == 0.0


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 60), st.integers(1, 20), st.integers(1, 12), st.integers(0, 5),
    st.sampled_from([1.0, 1e-4, 1e6]),
)  # fmt: skip
def test_any_input_gives_nearest_labels(n: int, dim: Any, maxk: Any, seed: int, scale: Any) -> None:
    """Coarse values (many ties and duplicates) at any scale."""
    rng = np.random.default_rng(seed)
    x = (rng.integers(0, 4, (n, dim)) * scale).astype(np.float32)
    points = kmeans.merged(x)
    for result in kmeans.sweep(points, maxk, seed=seed, restarts=2).values():
        assert result.mass.sum() == n
        assert (result.mass > 0).all()
        distance = squared(points.x, result.centre)
        chosen = distance[np.arange(len(points.x)), result.label]
        bound = distance.min(1) + 1e-4 * scale**2
        assert (chosen <= bound).all()
