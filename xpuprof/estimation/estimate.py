# SPDX-License-Identifier: Apache-2.0
"""The one Estimate type: a projected number and how far it can be trusted."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Estimate:
    """A projected metric of the whole run, in the metric's unit.

    `low` and `high` bound it at `confidence`; all three are None when the method has no theory
    that gives an interval, and `basis` then says so in one sentence (else it names the theory).
    """

    value: float
    low: float | None
    high: float | None
    confidence: float | None
    basis: str
