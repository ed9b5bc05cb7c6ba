# SPDX-License-Identifier: Apache-2.0
"""XPU-Point as its paper describes it (section IV-D), the baseline for our `xpu-point`.

k-means over the joint vectors of all slices, k by SimPoint's rule, one representative a cluster.
First and last slice are clustered like the others, vectors are counts, and nothing is taken for
noise. Warps share cells of the warp axis, and k-means has restarts, as in `xpu-point`.
"""

from __future__ import annotations

from typing import Any

from xpuprof.methods import clustered
from xpuprof.methods.declaration import CPU_WEIGHT, OF_SIMPOINT, Method, Need
from xpuprof.methods.profile import Slices
from xpuprof.selection.selection import Selection


def select(slices: Slices, *, seed: int, **options: Any) -> Selection:
    """Cluster by the counts of both sides; see `clustered.select`."""
    return clustered.select(slices, method=METHOD.name, seed=seed, **options, **METHOD.fixed)


METHOD = Method(
    name="xpu-point-published",
    help="XPU-Point as published: clusters of all slices, one representative each.",
    select=select,
    needs=(Need.VECTORS,),
    options=(*OF_SIMPOINT, CPU_WEIGHT),
    fixed={"counts": True, "per_cluster": 1, "ends": False, "resolution": 0.0},
    clusters=True,
)
