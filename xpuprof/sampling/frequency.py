"""Selection from plain frequency vectors: SimPoint's own problem, with SimPoint's normalisation."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from xpuprof.sampling.cluster_method import choose_with_distances, parameters, with_options
from xpuprof.sampling.selection import Marker, Selection
from xpuprof.sampling.xpu_point import representatives
from xpuprof.signature.matrix import frequency_signature

F64 = npt.NDArray[np.float64]
U64 = npt.NDArray[np.uint64]

DIM = 15
"""SimPoint's default."""


def select(
    row_start: U64,
    dimension: U64,
    value: F64,
    *,
    seed: int,
    dim: int = DIM,
    marker: str = "interval",
    **options: Any,
) -> tuple[Selection, F64]:
    """The selection, and each slice's distance to its centroid.

    The vectors' row s is `dimension[row_start[s]:row_start[s + 1]]` with `value`. One
    representative a cluster unless `per_cluster` says otherwise; `marker` names the slices' ends.
    """
    settings = with_options(**{"per_cluster": 1, "ends": False, **options})
    signature = frequency_signature(row_start, dimension, value, seed=seed, dim=dim)
    choice, distance = choose_with_distances(signature, settings, seed)
    selection = Selection(
        method="simpoint",
        parameters=parameters(signature.parameters, settings),
        seed=seed,
        representatives=representatives(choice, lambda row: Marker(marker, row + 1)),
        labels=choice.labels,
        covered=choice.covered,
        scores=choice.report(),
        summary={"slices": len(signature), "instructions": float(signature.instructions.sum())},
    )
    return selection, distance
