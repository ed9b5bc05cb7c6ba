# SPDX-License-Identifier: Apache-2.0
"""Start-up and exit of processes, which represent themselves.

The first slice of a process holds start-up, whichever kernel ends it, and the last one the exit. So
start-up matches start-up in another run, even if that launches another kernel first, and neither
says anything about the time of other slices.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from xpuprof.arrays import I64
from xpuprof.selection.selection import Selection
from xpuprof.trace.coordinates import NO_KERNELS


@dataclass(frozen=True, eq=False)
class Ends:
    """First and last rows of the processes that hold start-up and exit. Processes without an exit
    slice (profiles of kernels alone, windows of launches) have none."""

    process: I64
    first: I64
    last: I64

    @classmethod
    def of(cls, slices: pd.DataFrame) -> Ends:
        """Those of a slice table, for several processes with a column `process`."""
        owner = slices["process"].to_numpy() if "process" in slices else np.zeros(len(slices), int)
        last = np.flatnonzero(np.append(owner[1:] != owner[:-1], len(owner) > 0))
        closed = slices["kernel"].iloc[last].astype(str).isin(list(NO_KERNELS)).to_numpy()
        return cls._of(owner[last], last, closed)

    @classmethod
    def of_selection(cls, selection: Selection) -> Ends:
        """Those of a selection without a launch sequence, as its representatives tell."""
        last = np.cumsum(selection.layout.lengths) - 1
        exits = [r.cluster for r in selection.representatives if r.end.kernel in NO_KERNELS]
        closed = np.isin(selection.labels[last], exits)
        return cls._of(np.arange(len(last)), last, closed)

    @classmethod
    def _of(cls, process: I64, last: I64, closed: npt.NDArray[np.bool_]) -> Ends:
        first = np.append(0, last + 1)[:-1]
        held = closed & (last > first)
        return cls(process[held], first[held], last[held])

    def apart(self, selection: Selection) -> Ends:
        """Those processes whose start-up the selection clusters with start-ups alone, or leaves
        out. `self`: the selection's ends."""
        own = _clustered_alone(selection, self.first)
        return Ends(self.process[own], self.first[own], self.last[own])

    def clusters(self, selection: Selection) -> I64:
        """The selection's clusters of start-ups alone and of exits alone."""
        alone = [rows[_clustered_alone(selection, rows)] for rows in (self.first, self.last)]
        found = np.unique(selection.labels[np.concatenate(alone)])
        return found[found >= 0].astype(np.int64)

    def counterparts(self, other: Ends) -> tuple[I64, I64]:
        """First rows of the processes that both have, here and there."""
        _, own, others = np.intersect1d(self.process, other.process, return_indices=True)
        return self.first[own], other.first[others]


def _clustered_alone(selection: Selection, rows: I64) -> npt.NDArray[np.bool_]:
    """Whether each row's cluster has no slices but `rows`; true for uncovered rows."""
    labels, sizes = selection.labels[rows], selection.sizes
    held = labels >= 0
    number = np.bincount(labels[held], minlength=len(sizes))
    alone = np.ones(len(rows), dtype=bool)
    alone[held] = number[labels[held]] == sizes[labels[held]]
    return alone
