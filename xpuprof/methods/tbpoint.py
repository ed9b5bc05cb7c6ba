# SPDX-License-Identifier: Apache-2.0
"""TBPoint: hierarchical clustering of kernel launches.

Huang, Nai, Kim, Lee: "TBPoint: Reducing Simulation Time for Large-Scale GPGPU Kernels", IPDPS 2014;
inter-launch sampling. The paper tunes the threshold by hand; here it is swept as in PKA's
comparison (MICRO 2021, section 5.1): 20 values from 0.01 to 0.2, and the coarsest clustering whose
error is below the target.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage

from xpuprof.arrays import F64, I64
from xpuprof.methods import one_per_cluster
from xpuprof.methods.declaration import TARGET, Method, Need
from xpuprof.methods.profile import SliceProfile
from xpuprof.selection.selection import Selection

THRESHOLDS = tuple(round(0.01 * i, 2) for i in range(20, 0, -1))
MOST_POINTS = 5000
"""Hierarchical clustering is quadratic: 5,000 points need 100 MB of distances."""
BASIS = (
    "TBPoint has no theory of its error: the threshold is chosen so that the profiled error is "
    "below the target"
)
_MEMORY = (
    ("gld_request", "gst_request"),
    ("smsp__inst_executed_op_global_ld.sum", "smsp__inst_executed_op_global_st.sum"),
    ("global_load_transactions", "global_store_transactions"),
    ("global_loads", "global_stores"),
)


def select(
    profile: SliceProfile,
    *,
    seed: int = 0,
    target: float = 0.05,
) -> Selection:
    """Select one launch per cluster, the nearest to its centre.

    Deterministic: `seed` is only recorded. Time is projected by instructions (launches of a cluster
    run at one IPC). Raises NeedsError without times or instruction counts.
    """
    times = profile.require_times("tbpoint")
    rows = one_per_cluster.kernel_rows(profile)
    instructions = profile.require_instructions("tbpoint")[rows]
    points, inverse, cell = merged(features(profile, rows, instructions))
    tree = linkage(points, method="complete") if len(points) > 1 else None

    def clusterings() -> Iterator[tuple[float, I64, I64]]:
        for threshold in sorted(THRESHOLDS, reverse=True):
            groups = np.zeros(len(points), dtype=np.int64)
            if tree is not None:
                groups = fcluster(tree, threshold, criterion="distance")
            labels = one_per_cluster.dense(groups[inverse])
            chosen = one_per_cluster.nearest_to_centre(labels, points[inverse])
            yield threshold, labels, chosen

    threshold, labels, chosen, errors = one_per_cluster.least_error(
        clusterings(), times[rows], target, instructions
    )
    return one_per_cluster.select(
        profile,
        rows,
        labels,
        chosen,
        method="tbpoint",
        parameters={"target": target, "threshold": threshold, "cell": cell},
        seed=seed,
        basis=BASIS,
        work=instructions,
        scores={"errors": errors},
    )


def features(profile: SliceProfile, rows: I64, instructions: F64) -> F64:
    """Inter-launch feature vector, each part over its mean: size (instructions), instructions per
    warp (control flow divergence), memory requests per instruction (memory divergence) and CTA
    size, where the profile has them."""
    parts = [instructions]
    metrics = profile.metrics
    if "warps" in metrics:
        warps = profile.checked("warps")[rows]
        parts.append(instructions / np.maximum(warps, 1.0))
    for loads, stores in _MEMORY:
        if loads in metrics and stores in metrics:
            requests = profile.checked(loads)[rows] + profile.checked(stores)[rows]
            parts.append(requests / np.maximum(instructions, 1.0))
            break
    if "thread_cov" in metrics:
        parts.append(profile.checked("thread_cov")[rows])
    table = np.column_stack(parts)
    mean = table.mean(axis=0)
    return table / np.where(mean > 0.0, mean, 1.0)


def merged(table: F64) -> tuple[F64, I64, float]:
    """Distinct points, the point of each row, and the cell size they were rounded to (0: exact).

    If there are too many points for quadratic clustering, they are first merged on a grid whose
    cells double until few enough remain.
    """
    cell = 0.0
    rounded = table
    while True:
        points, inverse = np.unique(rounded, axis=0, return_inverse=True)
        if len(points) <= MOST_POINTS:
            return points, inverse, cell
        cell = cell * 2.0 if cell else min(THRESHOLDS) / 10.0
        rounded = np.round(table / cell) * cell


METHOD = Method(
    name="tbpoint",
    help="Hierarchical clusters of launches by their instruction counts (IPDPS 2014).",
    select=select,
    needs=(Need.TIMES, Need.INSTRUCTIONS),
    options=(TARGET,),
    bound="target",
)
