"""From clusters to representatives: which slices of a cluster stand for it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Picks:
    """Rows of equal length, one a representative: its slice, its cluster, how many slices it stands
    for (the size of its part of the cluster)."""

    slice: I64
    cluster: I64
    stands_for: F64


def pick(labels: I32, distance2: F64, representatives: I64, early: float | None = None) -> Picks:
    """`representatives[c]` slices of each cluster c (0: none).

    A cluster's slices, in the order of the run, are cut into that many runs of equal size; each run
    is represented by its slice nearest to the centroid. Several representatives are thus spread
    over the run, and see drift and disturbances in proportion. Among equally near slices the one
    in the middle of its run is taken: the first is where caches are cold and code is compiled.

    With `early` (a fraction of the cluster's root mean square radius) the earliest slice is taken
    that lies no more than that farther from the centroid than the nearest; 0 gives SimPoint's ties.
    """
    order = np.argsort(labels, kind="stable")
    starts = np.searchsorted(labels[order], np.arange(len(representatives) + 1))
    chosen: list[tuple[int, int, int]] = []
    for cluster, wanted in enumerate(representatives):
        members = order[starts[cluster] : starts[cluster + 1]]
        wanted = min(int(wanted), len(members))
        if not wanted:
            continue
        radius = float(np.sqrt(distance2[members].mean()))
        cuts = np.arange(wanted + 1) * len(members) // wanted
        for begin, end in pairwise(cuts.tolist()):
            run = members[begin:end]
            chosen.append((_of_run(run, distance2[run], radius, early), cluster, end - begin))
    chosen.sort()
    rows = np.array(chosen, dtype=np.int64).reshape(-1, 3)
    return Picks(rows[:, 0], rows[:, 1], rows[:, 2].astype(np.float64))


def _of_run(run: npt.NDArray[np.intp], distance2: F64, radius: float, early: float | None) -> int:
    if early is None:
        near = np.flatnonzero(distance2 == distance2.min())
        return int(run[near[np.argmin(np.abs(2 * near - (len(run) - 1)))]])
    bound = np.sqrt(distance2.min()) + early * radius
    return int(run[np.argmax(np.sqrt(distance2) <= bound)])
