"""Weighted k-means for every k up to a limit, in one sweep up and one down (native/signature)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from xpuprof._select import ffi, lib
from xpuprof.signature.kernels import THREADS, checked, merge, pointer

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
I32 = npt.NDArray[np.int32]

ITERATIONS = 100
"""Lloyd steps at most a k, SimPoint's default."""

TOLERANCE = 1e-4
"""A Lloyd step that gains less than this share of the within-cluster sum ends a k's steps; the k
that is chosen is carried on to convergence by `polished`."""

RESTART_WORK = 2e8
"""Sweeps are repeated from other seeds while points x dimensions x maxk^2 of all of them stays
below this: small inputs, where chance matters most, get many, large ones one."""
MAX_RESTARTS = 16


@dataclass(frozen=True, eq=False)
class Clustering:
    """Result for one k. `mass`: float64[k], slices in each cluster; `centre`: float32[k, dim];
    `label`: int32[points]; `wcss`: weighted sum of squared distances."""

    wcss: float
    mass: F64
    centre: F32
    label: I32

    @property
    def k(self) -> int:
        """Number of clusters."""
        return len(self.mass)


@dataclass(frozen=True, eq=False)
class Points:
    """Slices with equal rows merged: `x`: float32[points, dim], `weight`: float64[points] slices,
    `point`: uint32[slices], where each slice went."""

    x: F32
    weight: F64
    point: npt.NDArray[np.uint32]


def merged(matrix: F32) -> Points:
    """Merge equal rows into weighted points."""
    point, first = merge(matrix)
    weight = np.bincount(point, minlength=len(first)).astype(np.float64)
    x = matrix if len(first) == len(matrix) else matrix[first.astype(np.int64)]
    return Points(np.ascontiguousarray(x, dtype=np.float32), weight, point)


def sweep(
    points: Points, maxk: int, seed: int, restarts: int | None = None, threads: int = THREADS
) -> dict[int, Clustering]:
    """Best clustering found for each k = 1..maxk (fewer when the points are fewer).

    Each restart goes up, adding the best of 16 centres drawn as in k-means++, and down again,
    removing the centre whose loss costs least; each step is followed by Lloyd's to convergence.
    Deterministic in (points, maxk, seed, restarts).
    """
    maxk = min(maxk, len(points.x))
    if restarts is None:
        work = points.x.size * float(maxk) ** 2
        restarts = int(np.clip(RESTART_WORK / max(work, 1.0), 1, MAX_RESTARTS))
    best: dict[int, Clustering] = {}
    for restart in range(restarts):
        _one_sweep(points, maxk, seed + 1_000_003 * restart, threads, best)
    return best


def _one_sweep(
    points: Points, maxk: int, seed: int, threads: int, best: dict[int, Clustering]
) -> None:
    n, dim = points.x.shape
    handle = lib.xps_sweep_new(
        n, dim, pointer(points.x, "float"), pointer(points.weight, "double"), maxk,
        seed & (2**64 - 1), threads,
    )  # fmt: skip
    if handle == ffi.NULL:
        raise MemoryError("not enough memory to cluster")
    try:
        reached = 0
        while reached < maxk:
            k = checked(lib.xps_sweep_grow(handle, ITERATIONS, TOLERANCE), "cluster")
            if k == reached:
                break
            reached = k
            _keep_better(handle, k, n, dim, best)
        while reached > 2:
            reached = checked(lib.xps_sweep_shrink(handle, ITERATIONS, TOLERANCE), "cluster")
            _keep_better(handle, reached, n, dim, best)
    finally:
        lib.xps_sweep_free(handle)


def _keep_better(handle: object, k: int, n: int, dim: int, best: dict[int, Clustering]) -> None:
    wcss = ffi.new("double *")
    lib.xps_sweep_result(handle, wcss, ffi.NULL, ffi.NULL, ffi.NULL)
    if k in best and not wcss[0] < best[k].wcss:
        return
    mass, centre = np.empty(k), np.empty((k, dim), np.float32)
    label = np.empty(n, np.int32)
    lib.xps_sweep_result(
        handle, wcss, pointer(mass, "double"), pointer(centre, "float"), pointer(label, "uint32_t")
    )
    best[k] = Clustering(float(wcss[0]), mass, centre, label)


def polished(points: Points, clustering: Clustering, threads: int = THREADS) -> Clustering:
    """Lloyd's steps from `clustering` until no label changes (ITERATIONS x 10 at most)."""
    n, dim = points.x.shape
    best: dict[int, Clustering] = {}
    handle = lib.xps_sweep_new(
        n, dim, pointer(points.x, "float"), pointer(points.weight, "double"), clustering.k, 0,
        threads,
    )  # fmt: skip
    if handle == ffi.NULL:
        raise MemoryError("not enough memory to cluster")
    try:
        centre = np.ascontiguousarray(clustering.centre)
        checked(
            lib.xps_sweep_start(handle, clustering.k, pointer(centre, "float"), 10 * ITERATIONS, 0.0),
            "cluster",
        )
        _keep_better(handle, clustering.k, n, dim, best)
    finally:
        lib.xps_sweep_free(handle)
    return best[clustering.k]


def distances(x: F32, clustering: Clustering, threads: int = THREADS) -> F32:
    """Squared distance of each point to its centre, float32[points]."""
    out = np.empty(len(x), np.float32)
    label = clustering.label.astype(np.uint32)
    lib.xps_distances(
        len(x), x.shape[1], pointer(x, "float"), pointer(clustering.centre, "float"),
        pointer(label, "uint32_t"), threads, pointer(out, "float"),
    )  # fmt: skip
    return out
