# SPDX-License-Identifier: Apache-2.0
"""Slices that the vectors put into the wrong cluster, as their times in every timer run show.

What is far from its cluster in one run only is noise: in the next run it is at other slices. Were
such slices taken out, the spread of the rest would lack it, and promise what no further run keeps.
Few runs cannot tell all of them: of slices that are slow in half of the runs, one in eight is so in
three. How many will not be slow again follows from those that were in every run but one, and others
of the cluster will be in their place: the rest has that much more noise.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from xpuprof.arrays import F64, I32, I64
from xpuprof.estimation.allocation import FAR, needed
from xpuprof.estimation.further_runs import SliceTimes

MUCH = 0.01
"""Share of the run's time in slices unlike their cluster from which the cluster is divided."""


def divide_unlike(labels: I32, times: SliceTimes) -> tuple[I32, SliceTimes]:
    """Give the slices that are unlike their cluster in every run one of their own where they hold
    MUCH of the time, and so on among these. Also returns the times with the noise of both.

    Vectors cannot show what such slices do: they build programs, wait, or page. However many
    representatives a mixture gets, those nearest to its centroid may all be of one kind. `labels`:
    dense from 0.
    """
    labels, number, noise = labels.copy(), int(labels.max()) + 1, times.noise.copy()
    total, open_ = float(times.typical.sum()), list(range(number))
    while open_:
        members = np.flatnonzero(labels == open_.pop())
        own = times.typical[members]
        middle = float(np.median(own))
        far = (own > FAR * middle) & (times.extremes[0, members] > FAR * middle)
        if float((own[far] - middle).sum()) >= MUCH * total:
            labels[members[far]] = number
            open_.append(number)
            number += 1
            often = (own > FAR * middle) & (times.inner[0, members] > FAR * middle)
            stay = times.stay(int(far.sum()), int((often & ~far).sum()))
            beyond = (own[far] - middle) ** 2
            noise[members[far]] += stay * (1.0 - stay) * beyond
            noise[members[~far]] += (1.0 - stay) * float(beyond.sum()) / np.count_nonzero(~far)
    return labels, replace(times, noise=noise)


def split_off_extremes(labels: I32, times: SliceTimes, target: float) -> tuple[I32, SliceTimes]:
    """Give outlying slices a cluster of their own if that lowers the total number of
    representatives. Also returns the times with the noise of those that remain.

    Survey sampling calls such units the take-all stratum: a first call that compiles or warms up
    costs as much as a hundred others, so it is measured separately instead of widening the spread
    of all. Only slices away from their cluster's median in every run are taken. `labels`: dense
    from 0, every slice covered.
    """
    labels, noise = labels.copy(), times.noise.copy()
    size, mean, spread = times.moments(labels)
    total, alone, number = float(times.typical.sum()), 0, len(size)
    for cluster in np.argsort(-size * spread, kind="stable").tolist():
        members = np.flatnonzero(labels == cluster)
        order, steps, rests, added = _farthest_first(times.only(members))
        best, fewest = 0, int(needed(size, spread, mean, total, target).sum()) + alone
        kept, more = (size[cluster], mean[cluster], spread[cluster]), 0.0
        for take, rest, extra in zip(steps, rests, added, strict=True):
            size[cluster], mean[cluster], spread[cluster] = rest
            # A slice that represents itself is one representative without spread.
            count = int(needed(size, spread, mean, total, target).sum()) + alone + take
            if count < fewest:
                best, fewest, more = take, count, extra
                kept = (size[cluster], mean[cluster], spread[cluster])
        size[cluster], mean[cluster], spread[cluster] = kept
        noise[members] += more
        labels[members[order[:best]]] = number + np.arange(best, dtype=np.int32)
        alone, number = alone + best, number + best
    return labels, replace(times, noise=noise)


def _farthest_first(
    times: SliceTimes,
) -> tuple[I64, list[int], list[tuple[int, float, float]], list[float]]:
    """The places of slices that stay away from the median of all in every run, the farthest first;
    how many of these to try to take; and for each such number the `moments` of the others, and the
    noise that each of these has beside its own, since some of those taken will not stay away."""
    middle = float(np.median(times.typical))
    away = times.away_from(middle)
    steps = _steps(len(away), int(np.count_nonzero(away)))
    if not steps:
        return np.empty(0, np.int64), [], [], []
    most, off = steps[-1], times.typical - middle
    least = np.partition(away, len(away) - most)[len(away) - most]
    there = np.flatnonzero(away >= least)
    order = there[np.argsort(-away[there], kind="stable")][:most]
    near = np.ones(len(off), bool)
    near[order] = False
    # Only ever added to, the smallest first: a difference would lose the digits of the rest.
    back = off[order[::-1]]
    total = float(off[near].sum()) + np.append(0.0, np.cumsum(back))
    square = float(np.dot(off[near], off[near])) + np.append(0.0, np.cumsum(back * back))
    noise = float(times.noise[near].sum()) + np.append(0.0, np.cumsum(times.noise[order[::-1]]))
    added = _noise_of_returns(times, middle, away[order], steps, np.cumsum(back[::-1] ** 2))
    rests = []
    for take, more in zip(steps, added, strict=True):
        number, own, own2 = len(off) - take, float(total[most - take]), float(square[most - take])
        variance = max(own2 - own * own / number, 0.0) / max(number - 1, 1)
        variance += float(noise[most - take]) / number + more
        rests.append((number, middle + own / number, math.sqrt(variance)))
    return order, steps, rests, added


def _noise_of_returns(
    times: SliceTimes, middle: float, away: F64, steps: list[int], square: F64
) -> list[float]:
    """Noise of each slice that remains when so many of those `away` (the farthest first) are taken,
    whose squared distances add up to `square`: of those that will not stay, others take the
    place."""
    often = np.sort(times.away_from(middle, but_one=True))
    added = []
    for take in steps:
        least = away[take - 1]
        every = int(np.searchsorted(-away, -least, side="right"))
        stay = times.stay(every, len(often) - int(np.searchsorted(often, least)) - every)
        added.append((1.0 - stay) * float(square[take - 1]) / (len(often) - take))
    return added


def _steps(members: int, away: int) -> list[int]:
    """1, 2, 3, 4, 6, 8, 12, ... up to those `away` and to a tenth of the members."""
    steps = sorted({round(2 ** (i / 2)) for i in range(1, 40)} | {1})
    return [step for step in steps if step <= min(max(members // 10, 1), away) and step < members]
