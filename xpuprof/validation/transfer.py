"""One selection on many machines: errors (XPU-Point, Fig. 11 and 13) and relative accuracy (PKA,
section 5.3: does the projected speed-up of one machine over another match the measured one?)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

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

    def as_json(self) -> dict[str, Any]:
        """Plain values; times in seconds, errors and shares as fractions."""
        v = self.validation
        moved = v.transplant
        return {
            "run": self.name,
            "slices": v.selection.slices,
            "measured_s": v.measured,
            "projected_s": v.projected.value,
            "interval_s": [v.projected.low, v.projected.high],
            "sampling_error": v.error,
            "inner_error": v.inner_error,
            "speedup": v.speedup,
            "covered": v.selection.covered,
            "missing": len(moved.missing),
            "stand_ins": len(moved.stand_ins),
            "attributed_slices": len(moved.attributed),
            "unknown_slices": len(moved.unknown),
            "gone_share": moved.gone,
            "unknown_time_share": v.unknown_time,
            "unknown_effect": v.unknown_effect,
            "measured_ratio": self.measured_ratio,
            "projected_ratio": self.projected_ratio,
            "relative_error": self.relative_error,
            "differences": list(v.differences),
        }


def transfer(
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
