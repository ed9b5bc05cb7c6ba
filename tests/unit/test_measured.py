# SPDX-License-Identifier: Apache-2.0
"""Typical times that are never in memory for all runs are those computed from all at once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.support.runs_made_up import made_up_run, select_by_kernel
from xpuprof.estimation import quantiles
from xpuprof.estimation.intervals import estimate, estimate_measured
from xpuprof.estimation.measured import Measured, by_cluster, gathered
from xpuprof.estimation.typical_times import Repeats, typical_times
from xpuprof.selection.selection import Selection
from xpuprof.trace import pieces
from xpuprof.trace.spilled import Spilled

SLICES = 1000


def selection() -> Selection:
    """Three kernels in turn; a tenth of the slices is not covered."""
    chosen = select_by_kernel(made_up_run([f"k{i % 3}/64" for i in range(SLICES - 1)]))
    labels = np.where(np.arange(SLICES) % 10 == 7, -1, chosen.labels).astype(np.int32)
    labels[[r.slice for r in chosen.representatives]] = [r.cluster for r in chosen.representatives]
    return replace(chosen, labels=labels, covered=float(np.mean(labels >= 0)))


@pytest.mark.parametrize("runs", [1, 2, 3, 4, 5])
def test_times_in_a_file_give_what_times_in_memory_give(
    runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIVEN runs whose times are read in pieces of 64 THEN totals, clusters, representatives and
    the estimate are those of all times at once."""
    monkeypatch.setattr(pieces, "_PIECE", 64)
    chosen = selection()
    times = np.random.default_rng(1).gamma(2.0, 1e-5, (runs, SLICES))
    with Spilled() as kept:
        for row in times:
            kept.add(row)
        measured, known = gathered(chosen, Repeats(kept.length, kept.sums, kept.read))
    typical = typical_times(times)
    at_once = Measured.at(chosen, typical)
    assert (measured.total, measured.inner) == pytest.approx((at_once.total, at_once.inner))
    assert measured.of == pytest.approx(at_once.of, rel=1e-12)
    assert known.left_out == pytest.approx(typical[chosen.labels < 0])
    for cluster, size in enumerate(chosen.sizes):
        assert len(known.of(cluster)) == size
        assert known.of(cluster) == pytest.approx(typical[chosen.labels == cluster])
    found, expected = estimate_measured(chosen, measured, known), estimate(chosen, times)
    assert found.basis == expected.basis
    assert [found.value, found.low, found.high] == pytest.approx(
        [expected.value, expected.low, expected.high]
    )


@pytest.mark.parametrize("size", [1, 2, 3, 100, 101])
def test_a_median_without_a_copy(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The median equals numpy's, with ties, zeros and values 300 orders of magnitude apart."""
    monkeypatch.setattr(quantiles, "FEW", 0)
    monkeypatch.setattr(pieces, "_PIECE", 7)
    rng = np.random.default_rng(size)
    for values in (
        rng.gamma(2.0, 1e-5, size),
        rng.integers(0, 3, size).astype(float),
        10.0 ** rng.uniform(-150, 150, size),
    ):
        assert quantiles.median(values) == np.median(values)


def test_clusters_lie_in_run_order() -> None:
    """Representatives nearest to a centroid are redrawn from equal parts of the run."""
    chosen = selection()
    known = by_cluster(chosen, np.arange(SLICES, dtype=float))
    assert all((np.diff(known.of(cluster)) > 0).all() for cluster in range(len(chosen.sizes)))
