# SPDX-License-Identifier: Apache-2.0
"""Violations that the invariant checkers find, and where."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from xpuprof.arrays import Mask

Numbers = Sequence[int] | npt.NDArray[Any]

EXAMPLES = 5
"""Violations of one invariant in one process that are reported individually."""


@dataclass(frozen=True)
class Violation:
    """A violated invariant and where it occurred."""

    invariant: str
    execution: str
    process: str
    message: str
    slice: int | None = None
    thread: int | None = None

    def __str__(self) -> str:
        where = ["/".join(filter(None, (self.execution, self.process)))]
        where += [f"slice {self.slice}"] if self.slice is not None else []
        where += [f"thread {self.thread}"] if self.thread is not None else []
        return f"{self.invariant}: {', '.join(where)}: {self.message}"


class Findings:
    """Violations in one process: of each invariant the first few, and the number of all."""

    def __init__(self, execution: str, process: str) -> None:
        self._place = execution, process
        self._kept: dict[str, list[Violation]] = {}
        self._all: Counter[str] = Counter()

    def __contains__(self, invariant: str) -> bool:
        return invariant in self._kept

    def one(self, invariant: str, message: str) -> None:
        """Add a violation."""
        self.add(invariant, np.ones(1, bool), message)

    def add(
        self,
        invariant: str,
        wrong: Mask,
        message: str,
        *values: Numbers,
        slices: Numbers | None = None,
        threads: Numbers | None = None,
    ) -> None:
        """Add a violation for each row marked in `wrong`; `message` with the row's values."""
        rows = np.flatnonzero(wrong)
        if not len(rows):
            return
        kept = self._kept.setdefault(invariant, [])
        self._all[invariant] += len(rows)
        for row in rows[: EXAMPLES - len(kept)].tolist():
            text = message.format(*(column[row] for column in values)) if values else message
            place = [None if column is None else int(column[row]) for column in (slices, threads)]
            kept.append(Violation(invariant, *self._place, text, *place))

    def violations(self) -> list[Violation]:
        """The examples, the last of which states how many more there are."""
        for invariant, kept in self._kept.items():
            if more := self._all[invariant] - len(kept):
                last = replace(kept[-1], message=f"{kept[-1].message} (and {more} more)")
                self._kept[invariant] = [*kept[:-1], last]
        return [violation for kept in self._kept.values() for violation in kept]
