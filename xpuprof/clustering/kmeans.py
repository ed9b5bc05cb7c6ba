# SPDX-License-Identifier: Apache-2.0
"""Weighted k-means for every k up to a limit, in one sweep up and one down (native/clustering)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from xpuprof._select import ffi, lib
from xpuprof.arrays import F32, F64, I32
from xpuprof.clustering.bic import NOISE_FLOOR, bic_score
from xpuprof.signature.kernels import THREADS, checked, merge, pointer

ITERATIONS = 100
"""Maximum of Lloyd's steps per k, SimPoint's default."""

TOLERANCE = 1e-3
"""A step of Lloyd's that gains less than this share of the within-cluster sum ends a k's steps;
`polished` iterates the chosen k to convergence."""

RESTART_WORK = 5e8
"""Bound on points x dimensions x maxk^2 summed over repeated sweeps: small inputs, where chance
matters most, get many sweeps, large ones one."""
MAX_RESTARTS = 24

CANDIDATES = (16, 1, 4, 2)
"""Points drawn for each new centre, by restart: greedy first, then more random."""


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

    def score(self, noise: Noise) -> float:
        """BIC of the sum of squares beyond the noise."""
        beyond = self.wcss - noise.within(self)
        return bic_score(beyond, self.mass, self.centre.shape[1], noise.floor)

    def better_than(self, other: Clustering, noise: Noise) -> bool:
        """Whether the BIC is higher (SimPoint's choice among seeds), or equal with a smaller
        `wcss`."""
        return (self.score(noise), -self.wcss) > (other.score(noise), -other.wcss)


@dataclass(frozen=True, eq=False)
class Points:
    """Slices with equal rows merged: `x`: float32[points, dim], `weight`: float64[points] slices,
    `point`: uint32[slices], where each slice went."""

    x: F32
    weight: F64
    point: npt.NDArray[np.uint32]

    def __sizeof__(self) -> int:  # lets Dask decide when to spill
        return self.x.nbytes + self.weight.nbytes + self.point.nbytes


@dataclass(frozen=True, eq=False)
class Noise:
    """Differences between points that say nothing about time: `resolution` times a point's own
    norm. `square`: float64[points], weighted squared norms; `floor`: the least credible variance
    per dimension."""

    resolution: float
    square: F64
    floor: float

    @staticmethod
    def of(points: Points, resolution: float, scatter: float = 0.0) -> Noise:
        """`scatter` as in `sweep`."""
        norm2 = np.einsum("ij,ij->i", points.x, points.x, dtype=np.float64)
        total = points.weight.sum()
        mean_square = float((np.dot(norm2, points.weight) + scatter) / total)
        mean = float(np.dot(np.sqrt(norm2), points.weight) / total)
        floor = max(NOISE_FLOOR * mean_square, (resolution * mean) ** 2) / points.x.shape[1]
        return Noise(resolution, norm2 * points.weight, floor)

    def within(self, clustering: Clustering) -> float:
        """The part of the within-cluster sum of squares that is noise."""
        square = np.bincount(clustering.label, self.square, clustering.k)
        centre2 = np.einsum("ij,ij->i", clustering.centre, clustering.centre, dtype=np.float64)
        own = np.maximum(square - clustering.mass * centre2, 0.0)
        return float(np.minimum(own, self.resolution**2 * square).sum())


def merged(matrix: F32, mass: F64 | None = None) -> Points:
    """Merge equal rows into weighted points; `mass`: weight of each row [1]."""
    point, first = merge(matrix)
    weight = np.bincount(point, mass, minlength=len(first)).astype(np.float64)
    x = matrix if len(first) == len(matrix) else matrix[first.astype(np.int64)]
    return Points(np.ascontiguousarray(x, dtype=np.float32), weight, point)


def sweep(
    points: Points,
    maxk: int,
    seed: int,
    restarts: int | None = None,
    scatter: float = 0.0,
    resolution: float = 0.0,
    threads: int = THREADS,
) -> dict[int, Clustering]:
    """Best clustering found for each k = 1..maxk (or up to the number of points). `scatter` is the
    sum of squares within the points, when each represents several different ones; `resolution`: see
    `Noise`.

    Each restart goes up, adding the best of some centres drawn as in k-means++, and down again,
    removing the centre whose loss costs least; each change is followed by Lloyd's steps.
    Deterministic in (points, maxk, seed, restarts).
    """
    maxk = min(maxk, len(points.x))
    wanted = RESTART_WORK / max(points.x.size * float(maxk) ** 2, 1.0)
    tolerance = TOLERANCE if wanted < 1.0 else 0.0
    if restarts is None:
        restarts = int(np.clip(wanted, 1, MAX_RESTARTS))
    noise = Noise.of(points, resolution, scatter)
    best: dict[int, Clustering] = {}
    for restart in range(restarts):
        candidates = CANDIDATES[restart % len(CANDIDATES)]
        with _Sweep(points, maxk, candidates, seed + 1_000_003 * restart, threads) as one:
            for found in one.up_and_down(maxk, tolerance):
                result = replace(found, wcss=found.wcss + scatter)
                known = best.get(result.k)
                if known is None or result.better_than(known, noise):
                    best[result.k] = result
    return best


def polished(points: Points, clustering: Clustering, threads: int = THREADS) -> Clustering:
    """Lloyd's steps from `clustering` until no label changes (ITERATIONS x 10 at most), labelled by
    the nearest centre."""
    with _Sweep(points, clustering.k, 1, 0, threads) as one:
        best = one.from_centres(clustering.centre)
    return replace(best, label=nearest(points.x, best.centre))


def nearest(x: F32, centre: F32, threads: int = THREADS) -> I32:
    """Number of the centre nearest to each point, int32[points]; the lowest of equally near."""
    label = np.empty(len(x), np.uint32)
    centre = np.ascontiguousarray(centre, dtype=np.float32)
    x = np.ascontiguousarray(x, dtype=np.float32)
    status = lib.xps_nearest(
        len(x), x.shape[1], pointer(x, "float"), len(centre), pointer(centre, "float"), threads,
        pointer(label, "uint32_t"),
    )  # fmt: skip
    checked(status, "label the slices")
    return label.astype(np.int32)


class _Sweep:
    """A C sweep over the points, freed at the end of the block."""

    def __init__(self, points: Points, maxk: int, candidates: int, seed: int, threads: int) -> None:
        self._points = points  # C reads it until the sweep ends
        self._handle = lib.xps_sweep_new(
            *points.x.shape, pointer(points.x, "float"), pointer(points.weight, "double"), maxk,
            candidates, seed & (2**64 - 1), threads,
        )  # fmt: skip
        if self._handle == ffi.NULL:
            raise MemoryError("not enough memory to cluster")

    def __enter__(self) -> _Sweep:
        return self

    def __exit__(self, *_: object) -> None:
        lib.xps_sweep_free(self._handle)

    def up_and_down(self, maxk: int, tolerance: float) -> Iterator[Clustering]:
        """k = 1..maxk, then maxk - 1..2."""
        reached = 0
        while reached < maxk:
            k = checked(lib.xps_sweep_grow(self._handle, ITERATIONS, tolerance), "cluster")
            if k == reached:
                return  # every point lies on its centre, so fewer clusters are only worse
            reached = k
            yield self._result(k)
        while reached > 2:
            reached = checked(lib.xps_sweep_shrink(self._handle, ITERATIONS, tolerance), "cluster")
            yield self._result(reached)

    def from_centres(self, centre: F32) -> Clustering:
        """Lloyd's steps from given centres to convergence."""
        centre = np.ascontiguousarray(centre, dtype=np.float32)
        k = lib.xps_sweep_start(
            self._handle, len(centre), pointer(centre, "float"), 10 * ITERATIONS, 0.0
        )
        return self._result(checked(k, "cluster"))

    def _result(self, k: int) -> Clustering:
        n, dim = self._points.x.shape
        wcss = ffi.new("double *")
        mass, centre = np.empty(k), np.empty((k, dim), np.float32)
        label = np.empty(n, np.int32)
        lib.xps_sweep_result(
            self._handle, wcss, pointer(mass, "double"), pointer(centre, "float"),
            pointer(label, "uint32_t"),
        )  # fmt: skip
        return Clustering(float(wcss[0]), mass, centre, label)


def distances(
    x: F32, centre: F32, label: npt.NDArray[np.integer[Any]], threads: int = THREADS
) -> F32:
    """Squared distance of each point to the centre of its label, float32[points]."""
    out = np.empty(len(x), np.float32)
    label = label.astype(np.uint32, copy=False)
    lib.xps_distances(
        len(x), x.shape[1], pointer(x, "float"), pointer(centre, "float"),
        pointer(label, "uint32_t"), threads, pointer(out, "float"),
    )  # fmt: skip
    return out


def draws(x: F32, seed: int) -> F64:
    """A number in [0, 1) for each point, float64[points], hashed from the point and the seed: equal
    points get equal numbers in every place."""
    x = np.ascontiguousarray(x, dtype=np.float32)
    out = np.empty(len(x))
    lib.xps_draw(
        len(x), x.shape[1], pointer(x, "float"), seed & (2**64 - 1), pointer(out, "double")
    )
    return out


def partial_sums(
    points: Points, centre: F32, label: npt.NDArray[np.uint32], distance2: F32
) -> tuple[F64, F64, F64]:
    """Sums of the points by cluster: mass float64[k], weighted offsets from the centre float64[k,
    dim], weighted squared distances float64[k]."""
    k, dim = centre.shape
    mass, offset, square = np.empty(k), np.empty((k, dim)), np.empty(k)
    checked(
        lib.xps_partial(
            len(points.x), dim, pointer(points.x, "float"), pointer(points.weight, "double"), k,
            pointer(centre, "float"), pointer(label, "uint32_t"), pointer(distance2, "float"),
            pointer(mass, "double"), pointer(offset, "double"), pointer(square, "double"),
        ),
        "add up the slices",
    )  # fmt: skip
    return mass, offset, square
