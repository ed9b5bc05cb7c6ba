# SPDX-License-Identifier: Apache-2.0
"""Whole-run metrics from a simulator's results for the selection's regions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xpuprof.estimation.metrics import Whole, whole_run
from xpuprof.formats.results import read_results
from xpuprof.selection.selection import Selection


def estimate_results(
    selection: Selection,
    results: Sequence[str],
    *,
    only: Sequence[str] = (),
    rates: Mapping[str, str | None] | None = None,
    sums: Sequence[str] = (),
    same_machine: bool = False,
) -> list[Whole]:
    """Every metric of the result files, or those in `only`. `results` as in `read_results`, `rates`
    and `sums` as in `whole_run`; `same_machine`: measured where the selection was made, so that its
    profiled times tell the spread. Raises InputError for a region without a result."""
    found = read_results(results, selection)
    return whole_run(selection, found, rates, sums, only=only or None, elsewhere=not same_machine)
