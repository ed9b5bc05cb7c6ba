# SPDX-License-Identifier: Apache-2.0
"""Selection from plain frequency vectors: SimPoint's problem and normalisation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from xpuprof.arrays import F64, I64, U64
from xpuprof.clustering.choice import Choice, choose_with_labels, parameters
from xpuprof.clustering.options import with_options
from xpuprof.clustering.points import of_signatures
from xpuprof.methods.block_vectors import FREQUENCY_DEFAULTS, FREQUENCY_DIM
from xpuprof.methods.clustered import selection_of
from xpuprof.selection.results import RunSummary
from xpuprof.selection.selection import Marker, Selection
from xpuprof.signature.matrix import frequency_signature


@dataclass(frozen=True)
class Intervals:
    """Slices identified only by number, 1-based."""

    marker: str

    def markers(self, rows: I64) -> list[Marker]:
        """The marker's name and the slice's number."""
        return [Marker(self.marker, row + 1) for row in rows.tolist()]

    def owners(self, rows: I64) -> I64:
        """Process 0 for every slice."""
        return np.zeros_like(rows)


def select(
    row_start: U64,
    dimension: U64,
    value: F64,
    *,
    seed: int,
    dim: int = FREQUENCY_DIM,
    marker: str = "interval",
    fixed_length: bool = True,
    **options: Any,
) -> tuple[Selection, F64]:
    """The selection and each slice's distance to its centroid.

    The vectors' row s is `dimension[row_start[s]:row_start[s + 1]]` with `value`. One
    representative per cluster unless `per_cluster` says otherwise; `marker` names the slices' ends.
    Without `fixed_length`, slices are weighted by length in the clustering; weights are then shares
    of all instructions and multipliers are ratios of instructions (Hamerly et al., "SimPoint 3.0",
    section 4: variable length intervals).
    """
    settings = with_options(**{**FREQUENCY_DEFAULTS, **options})
    signature = frequency_signature(row_start, dimension, value, seed=seed, dim=dim)
    mass = None if fixed_length else signature.extent * len(signature)
    data = of_signatures([signature], settings.ends, mass)
    choice, labelled = choose_with_labels(data, settings, seed)
    (slices,) = data.executor.results(labelled)
    if not fixed_length:
        choice = _by_length(choice, signature.extent)
    selection = selection_of(
        Intervals(marker),
        choice,
        method="simpoint",
        parameters={**parameters(signature.parameters, settings), "fixed_length": fixed_length},
        seed=seed,
        summary=RunSummary(slices=len(signature), instructions=float(signature.instructions.sum())),
    )
    return selection, np.sqrt(slices.distance2.astype(np.float64))


def _by_length(choice: Choice, extent: F64) -> Choice:
    """Weights and multipliers by length: a representative covers its share of its cluster's."""
    kept = choice.labels >= 0
    of_cluster = np.bincount(choice.labels[kept], extent[kept])
    slices = np.bincount(choice.labels[kept])
    own = choice.representatives
    share = own.stands_for / slices[own.cluster] * of_cluster[own.cluster]
    length = np.maximum(extent[own.slice], 1e-300)
    return replace(
        choice,
        weight=share,
        multiplier=share / length / of_cluster.sum(),
        covered=float(of_cluster.sum()),
    )
