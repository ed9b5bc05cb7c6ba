# SPDX-License-Identifier: Apache-2.0
"""What identifies launches and processes in another execution, as values without tables."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

Size = tuple[int, int, int]


class LaunchKind(NamedTuple):
    """What equal launches share; zeros and empty strings are unknown."""

    kernel: str
    program: str
    grid: Size
    block: Size
    range: str = ""
    """The operator or annotated range that launched it, known for imported profiles."""


@dataclass(frozen=True)
class LaunchSequence:
    """The order of a run's slices: `order` has the index in `kinds` of every slice, in run-length
    coded lines."""

    kinds: tuple[LaunchKind, ...]
    order: tuple[str, ...]

    @cached_property
    def digest(self) -> str:
        """Equal for equal sequences."""
        return hashlib.sha256(json.dumps([self._kinds(), self.order]).encode()).hexdigest()

    def as_json(self) -> dict[str, object]:
        """For the selection file."""
        return {"digest": self.digest, "kinds": self._kinds(), "order": self.order}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> LaunchSequence:
        """From `as_json`."""
        kinds = [
            LaunchKind(str(kernel), str(program), size_of(grid), size_of(block), *map(str, more))
            for kernel, program, grid, block, *more in stored["kinds"]
        ]
        return cls(tuple(kinds), tuple(map(str, stored["order"])))

    def _kinds(self) -> list[tuple[object, ...]]:
        fields = None if any(kind.range for kind in self.kinds) else -1
        return [tuple(kind)[:fields] for kind in self.kinds]


@dataclass(frozen=True)
class Key:
    """Identifies a process in another execution: its rank, if any, and its launches."""

    label: str
    """For messages and file names: `rank0`, or `process0` in order of creation."""
    rank: int | None
    digest: str
    slices: int

    def as_json(self) -> dict[str, object]:
        """For the selection file and `--json`."""
        return dict(vars(self))

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Key:
        """From `as_json`."""
        rank = stored["rank"]
        return cls(
            str(stored["label"]),
            None if rank is None else int(rank),
            str(stored["digest"]),
            int(stored["slices"]),
        )


def size_of(numbers: Iterable[Any]) -> Size:
    """A grid or block size from three numbers."""
    x, y, z = map(int, numbers)
    return x, y, z
