# SPDX-License-Identifier: Apache-2.0
"""xpu-stem: the least measured time for an error bound, over all slices at once.

Ours. STEM+ROOT (MICRO 2025) splits kernel by kernel in greedy steps, samples with replacement and
must measure every kernel name at least once. Here

- strata are searched over the whole run: a stratum may hold several kernels (or clusters of XPU-BBV
  vectors), if measuring a few slices for all of them is cheaper than measuring each;
- sizes and strata are chosen together: for a price lambda of variance, the cheapest pruning of a
  tree of splits minimises sum m mu + lambda x variance; the smallest lambda whose strata meet the
  bound gives the answer (Lagrange relaxation of STEM+ROOT's Problem 1);
- slices are drawn without replacement, so a fully measured stratum adds no error;
- the bound is checked by drawing from the profiled times, because the error of a few samples is
  not normal;
- an estimate must hold for other metrics and machines, where kernels speed up unequally: the
  variance is the one anticipated when every group's time moves independently by a coefficient of
  variation `rho` (anticipated variance: Särndal, Swensson, Wretman, Model Assisted Survey Sampling,
  chapter 12), so that unlike kernels share a stratum only where it matters little;
- at least `least` slices of each stratum are drawn: one is enough where the profiled times hold,
  two or three show on another machine how far its times stray.

A random draw from strata is unbiased for any strata, which is the basis of its interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from xpuprof.arrays import F64, I32, I64
from xpuprof.clustering.one_dimension import Sorted, two_means
from xpuprof.estimation.quantiles import simulated_confidence, z_score
from xpuprof.estimation.redrawing import DRAWS, random_errors
from xpuprof.estimation.stratified import from_labels
from xpuprof.methods import drawn
from xpuprof.methods.clustered import clusters_of
from xpuprof.methods.declaration import (
    AT_LEAST_1,
    CONFIDENCE,
    EPSILON,
    Method,
    Need,
    Option,
    Range,
)
from xpuprof.methods.one_per_cluster import without_kernel
from xpuprof.methods.profile import SliceProfile
from xpuprof.selection.selection import Selection

RHO = 0.03
STEPS = 40
"""Bisections of lambda's logarithm: far finer than the rounding of sizes."""
TRIES = 8
BOUNDARIES = 256
"""Candidate cuts of the dynamic programme; its table is quadratic in them."""
BASIS = (
    "stratified sampling without replacement over the whole run; quantile of the error simulated "
    "from the profiled times"
)


def select(
    profile: SliceProfile,
    *,
    seed: int = 0,
    epsilon: float = 0.05,
    confidence: float = 0.95,
    rho: float = RHO,
    least: int = 1,
) -> Selection:
    """Select slices so that the total time is within `epsilon` at `confidence`.

    `epsilon`: error bound, a fraction. `rho`: coefficient of variation of one group's time (XPU-BBV
    cluster, else kernel name and grid) relative to the others; 0 trusts the profiled times.
    `least`: draws from a stratum that is not measured whole. Raises NeedsError without times.
    """
    times = profile.require_times("xpu-stem")
    z = z_score(confidence)
    groups = clusters_of(profile, seed)
    if groups is None:
        groups = profile.groups(grid=True)
    idle = without_kernel(profile) & (times == 0.0)
    pool, pair = distinct(groups[~idle], times[~idle])
    leaves, bound, quantile = within(pool, epsilon, confidence, z, Demands(rho, least))
    stratum = np.empty(len(pool.values), dtype=np.int32)
    for number, part in enumerate(leaves):
        stratum[part.node.own] = number
    # An exit without time would join a kernel's stratum, whose launches then count one more.
    labels = np.full(len(times), len(leaves), dtype=np.int32)
    labels[~idle] = stratum[pair]
    return drawn.select(
        profile,
        from_labels(labels, times),
        np.array([*(part.size for part in leaves), *([1] if idle.any() else [])]),
        method="xpu-stem",
        parameters={"epsilon": epsilon, "confidence": confidence, "rho": rho, "least": least},
        seed=seed,
        replacement=False,
        basis=BASIS,
        confidence=confidence,
        simulated=(bound, quantile),
    )


@dataclass(frozen=True)
class Demands:
    """What a stratum must withstand: `rho` of its groups' times, and `least` draws from it."""

    rho: float = 0.0
    least: int = 1


def within(
    pool: Pool, epsilon: float, confidence: float, z: float, demands: Demands
) -> tuple[list[Leaf], float, float]:
    """Strata whose simulated error stays below `epsilon` in `confidence` of the draws.

    Also returns that quantile of the error, relative to the total, and the one over its standard
    deviation that `Design.quantile` holds.
    The error of few samples is not normal, so DRAWS samples are drawn from the known times. While
    the quantile exceeds the bound, the search is repeated with a proportionally smaller variance.
    """
    total = float(np.dot(pool.values, pool.counts))
    limit = (epsilon * total / z) ** 2
    root = Node.of(pool, np.arange(len(pool.values)))
    intervals = Intervals(root)
    for _ in range(TRIES):
        leaves = cheapest(intervals, root, limit, demands)
        error = simulate(leaves)
        bound = float(np.quantile(np.abs(error), confidence)) / total
        if bound <= epsilon:
            break
        limit *= 0.9 * (epsilon / bound) ** 2
    deviation, stated = float(error.std()), simulated_confidence(confidence)
    if deviation <= 1e-12 * total:  # equal times leave only rounding errors
        return leaves, bound, z_score(stated)
    return leaves, bound, float(np.quantile(np.abs(error), stated)) / deviation


def simulate(leaves: list[Leaf]) -> F64:
    """DRAWS errors of the estimated total, in the unit of the times."""
    rng = np.random.default_rng(0)
    error = np.zeros(DRAWS)
    for part in leaves:
        pool, own = part.node.pool, part.node.own
        error += random_errors(
            pool.values[own], part.size, rng, replacement=False, counts=pool.counts[own]
        )
    return error


@dataclass(frozen=True, eq=False)
class Pool:
    """Distinct (group, time) pairs, ascending by time, with their slice counts."""

    values: F64
    counts: I64
    group: I64


def distinct(groups: I32, times: F64) -> tuple[Pool, I64]:
    """The distinct pairs and the pair of each slice."""
    order = np.lexsort((groups, times))
    value, group = times[order], groups[order]
    new = np.empty(len(order), dtype=bool)
    new[0] = True
    new[1:] = (value[1:] != value[:-1]) | (group[1:] != group[:-1])
    pair = np.empty(len(order), dtype=np.int64)
    pair[order] = np.cumsum(new) - 1
    first = np.flatnonzero(new)
    counts = np.diff(np.append(first, len(order)))
    return Pool(value[first], counts, group[first].astype(np.int64)), pair


@dataclass(eq=False)
class Node:
    """A set of pairs with the moments that determine its cost. Splits are computed on first use."""

    pool: Pool
    own: I64
    """Indices of the pairs, ascending by time."""
    number: int = 0
    mean: float = 0.0
    variance: float = 0.0
    """Population variance of the times."""
    mixture: float = 0.0
    """E[t^2] - sum_g (p_g mu_g)^2: what a unit of rho^2 adds to the anticipated variance."""
    _splits: list[tuple[Node, Node]] | None = field(default=None, repr=False)

    @classmethod
    def of(cls, pool: Pool, own: I64) -> Node:
        """Build the node of these pairs."""
        values, counts = pool.values[own], pool.counts[own]
        number = int(counts.sum())
        mean = float(np.dot(values, counts) / number)
        spread = values - mean
        variance = float(np.dot(spread * spread, counts) / number)
        _, group = np.unique(pool.group[own], return_inverse=True)
        share = np.bincount(group, weights=values * counts) / number
        mixture = variance + mean * mean - float(np.dot(share, share))
        return cls(pool, own, number, mean, variance, max(mixture, 0.0))

    def splits(self) -> list[tuple[Node, Node]]:
        """Candidate splits in two: by time, and by the groups' mean times."""
        if self._splits is None:
            self._splits = []
            if len(self.own) > 1:
                if self.variance > 0.0:
                    self._splits.append(self._by_time())
                by_group = self._by_group()
                if by_group is not None:
                    self._splits.append(by_group)
        return self._splits

    def _by_time(self) -> tuple[Node, Node]:
        data = Sorted(
            self.pool.values[self.own], self.pool.counts[self.own], np.array([self.number])
        )
        cut = two_means(data, 0, len(self.own))
        return Node.of(self.pool, self.own[:cut]), Node.of(self.pool, self.own[cut:])

    def _by_group(self) -> tuple[Node, Node] | None:
        _, group = np.unique(self.pool.group[self.own], return_inverse=True)
        counts = np.bincount(group, weights=self.pool.counts[self.own])
        if len(counts) < 2:
            return None
        sums = np.bincount(group, weights=self.pool.values[self.own] * self.pool.counts[self.own])
        mean = sums / counts
        order = np.argsort(mean, kind="stable")
        data = Sorted(mean[order], counts[order].astype(np.int64), np.array([self.number]))
        cut = two_means(data, 0, len(order)) if mean[order[0]] < mean[order[-1]] else 1
        left = np.zeros(len(order), dtype=bool)
        left[order[:cut]] = True
        return (
            Node.of(self.pool, self.own[left[group]]),
            Node.of(self.pool, self.own[~left[group]]),
        )


@dataclass(frozen=True, eq=False)
class Leaf:
    """A stratum: `size` slices are drawn, which leaves `variance` of the estimated total."""

    node: Node
    size: int
    variance: float
    cost: float
    """size x mean + lambda x variance."""


def leaf(node: Node, price: float, demands: Demands) -> Leaf:
    """The node as a stratum with its best size: m = sqrt(lambda / mu) N S, rounded either way.

    S^2 = N / (N - 1) x anticipated variance; variance of the total: N^2 S^2 (1 / m - 1 / N)
    (Cochran, Sampling Techniques, theorem 2.2).
    """
    number, mean = node.number, node.mean
    if number == 1:
        return Leaf(node, 1, 0.0, mean)
    anticipated = node.variance + demands.rho**2 * node.mixture
    unit = number * number * anticipated * number / (number - 1)
    if price == math.inf:
        return Leaf(node, number, 0.0, math.inf)
    wanted = math.sqrt(price * unit / mean) if mean > 0.0 else 1.0
    best: Leaf | None = None
    for size in (math.floor(wanted), math.ceil(wanted)):
        size = min(max(size, demands.least), number)
        variance = unit * (1.0 / size - 1.0 / number)
        cost = size * mean + price * variance
        if best is None or cost < best.cost:
            best = Leaf(node, size, variance, cost)
    assert best is not None
    return best


def prune(root: Node, price: float, demands: Demands) -> list[Leaf]:
    """The cheapest strata among the root's recursive splits.

    At each node only the split with the cheaper halves is followed. A split that can never pay is
    skipped: each part costs at least one slice, and the parts' means add up to at least the
    halves'.
    """
    whole = leaf(root, price, demands)
    if whole.cost <= root.mean:
        return [whole]
    best = None
    for halves in root.splits():
        cost = sum(leaf(half, price, demands).cost for half in halves)
        if whole.cost > sum(half.mean for half in halves) and (best is None or cost < best[0]):
            best = (cost, halves)
    if best is None:
        return [whole]
    parts = [part for half in best[1] for part in prune(half, price, demands)]
    return parts if sum(part.cost for part in parts) < whole.cost else [whole]


class Intervals:
    """The other family of strata: time intervals over all groups, found by dynamic programming.

    The tree's splits are locally best; over at most BOUNDARIES candidate cuts this is the optimum
    for a price. Moments of every interval come from cumulative sums, the mixture from the Gram
    matrix of the groups' cumulative sums.
    """

    def __init__(self, root: Node) -> None:
        pool = root.pool
        self._root = root
        self._moments: dict[tuple[int, int], tuple[int, float, float, float]] = {}
        self._cuts = _candidates(pool)
        number = np.concatenate([[0.0], np.cumsum(pool.counts, dtype=np.float64)])[self._cuts]
        # Shift by the mean to keep differences of sums of squares exact.
        shifted = pool.values - root.mean
        first = np.concatenate([[0.0], np.cumsum(shifted * pool.counts)])[self._cuts]
        second = np.concatenate([[0.0], np.cumsum(shifted * shifted * pool.counts)])[self._cuts]
        with np.errstate(divide="ignore", invalid="ignore"):
            self._number = number[None, :] - number[:, None]
            offset = (first[None, :] - first[:, None]) / self._number
            square = (second[None, :] - second[:, None]) / self._number
            self._mean = np.maximum(offset + root.mean, 0.0)
            self._variance = np.maximum(square - offset * offset, 0.0)
            self._mixture = self._variance + self._mean**2 - self._gram() / self._number**2
        self._mixture = np.maximum(self._mixture, 0.0)

    def _gram(self) -> F64:
        """Sum over groups of (the group's time in the interval)^2."""
        pool = self._root.pool
        _, group = np.unique(pool.group, return_inverse=True)
        part = np.searchsorted(self._cuts, np.arange(len(group)), side="right") - 1
        sums = np.zeros((len(self._cuts), int(group.max()) + 1))
        np.add.at(sums, (part, group), pool.values * pool.counts)
        before = np.concatenate([np.zeros((1, sums.shape[1])), np.cumsum(sums, axis=0)[:-1]])
        inner = before @ before.T
        own = np.diag(inner)
        result: F64 = np.maximum(own[None, :] + own[:, None] - 2.0 * inner, 0.0)
        return result

    def best(self, price: float, demands: Demands) -> list[Leaf]:
        """The cheapest partition of the run into intervals."""
        cost = self._costs(price, demands)
        count = len(self._cuts)
        total = np.full(count, np.inf)
        total[0] = 0.0
        back = np.zeros(count, dtype=np.int64)
        for end in range(1, count):
            through = total[:end] + cost[:end, end]
            back[end] = int(np.argmin(through))
            total[end] = through[back[end]]
        leaves = []
        end = count - 1
        while end:
            begin = int(back[end])
            leaves.append(leaf(self._node(begin, end), price, demands))
            end = begin
        return leaves[::-1]

    def _node(self, begin: int, end: int) -> Node:
        """The interval between two cuts; neighbouring prices have most of them in common."""
        own, pool = np.arange(self._cuts[begin], self._cuts[end]), self._root.pool
        if (known := self._moments.get((begin, end))) is not None:
            return Node(pool, own, *known)
        node = Node.of(pool, own)
        self._moments[begin, end] = node.number, node.mean, node.variance, node.mixture
        return node

    def _costs(self, price: float, demands: Demands) -> F64:
        number, mean = self._number, self._mean
        with np.errstate(divide="ignore", invalid="ignore"):
            unit = number**3 * (self._variance + demands.rho**2 * self._mixture)
            unit /= np.maximum(number - 1.0, 1.0)
            # A time of 0 costs nothing, nor has it a spread.
            wanted = np.where(mean > 0.0, np.sqrt(price * unit / mean), 1.0)
            low = np.minimum(np.maximum(np.floor(wanted), demands.least), number)
            high = np.minimum(low + 1.0, number)
            costs = [
                size * mean + price * unit * np.maximum(1.0 / size - 1.0 / number, 0.0)
                for size in (low, high)
            ]
        result: F64 = np.minimum(*costs)
        return result


def _candidates(pool: Pool) -> I64:
    """Cut positions [0, ..., pairs]: spread evenly over slices and over time, plus the widest
    gaps."""
    pairs = len(pool.values)
    if pairs <= BOUNDARIES:
        return np.arange(pairs + 1)
    share = BOUNDARIES // 3
    grid = (np.arange(share) + 0.5) / share
    chosen = [
        np.searchsorted(np.cumsum(weight) / weight.sum(), grid)
        for weight in (pool.counts.astype(np.float64), pool.values * pool.counts)
    ]
    gaps = np.diff(pool.values) / np.maximum(pool.values[1:], 1e-300)
    chosen.append(np.argsort(-gaps, kind="stable")[:share] + 1)
    return np.unique(np.concatenate([[0, pairs], *chosen]))


def cheapest(intervals: Intervals, root: Node, limit: float, demands: Demands) -> list[Leaf]:
    """Strata whose variance is at most `limit` (seconds squared), for the least measured time:
    intervals, or what the tree of the `root` is pruned to."""
    by_tree = _search(lambda price: prune(root, price, demands), root, limit)
    by_interval = _search(lambda price: intervals.best(price, demands), root, limit)
    return min((by_tree, by_interval), key=_time)


def _search(strata: Callable[[float], list[Leaf]], root: Node, limit: float) -> list[Leaf]:
    """The cheapest strata, over prices, that meet the limit.

    Measuring everything leaves no variance, so a high enough price always meets it.
    """
    total = root.number * root.mean
    low, high = math.log(1e-3 * root.mean / limit), math.log(1e3 * total / limit)
    best = [leaf(root, math.inf, Demands())]
    for _ in range(STEPS):
        middle = (low + high) / 2.0
        found = strata(math.exp(middle))
        if sum(part.variance for part in found) <= limit:
            high = middle
            if _time(found) < _time(best):
                best = found
        else:
            low = middle
    return best


def _time(parts: list[Leaf]) -> float:
    return sum(part.size * part.node.mean for part in parts)


METHOD = Method(
    name="xpu-stem",
    help="The least measured time for an error bound, over strata of all slices at once.",
    select=select,
    needs=(Need.TIMES,),
    options=(
        EPSILON,
        CONFIDENCE,
        Option(
            "rho",
            float,
            0.03,
            "Variation of one group's times against the others'.",
            within=Range(0),
        ),
        Option(
            "least",
            int,
            1,
            "Draws per stratum; 2 or more for an interval on other machines.",
            within=AT_LEAST_1,
        ),
    ),
    bound="epsilon",
    by_times=True,
    rank=2,
)
