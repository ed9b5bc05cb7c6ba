# SPDX-License-Identifier: Apache-2.0
"""Errors of projected totals when every slice's time is known, by redrawing representatives."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from xpuprof.arrays import F64, I64
from xpuprof.selection.design import Design
from xpuprof.trace.pieces import pieces

DRAWS = 4000
"""The 95 % quantile is then known to about 2 % of itself."""
MANY = 30
"""With this many draws or more, the means of groups of a stratum's slices are assumed to be normal:
of values that hold DOMINANT of the variance, each alone; of TAILS tails, FAR standard deviations
from the others; and of the rest."""
DOMINANT = 0.1
FAR = 2.0
TAILS = 3


def errors_of_total(design: Design, values: F64, draws: int, rng: np.random.Generator) -> F64:
    """Errors of a cluster's projected total, float64[DRAWS], in the unit of `values` (all its
    slices, in run order), when `draws` of them are chosen by `design`."""
    if design.how == "random":
        return random_errors(values, draws, rng, replacement=design.replacement)
    return _part_by_part(values, draws, rng)


def ranked_draws(values: F64, ranks: int, shape: tuple[int, ...], rng: np.random.Generator) -> I64:
    """Ranked set sampling: rows of `values`, int64[*shape, ranks]; number i of the last axis is the
    i-th smallest of `ranks` rows drawn for it."""
    sets = rng.integers(0, len(values), (*shape, ranks, ranks))
    by_rank = np.take_along_axis(sets, np.argsort(values[sets], axis=-1, kind="stable"), axis=-1)
    return np.diagonal(by_rank, axis1=-2, axis2=-1).astype(np.int64)


def ranked_means(values: F64, draws: int, ranks: int, rng: np.random.Generator) -> F64:
    """The mean of each rank, float64[DRAWS, ranks], where `draws` of `values` are drawn by ranked
    set sampling, or all are measured as one rank."""
    if not len(values):  # a process that another run lacks
        return np.zeros((DRAWS, ranks))
    if ranks == 1 and draws >= len(values):
        return np.full((DRAWS, 1), values.mean())
    rows = ranked_draws(values, ranks, (DRAWS, max(draws // ranks, 1)), rng)
    means: F64 = values[rows].mean(axis=1)
    return means


def random_errors(
    values: F64,
    draws: int,
    rng: np.random.Generator,
    *,
    replacement: bool,
    counts: I64 | None = None,
) -> F64:
    """Errors of random draws from a stratum in which each of `values` occurs `counts` times
    [once]."""
    number = len(values) if counts is None else int(counts.sum())
    mean, variance = _moments(values, counts, number)
    if variance == 0.0 or (draws >= number and not replacement):
        return np.zeros(DRAWS)
    if draws >= MANY:
        return _of_many(values, draws, rng, replacement=replacement, counts=counts)
    rows = _rows(number, draws, rng, replacement=replacement)
    if counts is not None:
        rows = np.searchsorted(np.cumsum(counts), rows, side="right")
    error: F64 = number * (values[rows].mean(axis=1) - mean)
    return error


def _rows(number: int, draws: int, rng: np.random.Generator, *, replacement: bool) -> I64:
    """`draws` of `number` rows, int64[DRAWS, draws]; without replacement by Floyd's algorithm: a
    row that was drawn before gives way to the last one of a range that grows by one a draw."""
    picked = rng.random((DRAWS, draws))
    if replacement:
        return np.minimum((picked * number).astype(np.int64), number - 1)
    rows = np.empty((DRAWS, draws), dtype=np.int64)
    for i in range(draws):
        last = number - draws + i
        drawn = np.minimum((picked[:, i] * (last + 1)).astype(np.int64), last)
        again = (rows[:, :i] == drawn[:, np.newaxis]).any(axis=1)
        rows[:, i] = np.where(again, last, drawn)
    return rows


def _of_many(
    values: F64, draws: int, rng: np.random.Generator, *, replacement: bool, counts: I64 | None
) -> F64:
    """Errors of many draws: how often each group of values is drawn, and a normal sum of what the
    draws take from it. A few slices that take much of the time are drawn or not, which no normal
    error tells."""
    number = others = len(values) if counts is None else int(counts.sum())
    middle = _moments(values, counts, number)[0]
    left, error = np.full(DRAWS, draws), np.zeros(DRAWS)
    for own, often in _groups(values, counts, number):
        size = len(own) if often is None else int(often.sum())
        mean, variance = _moments(own, often, size)
        if size == others:
            hits = left
        elif replacement:
            hits = rng.binomial(left, size / others)
        else:
            hits = rng.hypergeometric(size, others - size, left)
        spread = variance * hits
        if not replacement:
            spread *= (size - hits) / max(size - 1, 1)
        error += hits * (mean - middle) + rng.normal(0.0, 1.0, DRAWS) * np.sqrt(spread)
        left, others = left - hits, others - size
    error *= number / draws
    return error


def _groups(values: F64, counts: I64 | None, number: int) -> Iterator[tuple[F64, I64 | None]]:
    """Values and how often they occur: each dominant one alone, then those farther than FAR
    standard deviations from the mean of what remains, TAILS times, then the others."""
    for tail in range(-1, TAILS):
        mean, variance = _moments(values, counts, number)
        far = _farther(
            values, mean, math.sqrt(variance * (FAR**2 if tail >= 0 else DOMINANT * number))
        )
        if not len(far):
            continue
        for rows in far[:, np.newaxis] if tail < 0 else [far]:
            yield values[rows], None if counts is None else counts[rows]
        values = np.delete(values, far)
        number -= len(far) if counts is None else int(counts[far].sum())
        counts = None if counts is None else np.delete(counts, far)
        if not number:
            return
    yield values, counts


def _farther(values: F64, middle: float, distance: float) -> I64:
    """The rows of values farther than that from the middle."""
    found = [
        piece.start + np.flatnonzero(np.abs(values[piece] - middle) > distance)
        for piece in pieces(len(values))
    ]
    return np.concatenate(found).astype(np.int64)


def _moments(values: F64, counts: I64 | None, number: int) -> tuple[float, float]:
    """Mean and variance, without arrays as long as `values`."""

    def mean(of: Callable[[F64], F64]) -> float:
        parts = (
            of(values[piece]).sum() if counts is None else np.dot(of(values[piece]), counts[piece])
            for piece in pieces(len(values))
        )
        return float(sum(parts) / number)

    middle = mean(lambda own: own)
    return middle, mean(lambda own: (own - middle) ** 2)


def _part_by_part(values: F64, draws: int, rng: np.random.Generator) -> F64:
    """Errors of drawing one slice at random from each of `draws` equal parts, the layout of
    representatives nearest to the centroid."""
    if len(values) <= draws or np.ptp(values) == 0.0:
        return np.zeros(DRAWS)
    bounds = np.arange(draws + 1) * len(values) // draws
    drawn = np.zeros(DRAWS)
    for begin, size in zip(bounds[:-1].tolist(), np.diff(bounds).tolist(), strict=True):
        drawn += size * values[begin + (rng.random(DRAWS) * size).astype(np.int64)]
    return drawn - float(values.sum())
