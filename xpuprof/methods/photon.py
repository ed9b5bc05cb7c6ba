# SPDX-License-Identifier: Apache-2.0
"""Photon: a kernel that executes like an earlier one is not simulated again.

Liu, Sun, Carlson: "Photon: A Fine-grained Sampled Simulation Methodology for GPU Workloads",
MICRO 2023. `select` is its kernel sampling over whole launches; `WarpStability` its warp sampling
inside a launch, for a simulator to drive.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.spatial import cKDTree

from xpuprof.errors import InputError
from xpuprof.methods import one_per_cluster
from xpuprof.methods.declaration import Method, Need, Option
from xpuprof.methods.profile import SliceProfile
from xpuprof.selection.selection import Selection

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]

SIMILARITY = 0.95
SKETCH = 10
"""Hashed coordinates that find candidates for comparison."""
FIRST_BATCH = 256
BASIS = (
    "Photon has no theory of its error: a kernel is taken to run at the IPC of the earlier kernel "
    "it resembles"
)


def select(profile: SliceProfile, *, seed: int = 0, similarity: float = SIMILARITY) -> Selection:
    """Select every kernel that resembles no earlier selected one.

    Two kernels resemble each other when their GPU BBVs (normalised to 1) overlap by at least
    `similarity`, that is 1 - |u - v|_1 / 2, and so do their numbers of warps, min / max. Kernels
    are taken in chronological order; each joins the earliest selected one it resembles.
    Deterministic: `seed` is only recorded. Raises NeedsError without block vectors.
    """
    if not 0.0 < similarity <= 1.0:
        raise InputError(f"similarity must lie above 0 and at most at 1, not {similarity:g}")
    rows = one_per_cluster.kernel_rows(profile)
    vectors = profile.require_gpu_vectors("photon")[rows]
    instructions = np.asarray(vectors.sum(axis=1), dtype=np.float64).ravel()
    warps = profile.metrics.get("warps")
    count = np.maximum(warps[rows], 1.0) if warps is not None else np.ones(len(rows))
    leaders = match(vectors, count, similarity)
    labels = one_per_cluster.dense(leaders)
    return one_per_cluster.select(
        profile,
        rows,
        labels,
        one_per_cluster.first_of_each(labels),
        method="photon",
        parameters={"similarity": similarity},
        seed=seed,
        basis=BASIS,
        work=instructions,
    )


def match(vectors: sparse.csr_matrix, warps: F64, similarity: float = SIMILARITY) -> I64:
    """For each kernel the position of the earliest selected kernel it resembles (perhaps itself).

    `vectors`: kernels x blocks, not negative; `warps`: float64[kernels], at least 1. Equal kernels
    are merged first. Candidates come from a tree over a few coordinates: the logarithm of the warps
    and random-sign sums of the vector, whose differences never exceed the distance, so no match is
    missed. Exact distances follow. The cost is kernels x log(selected) when kernels resemble few
    others; comparing with all would cost kernels x selected.
    """
    distinct, first, inverse = _merge(vectors, warps)
    points = _sketch(distinct, warps[first], similarity)
    tolerance = 2.0 * (1.0 - similarity) + 1e-12
    leader_of = np.full(distinct.shape[0], -1, dtype=np.int64)
    leaders = np.zeros(0, dtype=np.int64)
    at, batch = 0, FIRST_BATCH
    while at < len(leader_of):
        rows = np.arange(at, min(at + batch, len(leader_of)))
        if len(leaders):
            near = _pairs(distinct, points, rows, leaders, tolerance)
            _join(leader_of, rows, near)
        open_rows = rows[leader_of[rows] < 0]
        new = _among(distinct, points, open_rows, tolerance, leader_of)
        leaders = np.concatenate([leaders, new])
        at += len(rows)
        batch = max(FIRST_BATCH, min(2 * batch, 1 << 16), len(leaders) // 4)
    return first[leader_of][inverse]


def _merge(vectors: sparse.csr_matrix, warps: F64) -> tuple[sparse.csr_matrix, I64, I64]:
    """Distinct normalised vectors by appearance, the first kernel and the point of each."""
    vectors = sparse.csr_matrix(vectors, dtype=np.float64)
    vectors.sum_duplicates()
    totals = np.asarray(vectors.sum(axis=1)).ravel()
    scale = sparse.diags(1.0 / np.where(totals > 0.0, totals, 1.0))
    unit = sparse.csr_matrix(scale @ vectors)
    unit.sort_indices()
    # Two 64-bit sums over hashed blocks and exact counts identify a row.
    rng = np.random.default_rng(0)
    keys = rng.integers(0, 2**63, size=(2, unit.shape[1]), dtype=np.uint64)
    bits = unit.data.view(np.uint64)
    owner = np.repeat(np.arange(unit.shape[0]), np.diff(unit.indptr))
    hashes = [warps.view(np.uint64)]
    for key in keys:
        mixed = (bits ^ key[unit.indices]) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
        sums = np.zeros(unit.shape[0], dtype=np.uint64)
        np.add.at(sums, owner, mixed)
        hashes.append(sums)
    table = np.column_stack(hashes)
    order = np.lexsort((np.arange(len(table)), table[:, 2], table[:, 1], table[:, 0]))
    new = np.empty(len(order), dtype=bool)
    new[0] = True
    new[1:] = (table[order[1:]] != table[order[:-1]]).any(axis=1)
    group = np.empty(len(order), dtype=np.int64)
    group[order] = np.cumsum(new) - 1
    inverse = one_per_cluster.dense(group)
    first = one_per_cluster.first_of_each(inverse)
    return unit[first], first, inverse


def _sketch(unit: sparse.csr_matrix, warps: F64, similarity: float) -> F64:
    """Coordinates scaled so that two resembling kernels differ by at most 1 in each."""
    rng = np.random.default_rng(1)
    signs = rng.choice([-1.0, 1.0], size=(unit.shape[1], SKETCH))
    sums = np.asarray(unit @ signs) / max(2.0 * (1.0 - similarity), 1e-9)
    # Warps resemble when max / min <= 1 / similarity.
    width = -np.log(similarity) if similarity < 1.0 else 1e-9
    return np.column_stack([np.log(warps) / width, sums])


def _pairs(
    unit: sparse.csr_matrix, points: F64, rows: I64, others: I64, tolerance: float
) -> tuple[I64, I64]:
    """(position in `rows`, member of `others`) of every pair that resembles, sorted."""
    tree = cKDTree(points[others])
    lists = tree.query_ball_point(points[rows], 1.0 + 1e-9, p=np.inf, workers=-1)
    lengths = np.fromiter((len(found) for found in lists), np.int64, len(lists))
    if not lengths.any():
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    left = np.repeat(np.arange(len(rows)), lengths)
    right = others[np.concatenate([found for found in lists if found]).astype(np.int64)]
    keep = _distance(unit, rows[left], right) <= tolerance
    return left[keep], right[keep]


def _distance(unit: sparse.csr_matrix, left: I64, right: I64) -> F64:
    """L1 distances of pairs of rows, a bounded number of pairs at a time."""
    result = np.empty(len(left))
    lengths = np.diff(unit.indptr)
    step = 1 << 16
    for at in range(0, len(left), step):
        pairs = np.arange(at, min(at + step, len(left)))
        # Launches of one kernel mostly execute the same blocks, so their entries align.
        alike = pairs[lengths[left[pairs]] == lengths[right[pairs]]]
        mine, theirs = unit[left[alike]], unit[right[alike]]
        pair = np.repeat(np.arange(len(alike)), np.diff(mine.indptr))
        apart = np.bincount(pair, mine.indices != theirs.indices, len(alike)) > 0
        result[alike] = np.bincount(pair, np.abs(mine.data - theirs.data), len(alike))
        rest = np.concatenate([np.setdiff1d(pairs, alike, assume_unique=True), alike[apart]])
        if len(rest):
            result[rest] = _distance_by_lookup(unit, left[rest], right[rest])
    return result


def _distance_by_lookup(unit: sparse.csr_matrix, left: I64, right: I64) -> F64:
    """|u - v| summed over u's blocks; v's share outside them is its total less its share inside.
    The entries of v are found in one sorted list of (row, block) keys."""
    width = unit.shape[1]
    mine = unit[left]
    rows, rank = np.unique(right, return_inverse=True)
    theirs = unit[rows]
    sums = np.asarray(theirs.sum(axis=1)).ravel()
    if not theirs.nnz:
        return np.asarray(mine.sum(axis=1), dtype=np.float64).ravel()
    known = np.repeat(np.arange(len(rows)), np.diff(theirs.indptr)) * width + theirs.indices
    lengths = np.diff(mine.indptr)
    pair = np.repeat(np.arange(len(lengths)), lengths)
    wanted = np.repeat(rank * width, lengths) + mine.indices
    place = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    met = np.where(known[place] == wanted, theirs.data[place], 0.0)
    inside = np.bincount(pair, np.abs(mine.data - met) - met, len(lengths))
    result: F64 = inside + sums[rank]
    return result


def _join(leader_of: I64, rows: I64, pairs: tuple[I64, I64]) -> None:
    """Each row joins the earliest of its pairs (pairs are sorted by leader within a row)."""
    position, leader = pairs
    order = np.lexsort((leader, position))
    heads = np.flatnonzero(np.diff(position[order], prepend=-1))
    leader_of[rows[position[order][heads]]] = leader[order][heads]


def _among(
    unit: sparse.csr_matrix, points: F64, rows: I64, tolerance: float, leader_of: I64
) -> I64:
    """Assign rows that resemble no earlier leader; returns the new leaders."""
    if not len(rows):
        return rows
    position, other = _pairs(unit, points, rows, rows, tolerance)
    start = np.searchsorted(position, np.arange(len(rows) + 1))
    new = []
    for i, row in enumerate(rows.tolist()):
        if leader_of[row] >= 0:
            continue
        leader_of[row] = row
        new.append(row)
        own = other[start[i] : start[i + 1]]
        own = own[(own > row) & (leader_of[own] < 0)]
        leader_of[own] = row
    return np.array(new, dtype=np.int64)


class WarpStability:
    """Warp sampling: when warps retire at a steady pace, the rest need not be simulated.

    Over the last `window` warps (paper: 1,024) a least-squares line is fitted to retire time
    against issue time. The launch is stable when the slope is 1 within `threshold` and the mean
    execution time of the window's two halves agrees within `threshold`: a warp issued later then
    takes as long as one issued earlier. Applies to launches in which one warp class makes up at
    least `dominant` (`applies`).
    """

    def __init__(
        self, *, window: int = 1024, threshold: float = 0.03, dominant: float = 0.95
    ) -> None:
        if window < 4:
            raise InputError(f"the window must hold at least 4 warps, not {window}")
        self.window = window
        self.threshold = threshold
        self.dominant = dominant
        self._issue = np.zeros(window)
        self._retire = np.zeros(window)
        self._count = 0

    def applies(self, warps_of_class: npt.NDArray[np.integer]) -> bool:
        """Whether one class holds `dominant` of the warps (`warps_of_class`: warps per class)."""
        total = int(warps_of_class.sum())
        return total > 0 and int(warps_of_class.max()) >= self.dominant * total

    def add(self, issue: float, retire: float) -> bool:
        """Record a retired warp; returns whether the launch is now stable. Times in cycles."""
        if retire < issue:
            raise InputError(f"a warp cannot retire ({retire:g}) before it is issued ({issue:g})")
        self._issue[self._count % self.window] = issue
        self._retire[self._count % self.window] = retire
        self._count += 1
        return self.stable

    @property
    def stable(self) -> bool:
        """Whether the last window of warps is stable."""
        if self._count < self.window:
            return False
        order = np.roll(np.arange(self.window), -(self._count % self.window))
        issue, retire = self._issue[order], self._retire[order]
        centred = issue - issue.mean()
        spread = float(np.dot(centred, centred))
        slope = float(np.dot(centred, retire)) / spread if spread else 1.0
        lasted = retire - issue
        half = self.window // 2
        early, late = float(lasted[:half].mean()), float(lasted[half:].mean())
        mean = float(lasted.mean())
        steady = abs(late - early) <= self.threshold * mean
        return abs(slope - 1.0) <= self.threshold and steady

    @property
    def warp_time(self) -> float:
        """Mean execution time of the window's warps: the prediction for the remaining warps."""
        count = min(self._count, self.window)
        return float((self._retire[:count] - self._issue[:count]).mean()) if count else 0.0


METHOD = Method(
    name="photon",
    help="Each kernel that resembles no earlier one, by its device block vector (MICRO 2023).",
    select=select,
    needs=(Need.VECTORS,),
    options=(Option("similarity", float, 0.95, "Least overlap of two alike vectors, 0 to 1."),),
)
