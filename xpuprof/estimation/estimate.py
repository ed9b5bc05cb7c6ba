# SPDX-License-Identifier: Apache-2.0
"""The one Estimate type: a projected number and its interval."""

from __future__ import annotations

from dataclasses import dataclass


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
