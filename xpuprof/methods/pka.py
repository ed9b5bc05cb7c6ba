# SPDX-License-Identifier: Apache-2.0
"""PKA, Principal Kernel Selection: PCA and k-means over microarchitecture-agnostic counters.

Avalos Baddouh et al.: "Principal Kernel Analysis: A Tractable Methodology to Simulate Scaled GPU
Workloads", MICRO 2021, section 3.1 and Table 2. Its other half, the projection inside a kernel, is
`pkp`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.linear_model import SGDClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler

from xpuprof.arrays import F64, I64
from xpuprof.methods import one_per_cluster
from xpuprof.methods.declaration import AT_LEAST_1, TARGET, Method, Need, Option, Range
from xpuprof.methods.profile import BLOCK, GRID, NeedsError, SliceProfile
from xpuprof.selection.selection import Selection

TABLE_2: dict[str, tuple[str, ...]] = {
    "coalesced global loads": (
        "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
        "gld_transactions",
        "global_load_transactions",
        "gpgpu_n_mem_read_global",
    ),
    "coalesced global stores": (
        "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
        "gst_transactions",
        "global_store_transactions",
        "gpgpu_n_mem_write_global",
    ),
    "coalesced local loads": (
        "l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum",
        "local_load_transactions",
        "gpgpu_n_mem_read_local",
    ),
    "thread global loads": (
        "smsp__inst_executed_op_global_ld.sum",
        "inst_executed_global_loads",
        "gld_request",
        "global_loads",
        "gpgpu_n_load_insn",
    ),
    "thread global stores": (
        "smsp__inst_executed_op_global_st.sum",
        "inst_executed_global_stores",
        "gst_request",
        "global_stores",
        "gpgpu_n_store_insn",
    ),
    "thread local loads": (
        "smsp__inst_executed_op_local_ld.sum",
        "inst_executed_local_loads",
        "local_load",
        "private_accesses",
    ),
    "thread shared loads": (
        "smsp__inst_executed_op_shared_ld.sum",
        "inst_executed_shared_loads",
        "shared_load",
        "shared_loads",
        "gpgpu_n_shmem_insn",
    ),
    "thread shared stores": (
        "smsp__inst_executed_op_shared_st.sum",
        "inst_executed_shared_stores",
        "shared_store",
        "shared_stores",
    ),
    "thread global atomics": (
        "smsp__sass_inst_executed_op_global_atom.sum",
        "inst_executed_global_atomics",
        "atom_count",
        "atomics",
    ),
    "#instructions": (
        "smsp__inst_executed.sum",
        "inst_executed",
        "gpu_instructions",
        "gpu_sim_insn",
    ),
    "divergence efficiency": (
        "smsp__thread_inst_executed_per_inst_executed.ratio",
        "warp_execution_efficiency",
        "divergence_efficiency",
    ),
    "#thread blocks": ("launch__grid_size", "thread_blocks"),
}
"""The 12 metrics: Nsight Compute's name first, then those of nvprof, a recorded run and
GPGPU-Sim (which counts shared loads and stores together)."""

NEEDED = "#instructions"
LEAST = 4
"""Fewer metrics than this do not characterise a kernel."""
DETAIL_HELP = (
    "counters of its Table 2 ({missing} missing): import an Nsight Compute CSV "
    "(`ncu --csv --page raw --metrics ...`) or an nvprof CSV that has them"
)
MAX_K = 20
BASIS = "PKA has no theory of its error: k is chosen so that the profiled error is below the target"


def select(
    profile: SliceProfile,
    *,
    seed: int = 0,
    target: float = 0.05,
    max_k: int = MAX_K,
    choice: str = "first",
    variance: float = 0.9995,
    detailed: int | None = None,
    classifier: str = "sgd",
) -> Selection:
    """Select one kernel per group: the smallest k in 1..`max_k` with an error below `target`.

    `choice`: representative of a group, "first" (chronological, the paper's), "centre" or "random".
    `variance`: share kept by the principal components. `detailed`: two-level profiling, where this
    many leading kernels form the groups and `classifier` ("sgd", "gnb", "mlp") maps the others. If
    no k reaches the target, the k with the smallest error is used. Raises NeedsError without times
    or without the counters.
    """
    times = profile.require_times("pka")
    profile.require_every_launch("pka")
    rows = one_per_cluster.kernel_rows(profile)
    features, missing = characteristics(profile, rows)
    known = len(rows) if detailed is None else max(1, min(detailed, len(rows)))
    reduced = principal(features[:known], variance)
    points, inverse, weight = np.unique(reduced, axis=0, return_inverse=True, return_counts=True)
    rng = np.random.default_rng(seed)

    def clusterings() -> Iterator[tuple[int, I64, I64]]:
        for k in range(1, min(max_k, len(points)) + 1):
            means = KMeans(k, n_init=3, random_state=seed).fit(points, sample_weight=weight)
            groups = one_per_cluster.dense(means.labels_[inverse])
            labels = groups
            if known < len(rows):
                labels = classify(profile, rows, groups, classifier, seed)
            yield k, labels, _choose(groups, reduced, choice, rng)

    k, labels, chosen, errors = one_per_cluster.least_error(
        clusterings(), times[rows], target, None
    )
    return one_per_cluster.select(
        profile,
        rows,
        labels,
        chosen,
        method="pka",
        parameters={
            "target": target,
            "max_k": max_k,
            "choice": choice,
            "variance": variance,
            "detailed": detailed,
            "classifier": classifier if known < len(rows) else None,
        },
        seed=seed,
        basis=BASIS,
        scores={"errors": errors, "k": k, "missing_metrics": missing},
    )


def characteristics(profile: SliceProfile, rows: I64) -> tuple[F64, list[str]]:
    """The metrics of Table 2 that the profile has, rows x metrics, and the names of the others."""
    found: list[F64] = []
    missing: list[str] = []
    for metric, sources in TABLE_2.items():
        source = next((name for name in sources if name in profile.metrics), None)
        if source is not None:
            found.append(profile.checked(source)[rows])
        elif metric == "#thread blocks" and _has_grid(profile):
            found.append(_thread_blocks(profile)[rows])
        else:
            missing.append(metric)
    if NEEDED in missing or len(found) < LEAST:
        raise NeedsError(f"pka needs {DETAIL_HELP.format(missing=', '.join(missing))}")
    return np.column_stack(found), missing


def principal(features: F64, variance: float) -> F64:
    """Standardised features projected on the principal components that keep `variance`."""
    scaled = StandardScaler().fit_transform(features)
    if not scaled.any():
        return np.zeros((len(features), 1))
    reduced: F64 = PCA(n_components=variance, svd_solver="full").fit_transform(scaled)
    # Equal kernels must stay equal points; differences below this are rounding.
    return np.round(reduced, 9)


def classify(profile: SliceProfile, rows: I64, groups: I64, classifier: str, seed: int) -> I64:
    """Two-level profiling (section 3.1): groups of all `rows` from those of the first
    len(`groups`), by what a light profile records: kernel name, grid and block."""
    light = _light_features(profile, rows)
    known = len(groups)
    if groups.max() == 0:
        return np.zeros(len(rows), dtype=np.int64)
    scaler = StandardScaler().fit(light[:known])
    model = {
        "sgd": lambda: SGDClassifier(random_state=seed),
        "gnb": lambda: GaussianNB(),
        "mlp": lambda: MLPClassifier(hidden_layer_sizes=(64,), max_iter=300, random_state=seed),
    }[classifier]()
    model.fit(scaler.transform(light[:known]), groups)
    rest = model.predict(scaler.transform(light[known:]))
    return np.concatenate([groups, np.asarray(rest, dtype=np.int64)])


def _light_features(profile: SliceProfile, rows: I64) -> F64:
    """One-hot kernel names (those of the profile) and log grid and block sizes."""
    codes, names = profile.kernel_codes()
    one_hot = np.zeros((len(rows), len(names)))
    one_hot[np.arange(len(rows)), codes[rows]] = 1.0
    sizes = [
        np.log1p(profile.slices[column].to_numpy(np.float64)[rows])
        for column in (*GRID, *BLOCK)
        if column in profile.slices
    ]
    return np.column_stack([one_hot, *sizes])


def _choose(groups: I64, points: F64, choice: str, rng: np.random.Generator) -> I64:
    if choice == "first":
        return one_per_cluster.first_of_each(groups)
    if choice == "centre":
        return one_per_cluster.nearest_to_centre(groups, points)
    return np.array([rng.choice(np.flatnonzero(groups == g)) for g in range(groups.max() + 1)])


def _has_grid(profile: SliceProfile) -> bool:
    """Whether a grid is known: where it is not, it is 0."""
    columns = all(column in profile.slices for column in (*GRID, *BLOCK))
    return columns and bool(profile.slices["gx"].any())


def _thread_blocks(profile: SliceProfile) -> F64:
    blocks = np.ones(len(profile))
    for size, group in zip(GRID, BLOCK, strict=True):
        blocks *= np.ceil(
            profile.slices[size].to_numpy(np.float64)
            / np.maximum(profile.slices[group].to_numpy(np.float64), 1.0)
        )
    return blocks


METHOD = Method(
    name="pka",
    help="Principal components and k-means over counters of Table 2 (MICRO 2021).",
    select=select,
    needs=(Need.TIMES, Need.COUNTERS),
    options=(
        TARGET,
        Option("max_k", int, 20, "Most groups to try.", within=AT_LEAST_1),
        Option(
            "choice",
            str,
            "first",
            "Representative of a group: first, centre or random.",
            words=("first", "centre", "random"),
        ),
        Option(
            "variance",
            float,
            0.9995,
            "Share that the principal components keep.",
            within=Range(0.01, 0.999999),
        ),
        Option(
            "detailed",
            int,
            None,
            "Kernels that are profiled in detail [all].",
            within=AT_LEAST_1,
        ),
        Option(
            "classifier",
            str,
            "sgd",
            "What maps the other kernels: sgd, gnb or mlp.",
            words=("sgd", "gnb", "mlp"),
        ),
    ),
    bound="target",
)
