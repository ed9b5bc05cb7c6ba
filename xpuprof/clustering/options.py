# SPDX-License-Identifier: Apache-2.0
"""How slices are clustered and represented."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from xpuprof.errors import UsageError

MAXK = 20
BIC_THRESHOLD = 0.9
"""The smallest k whose score reaches this share of the range from worst to best is chosen."""

RESOLUTION = 0.02
"""Slices whose vectors differ by less than this share of their norm are alike: the times of equal
slices differ as much, and block vectors differ from run to run (allocator, scheduling)."""


@dataclass(frozen=True)
class Options:
    """How to cluster slices and choose representatives.

    `k`: fixed number of clusters, else by BIC up to `maxk`. `per_cluster`: representatives a
    cluster, None: as many as an assumed spread of times requires or, with `target_error` (fraction,
    at 95 %) or `budget` (seconds for all representatives), the measured spread. `expected_error`:
    the same for an error to expect of further runs, in the clusters that the profile alone gives,
    if the times are known.
    `coverage`: share of the run to stand for. `early`: see `representatives.choose`. `ends`: the
    first and the last slice represent themselves, because only they hold start-up and exit,
    whatever their vectors. They count in `k`. `resolution`: relative difference of two slices that
    founds no cluster.
    """

    maxk: int = MAXK
    k: int | None = None
    per_cluster: int | None = None
    coverage: float = 1.0
    early: float | None = None
    target_error: float | None = None
    budget: float | None = None
    expected_error: float | None = None
    restarts: int | None = None
    bic_threshold: float = BIC_THRESHOLD
    ends: bool = True
    resolution: float = RESOLUTION

    @property
    def by_times(self) -> bool:
        """Whether measured times are needed for the number of representatives."""
        return self.target_error is not None or self.budget is not None

    def __post_init__(self) -> None:
        for name in ("maxk", "k", "per_cluster", "restarts"):
            value = getattr(self, name)
            if value is not None and value < 1:
                flag = "-k" if name == "k" else f"--{name.replace('_', '-')}"
                raise UsageError(f"{flag} must be at least 1, not {value}")
        if not 0.0 <= self.bic_threshold <= 1.0:
            raise UsageError(
                f"--bic-threshold must lie between 0 and 1, not {self.bic_threshold:g}"
            )
        if not 0.0 <= self.resolution < 1.0:
            raise UsageError(f"resolution must lie between 0 and 1, not {self.resolution:g}")
        if not 0.0 < self.coverage <= 1.0:
            raise UsageError(f"--coverage must be above 0 and at most 1, not {self.coverage:g}")
        if self.early is not None and not self.early >= 0.0:
            raise UsageError(f"--early must be 0 or more, not {self.early:g}")
        if self.target_error is not None and not 0.0 < self.target_error < 1.0:
            raise UsageError(
                f"--target-error must lie between 0 and 1 (0.05 is 5 %), not {self.target_error:g}"
            )
        if self.budget is not None and not self.budget > 0.0:
            raise UsageError(f"--budget must be more than 0 seconds, not {self.budget:g}")
        if self.expected_error is not None and not 0.0 < self.expected_error < 1.0:
            raise UsageError(
                f"the expected error must lie between 0 and 1, not {self.expected_error:g}"
            )
        if self.per_cluster is not None and (self.by_times or self.expected_error):
            raise UsageError("--per-cluster fixes what --target-error and --budget choose: omit it")
        if self.expected_error and self.by_times:
            raise UsageError("give either an expected error, or a target error and a budget")


def with_options(**values: Any) -> Options:
    """Options from keywords; UsageError for unknown and for contradictory ones."""
    if values.get("k") is not None and values.get("maxk") is not None:
        raise UsageError(
            "-k fixes the number of clusters, --maxk bounds the search for it: give one of them"
        )
    try:
        return replace(Options(), **values)
    except TypeError:
        known = ", ".join(asdict(Options()))
        raise UsageError(f"unknown option among {', '.join(values)}; known: {known}") from None
