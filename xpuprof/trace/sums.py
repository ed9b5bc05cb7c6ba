# SPDX-License-Identifier: Apache-2.0
"""What is added up over a process, and over the processes of a job."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import reduce
from typing import Any

ENDED = "the process ended before the counts were read"
NOT_READ = "its counts could not be read"
"""The engines' words for a kernel that ended without counts that fit it."""


@dataclass(frozen=True)
class KernelSums:
    """The launches of one kernel name."""

    calls: int = 0
    instrumented: int = 0
    warps: int = 0
    instructions: int = 0


@dataclass(frozen=True)
class CpuLines:
    """Cache lines that the CPU touched, and how many were new."""

    lines: int
    cold: int


@dataclass(frozen=True)
class DeviceAccesses:
    """Launches whose accesses to global memory were recorded."""

    launches: int = 0
    in_part: int = 0
    accesses: int = 0
    recorded: int = 0
    lines: int = 0
    cold: int = 0
    beyond: int = 0
    forgot: int = 0

    @property
    def share(self) -> float:
        """The recorded share of all accesses."""
        return self.recorded / self.accesses if self.accesses else 1.0


@dataclass(frozen=True)
class Sums:
    """Sums over a process, or over its window. `of_slices` and `of_launches` are those of the whole
    process, without what it left unfinished."""

    slices: int = 0
    launches: int = 0
    seen: int = 0
    """Launches in the window, as are `instrumented` and `left_out`."""
    instrumented: int = 0
    left_out: int = 0
    """Launches uninstrumented by choice (`--kernels`)."""
    of_slices: int = 0
    of_launches: int = 0
    unfinished: int = 0
    """Launches recorded after the last finished slice."""
    openings: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    """Unintended uninstrumented launches, by reason; empty where counts were never read."""
    kernels: dict[str, KernelSums] = field(default_factory=dict)
    cpu_instructions: int = 0
    threads: int = 0
    images: int = 0
    cpu_blocks: int = 0
    gpu_blocks: int = 0
    warp_vectors: int = 0
    grids: int = 0
    cpu_lines: CpuLines | None = None
    """None unless stack distances were recorded, as is `device`."""
    device: DeviceAccesses | None = None

    @property
    def warps(self) -> int:
        """Warps of all kernels."""
        return sum(sums.warps for sums in self.kernels.values())

    @property
    def gpu_instructions(self) -> int:
        """GPU instructions of all kernels."""
        return sum(sums.instructions for sums in self.kernels.values())

    @property
    def not_read(self) -> int:
        """Launches whose counts are lost though they ended well."""
        return self.reasons.get(NOT_READ, 0)

    @property
    def uninstrumented(self) -> dict[str, int]:
        """Launches that should have been instrumented but were not, by reason, most frequent
        first."""
        rows = sorted(self.reasons.items(), key=lambda row: -row[1])
        return {reason or ENDED: number for reason, number in rows}

    def kernels_by_share(self) -> list[tuple[str, KernelSums, float]]:
        """Name, sums and share of the device's instructions, by share, then by calls."""
        every = max(self.gpu_instructions, 1)
        rows = [(name, own, own.instructions / every) for name, own in self.kernels.items()]
        return sorted(rows, key=lambda row: (-row[1].instructions, -row[1].calls, row[0]))


def total(sums: Iterable[Sums]) -> Sums:
    """The sums of several processes."""
    return reduce(added, sums, Sums())


def added(a: Any, b: Any) -> Any:
    """Numbers are added, mappings key by key, values field by field; None is nothing."""
    if a is None or b is None:
        return b if a is None else a
    if isinstance(a, dict):
        return {key: added(a.get(key), b.get(key)) for key in a | b}
    if is_dataclass(a):
        values = {f.name: added(getattr(a, f.name), getattr(b, f.name)) for f in fields(a)}
        return replace(b, **values)
    return a + b
