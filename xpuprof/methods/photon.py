# SPDX-License-Identifier: Apache-2.0
"""Photon: a kernel that executes like an earlier one is not simulated again.

Liu, Sun, Carlson: "Photon: A Fine-grained Sampled Simulation Methodology for GPU Workloads",
MICRO 2023. `select` is its kernel sampling over whole launches; `WarpSampling` and `BlockSampling`
work inside a launch, for a simulator to drive. Left out: the projection of a warp's vector to 16
dimensions (vectors are compared exactly), and deciding while a launch is simulated, from a part of
its warps.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.spatial import cKDTree

from xpuprof.arrays import F64, I64
from xpuprof.errors import InputError
from xpuprof.methods import one_per_cluster
from xpuprof.methods.declaration import SHARE, Method, Need, Option
from xpuprof.methods.profile import SliceProfile
from xpuprof.selection.selection import Selection

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

    A GPU BBV concatenates one vector a warp class, in order of the classes' sizes and weighted by
    them. Two kernels resemble each other when these (normalised to 1) overlap by at least
    `similarity`, that is 1 - |u - v|_1 / 2, and so do their numbers of warps, min / max. Kernels
    are taken in chronological order; each joins the earliest selected one it resembles. Vectors
    without warps are compared as they are, and the selection says so. Deterministic: `seed` is only
    recorded. Raises NeedsError without block vectors.
    """
    rows = one_per_cluster.kernel_rows(profile)
    summed = profile.require_gpu_vectors("photon")[rows]
    instructions = np.asarray(summed.sum(axis=1), dtype=np.float64).ravel()
    classes, warps = profile.warp_classes(), profile.metrics.get("warps")
    vectors = summed if classes is None else classes[rows]
    count = np.ones(len(rows)) if warps is None else np.maximum(warps[rows], 1.0)
    known = (("warp classes", classes), ("numbers of warps", warps))
    left_out = [name for name, values in known if values is None]
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
        basis="; ".join([BASIS, *(f"the profile has no {name}" for name in left_out)]),
        work=instructions,
        scores={"left_out": left_out},
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
    unit = sparse.csr_matrix(sparse.diags(1.0 / np.where(totals > 0.0, totals, 1.0)) @ vectors)
    unit.sort_indices()
    known: dict[tuple[float, bytes, bytes], int] = {}
    inverse = np.empty(len(warps), dtype=np.int64)
    for row, (low, high) in enumerate(pairwise(unit.indptr.tolist())):
        key = warps[row], unit.indices[low:high].tobytes(), unit.data[low:high].tobytes()
        inverse[row] = known.setdefault(key, len(known))
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
    step = 1 << 16
    for at in range(0, len(left), step):
        pairs = slice(at, at + step)
        result[pairs] = abs(unit[left[pairs]] - unit[right[pairs]]).sum(axis=1).ravel()
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


class Stability:
    """Whether what is issued later takes as long as what was issued earlier.

    Over the last `window` executions a least-squares line is fitted to retire time against issue
    time. They are stable when the slope is 1 within `threshold` and the mean execution time of the
    window's two halves agrees within `threshold`.
    """

    def __init__(self, *, window: int = 1024, threshold: float = 0.03) -> None:
        if window < 4:
            raise InputError(f"the window must hold at least 4 executions, not {window}")
        self.window = window
        self.threshold = threshold
        self._issue = np.zeros(window)
        self._retire = np.zeros(window)
        self._count = 0

    def add(self, issue: float, retire: float) -> bool:
        """Record an execution; returns whether they are now stable. Times in cycles."""
        if retire < issue:
            raise InputError(f"nothing can retire ({retire:g}) before it is issued ({issue:g})")
        self._issue[self._count % self.window] = issue
        self._retire[self._count % self.window] = retire
        self._count += 1
        return self.stable

    @property
    def stable(self) -> bool:
        """Whether the last window of executions is stable."""
        if self._count < self.window:
            return False
        order = np.roll(np.arange(self.window), -(self._count % self.window))
        issue, retire = self._issue[order], self._retire[order]
        centred = issue - issue.mean()
        spread = float(np.dot(centred, centred))
        slope = float(np.dot(centred, retire)) / spread if spread else 1.0
        lasted = retire - issue
        half = self.window // 2
        steady = abs(lasted[half:].mean() - lasted[:half].mean()) <= self.threshold * self.mean
        return bool(abs(slope - 1.0) <= self.threshold and steady)

    @property
    def mean(self) -> float:
        """Mean execution time of the window: the prediction for what is issued later."""
        count = min(self._count, self.window)
        return float((self._retire[:count] - self._issue[:count]).mean()) if count else 0.0


class WarpSampling(Stability):
    """Warp sampling: once warps retire at a steady pace, the rest need not be simulated. Applies to
    launches in which one warp class makes up at least `dominant`."""

    def __init__(
        self, *, window: int = 1024, threshold: float = 0.03, dominant: float = 0.95
    ) -> None:
        super().__init__(window=window, threshold=threshold)
        self.dominant = dominant

    def applies(self, warps_of_class: npt.NDArray[np.integer]) -> bool:
        """Whether one class holds `dominant` of the warps (`warps_of_class`: warps per class)."""
        total = int(warps_of_class.sum())
        return total > 0 and int(warps_of_class.max()) >= self.dominant * total


class BlockSampling:
    """Basic-block sampling: warps of any class take the sum of their blocks' times, once the blocks
    with `dominant` of a warp's instructions are stable.

    `instructions`: int[blocks]. A block that has not been seen often enough counts with its mean so
    far; Photon's model of instruction latencies for such blocks is left out.
    """

    def __init__(
        self,
        instructions: npt.NDArray[np.integer],
        *,
        window: int = 1024,
        threshold: float = 0.03,
        dominant: float = 0.95,
    ) -> None:
        self.instructions = instructions
        self.dominant = dominant
        self.blocks = [Stability(window=window, threshold=threshold) for _ in instructions]

    def add(self, block: int, issue: float, retire: float) -> bool:
        """Record an execution of a block by a warp; returns whether the block is now stable."""
        return self.blocks[block].add(issue, retire)

    def applies(self, count: npt.NDArray[np.integer]) -> bool:
        """Whether stable blocks hold `dominant` of a warp's instructions (`count`: executions of
        each block)."""
        work = count * self.instructions
        stable = np.array([block.stable for block in self.blocks])
        return bool(work[stable].sum() >= self.dominant * work.sum() > 0)

    def warp_time(self, count: npt.NDArray[np.integer]) -> float:
        """The time of a warp that executes each block `count` times."""
        return float(np.dot(count, [block.mean for block in self.blocks]))


METHOD = Method(
    name="photon",
    help="Each kernel that resembles no earlier one, by its device block vector (MICRO 2023).",
    select=select,
    needs=(Need.DEVICE_VECTORS,),
    options=(
        Option(
            "similarity", float, 0.95, "Least overlap of two alike vectors, 0 to 1.", within=SHARE
        ),
    ),
)
