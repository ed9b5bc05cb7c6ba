# SPDX-License-Identifier: Apache-2.0
"""One selection on many machines: errors (XPU-Point, Fig. 11 and 13) and relative accuracy (PKA,
section 5.3: does the projected speed-up of one machine over another match the measured one?)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xpuprof.selection.selection import Selection
from xpuprof.validation.timed import Timed
from xpuprof.validation.validate import Validation, validate


@dataclass(frozen=True, eq=False)
class Row:
    """A machine of the table. The first row is the machine of origin.

    `measured_ratio` and `projected_ratio`: time of the machine of origin over the time here;
    `relative_error`: |1 - projected ratio / measured ratio|. 1, 1 and 0 in the first row.
    """

    name: str
    validation: Validation
    measured_ratio: float
    projected_ratio: float

    @property
    def relative_error(self) -> float:
        """A fraction."""
        return abs(1.0 - self.projected_ratio / self.measured_ratio)


def hold_against(
    selection: Selection, runs: Sequence[Timed], *, allow_missing: bool = False
) -> list[Row]:
    """`runs[0]` is the machine of origin. Errors as `validation.validate`."""
    checked = [validate(selection, run, allow_missing=allow_missing) for run in runs]
    origin = checked[0]
    return [
        Row(
            run.name,
            validation,
            origin.measured / validation.measured,
            origin.projected.value / validation.projected.value,
        )
        for run, validation in zip(runs, checked, strict=True)
    ]
