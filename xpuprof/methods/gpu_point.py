# SPDX-License-Identifier: Apache-2.0
"""GPU-Point: XPU-Point on the GPU part alone (section VI-A)."""

from __future__ import annotations

from typing import Any

from xpuprof.methods import clustered
from xpuprof.methods.declaration import CLUSTERING, Method, Need
from xpuprof.methods.profile import Slices
from xpuprof.selection.selection import Selection


def select(slices: Slices, *, seed: int, **options: Any) -> Selection:
    """Cluster by device vectors only; see `clustered.select`."""
    return clustered.select(slices, method="gpu-point", seed=seed, **options, **METHOD.fixed)


METHOD = Method(
    name="gpu-point",
    help="Clusters of device block vectors alone (XPU-Point, section VI-A).",
    select=select,
    needs=(Need.DEVICE_VECTORS,),
    options=CLUSTERING,
    bound="target_error",
    fixed={"cpu_weight": 0.0},
    clusters=True,
)
