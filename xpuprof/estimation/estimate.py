# SPDX-License-Identifier: Apache-2.0
"""The one Estimate type: a projected number and its interval."""

from __future__ import annotations

import html
from dataclasses import dataclass

WIDE = 4.0
"""An interval whose ends differ by more than this factor is not usable."""


@dataclass(frozen=True)
class Estimate:
    """A projected metric of the whole run, in the metric's unit.

    `low` and `high` bound it at `confidence`; all three are None when the method has no theory for
    an interval. `basis` names the theory, or gives the reason in one sentence.
    """

    value: float
    low: float | None
    high: float | None
    confidence: float | None
    basis: str

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th>{name}</th><td>{html.escape(f'{value:g}')}</td></tr>"
            for name, value in (("value", self.value), ("low", self.low), ("high", self.high))
            if value is not None
        )
        sure = "no interval" if self.confidence is None else f"{100 * self.confidence:g} % interval"
        basis = html.escape(f"{sure}: {self.basis}")
        return f'<table border="1" class="dataframe">{rows}</table><p>{basis}</p>'

    @property
    def half_width(self) -> float:
        """Half-width of the interval, relative to the estimate; 0 without an interval."""
        if self.low is None or self.high is None or not self.value:
            return 0.0
        return (self.high - self.low) / 2.0 / abs(self.value)

    @property
    def wide(self) -> bool:
        """Whether there is an interval that is too wide to be of use."""
        if self.low is None or self.high is None:
            return False
        return self.low <= 0.0 < self.high or self.high > WIDE * self.low
