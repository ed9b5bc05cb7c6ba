# SPDX-License-Identifier: Apache-2.0
"""What a method reports besides its choice: intermediate results, and the whole run in numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from xpuprof.selection import document


@dataclass(frozen=True)
class Allotment:
    """Representatives for an expected error, and what the profile alone would have chosen: number,
    time (share of the run) and the error to expect of further runs. `number_for_goal` and
    `time_for_goal`: what the wanted error would have taken; None if it is met."""

    number: int
    time: float
    expected_error: float
    number_by_profile: int
    time_by_profile: float
    expected_error_by_profile: float
    number_for_goal: int | None = None
    time_for_goal: float | None = None


@dataclass(frozen=True)
class Scores:
    """Intermediate results of a method; empty where it has none."""

    clusters: int | None = None
    """Clusters that were found, before slices were set apart."""
    bic: Mapping[int, float] = field(default_factory=dict)
    """BIC by number of clusters."""
    wcss: float | None = None
    """Sum of squares within the clusters."""
    candidates: int | None = None
    """k-means|| candidates that represented the slices in the search for k."""
    allotment: Allotment | None = None
    """What the measured times changed."""
    own: Mapping[str, object] = field(default_factory=dict)
    """What this method alone reports, in JSON's types."""

    def as_json(self) -> dict[str, object]:
        """For the selection file; only what is known."""
        stated = {
            "clusters": self.clusters,
            "bic": {str(k): score for k, score in self.bic.items()} or None,
            "wcss": self.wcss,
            "candidates": self.candidates,
            "allotment": self.allotment and _known(asdict(self.allotment)),
        }
        return {**self.own, **_known(stated)}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Scores:
        """From `as_json`."""
        names = {field.name for field in fields(cls)}
        allotment = stored.get("allotment")
        bic = document.mapping(stored.get("bic", {}), "bic")
        return cls(
            _optional(document.integer, stored, "clusters"),
            {int(k): document.number(x, "bic") for k, x in bic.items()},
            _optional(document.number, stored, "wcss"),
            _optional(document.integer, stored, "candidates"),
            None if allotment is None else Allotment(**allotment),
            {name: value for name, value in stored.items() if name not in names},
        )


_COUNTS = ("slices", "launches", "kernels", "cpu_instructions", "gpu_instructions")


@dataclass(frozen=True)
class RunSummary:
    """The whole run in a few numbers; None where unknown."""

    slices: int | None = None
    launches: int | None = None
    kernels: int | None = None
    """Distinct kernel names."""
    cpu_instructions: int | None = None
    gpu_instructions: int | None = None
    instructions: float | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Totals by name: `time` in seconds, or another metric of an imported profile."""
    runs: tuple[str, ...] = ()
    """Names of several processes."""
    slices_by_run: tuple[int, ...] = ()
    regions_before: int | None = None
    """For a part of a job's selection, the representatives in earlier processes."""

    @classmethod
    def added_up(cls, summaries: Sequence[RunSummary]) -> RunSummary:
        """Counts summed over processes (a kernel name is counted in each)."""
        first = summaries[0]
        counted = (*_COUNTS, "instructions")
        known = [name for name in counted if getattr(first, name) is not None]
        sums: dict[str, Any] = {
            name: sum(getattr(one, name) or 0 for one in summaries) for name in known
        }
        metrics = {n: sum(one.metrics.get(n, 0.0) for one in summaries) for n in first.metrics}
        return cls(**sums, metrics=metrics)

    def as_json(self) -> dict[str, object]:
        """For the selection file; only what is known."""
        stated = {name: value for name, value in vars(self).items() if value != ()}
        return {**stated.pop("metrics"), **_known(stated)}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> RunSummary:
        """From `as_json`."""
        own = {f.name for f in fields(cls)} - {"metrics"}
        return cls(
            **{name: _optional(document.integer, stored, name) for name in _COUNTS},
            instructions=_optional(document.number, stored, "instructions"),
            metrics={n: document.number(x, n) for n, x in stored.items() if n not in own},
            runs=tuple(map(str, stored.get("runs", ()))),
            slices_by_run=tuple(map(int, stored.get("slices_by_run", ()))),
            regions_before=_optional(document.integer, stored, "regions_before"),
        )


def _known(stated: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in stated.items() if value is not None}


def _optional(check: Any, stored: Mapping[str, Any], name: str) -> Any:
    return check(stored[name], name) if name in stored else None
