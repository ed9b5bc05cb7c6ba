# SPDX-License-Identifier: Apache-2.0
"""How the slices of a selection were chosen, which determines the interval of its projection."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

How = Literal["random", "ranked", "nearest", "picked"]

NEAREST = "clusters of like slices, each represented by those nearest to its centroid"


@dataclass(frozen=True)
class Strata:
    """Columns of equal length, one row per stratum. The notation is that of STEM+ROOT, section 3.3.

    `size` (N_i) slices, `draws` (m_i) of them drawn; `mean` and `sigma` (population standard
    deviation) are those of the profiled times, in seconds, for which the draws were planned.
    """

    size: tuple[int, ...]
    draws: tuple[int, ...]
    mean: tuple[float, ...]
    sigma: tuple[float, ...]

    def __post_init__(self) -> None:
        if len({len(self.size), len(self.draws), len(self.mean), len(self.sigma)}) != 1:
            raise ValueError("the strata's columns differ in length")
        if not self.size or min(self.size) < 1 or min(self.draws) < 1:
            raise ValueError("a stratum has no slice or no draw")

    def __len__(self) -> int:
        return len(self.size)

    def between(self, first: int, end: int) -> Strata:
        """The strata from `first` up to, not including, `end`."""
        rows = slice(first, end)
        return Strata(self.size[rows], self.draws[rows], self.mean[rows], self.sigma[rows])


@dataclass(frozen=True)
class Design:
    """How the representatives were chosen.

    - `random`: drawn from `strata`, with or without `replacement`; stratum i is cluster i. The
      method states `error_bound`, a fraction of the total at `confidence`. Where it simulated its
      error, `quantile` is that over the standard deviation at `confidence`, or at 95 % if that is
      more, so that intervals of 95 % have it.
    - `ranked`: by ranked set sampling over the whole run; stratum i is rank i. Where processes were
      ranked one by one, `ranks` is how many strata each has; one that was measured whole has one.
    - `nearest`: each cluster's slices, in the order of the run, are cut into as many parts of equal
      size as it has representatives; in each part the slice nearest to the centroid is chosen.
    - `picked`: one member per cluster by a deterministic rule, so no theory gives an
      interval; `basis` is the reason.

    `basis` names the theory in one sentence.
    """

    how: How = "nearest"
    basis: str = NEAREST
    strata: Strata | None = None
    replacement: bool = False
    error_bound: float | None = None
    confidence: float | None = None
    quantile: float | None = None
    ranks: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if self.how not in get_args(How):
            raise ValueError(f"unknown design {self.how!r}")
        if (self.how in ("random", "ranked")) != (self.strata is not None):
            raise ValueError("random draws have strata, other designs have none")
        if self.ranks is not None:
            if self.how != "ranked" or self.strata is None or sum(self.ranks) != len(self.strata):
                raise ValueError("the ranks do not add up to the strata")
            if min(self.ranks) < 1:
                raise ValueError("a process has no rank")

    @classmethod
    def picked(cls, reason: str) -> Design:
        """One member per cluster, without an interval for this reason."""
        return cls("picked", reason)

    @property
    def planned(self) -> Strata | None:
        """The strata, if their draws were planned by profiled times, whose means are then not 0."""
        return self.strata if self.strata and any(self.strata.mean) else None

    @property
    def no_interval(self) -> str:
        """Why there is no interval; empty where there is one."""
        return self.basis if self.how == "picked" else ""

    def between(self, first: int, end: int) -> Design:
        """The design for clusters `first` up to `end`, without a bound of its own."""
        strata = None if self.strata is None else self.strata.between(first, end)
        return replace(
            self, strata=strata, error_bound=None, confidence=None, quantile=None, ranks=None
        )


def joined(designs: list[Design]) -> Design:
    """Join designs of one method, numbering their clusters consecutively. The individual bounds do
    not hold jointly, so none is kept. Among ranked ones, a short process is measured whole by a
    random design: one rank that leaves no error."""
    first = next((design for design in designs if design.how == "ranked"), designs[0])
    strata = [design.strata for design in designs if design.strata is not None]
    together = Strata(
        size=tuple(n for one in strata for n in one.size),
        draws=tuple(n for one in strata for n in one.draws),
        mean=tuple(x for one in strata for x in one.mean),
        sigma=tuple(x for one in strata for x in one.sigma),
    ) if strata else None  # fmt: skip
    ranks = tuple(map(len, strata)) if first.how == "ranked" else None
    return Design(first.how, first.basis, together, first.replacement, ranks=ranks)
