# SPDX-License-Identifier: Apache-2.0
"""XPU-Point (section IV): cluster slices by the code that CPU and GPU execute; the slices nearest
to the centroid represent each cluster."""

from __future__ import annotations

from typing import Any

from xpuprof.methods import clustered
from xpuprof.methods.declaration import CLUSTERING, CPU_WEIGHT, Method, Need
from xpuprof.methods.profile import Slices
from xpuprof.selection.selection import Selection


def select(slices: Slices, *, seed: int, **options: Any) -> Selection:
    """Cluster by the vectors of both sides; see `clustered.select`."""
    return clustered.select(slices, method="xpu-point", seed=seed, **options)


METHOD = Method(
    name="xpu-point",
    help="Clusters of CPU and device block vectors, each represented by its slices nearest to the "
    "centroid.",
    select=select,
    needs=(Need.VECTORS,),
    options=(*CLUSTERING, CPU_WEIGHT),
    bound="target_error",
    clusters=True,
    rank=1,
)
