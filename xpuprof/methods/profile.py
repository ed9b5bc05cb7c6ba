"""`SliceProfile`: what every sampling method reads, whoever measured it.

A recorded run, an Nsight Systems export and a CSV of hardware counters become the same thing: one
row a slice, perhaps its time, perhaps other metrics, perhaps basic-block vectors. A method asks for
what it needs; what is not there is a `NeedsError` that says which import or which command gives it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import sparse

from xpuprof.errors import InputError
from xpuprof.methods.declaration import Need
from xpuprof.selection.selection import Marker, Representative
from xpuprof.trace.coordinates import NO_KERNELS, JobRow
from xpuprof.trace.layout import MIX
from xpuprof.trace.tables import Process

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]
Vectors = Callable[[], "sparse.csr_matrix | None"]

COLUMNS = ("kernel", "call")
"""What the slice table must have; see `trace.tables.Process.slices` for the others."""
GRID = ("gx", "gy", "gz")
BLOCK = ("lx", "ly", "lz")


class NeedsError(InputError):
    """A method needs what this profile lacks; the text is the reason that `compare` prints."""


@dataclass(frozen=True, eq=False)
class SliceProfile:
    """One row a slice, in order of the run.

    `slices`: columns as `trace.tables.Process.slices` (kernel and call at least; kernel may be
    categorical, which 50 million rows want). `times`: float64[slices], seconds, what the methods
    select by and what a measured slice costs. `metrics`: further float64[slices] by name, each in
    its own unit. `gpu_vectors`, `cpu_vectors`: give a sparse slices x blocks matrix of
    instruction-weighted block counts, or None.
    """

    slices: pd.DataFrame
    times: F64 | None = None
    metrics: Mapping[str, F64] = field(default_factory=dict)
    gpu_vectors: Vectors | None = None
    cpu_vectors: Vectors | None = None
    clusters: Callable[[int], I32] | None = None
    """Gives the XPU-BBV cluster of each slice for a seed, where there are vectors."""
    time_name: str = "time"
    """Which of the metrics `times` is."""
    name: str = "profile"
    startup: bool = False
    """Times of slices, not of kernels: a process's first holds the program's start-up too."""

    def __post_init__(self) -> None:
        count = len(self.slices)
        if not count:
            raise InputError(f"{self.name}: the profile has no slices; was anything recorded?")
        missing = [column for column in COLUMNS if column not in self.slices]
        if missing:
            raise InputError(f"{self.name}: the slice table lacks the column {missing[0]!r}")
        if self.times is not None:
            _check_values(self.name, self.time_name, self.times, count)
            if float(self.times.sum()) <= 0.0:
                raise InputError(
                    f"{self.name}: every slice has {self.time_name} zero, so there is nothing to "
                    "estimate; import a profile with a finer clock"
                )
        for metric, values in self.metrics.items():
            if len(values) != count:
                raise InputError(
                    f"{self.name}: {metric} has {len(values)} values for {count} slices"
                )

    def __len__(self) -> int:
        return len(self.slices)

    def require_times(self, method: str) -> F64:
        """Slice times in seconds; NeedsError when the profile has none."""
        if self.times is None:
            raise NeedsError(f"{method} needs {Need.TIMES.value}")
        return self.times

    def require_instructions(self, method: str) -> F64:
        """Device instructions a slice, float64[slices]; NeedsError when not known."""
        self.require_every_launch(method)
        for metric in ("gpu_instructions", "inst_executed", "instructions"):
            if metric in self.metrics:
                return self.checked(metric)
        if "gpu_instructions" in self.slices:
            counts = self.slices["gpu_instructions"].to_numpy(np.float64)
            if counts.any():
                return counts
        raise NeedsError(f"{method} needs {Need.INSTRUCTIONS.value}")

    def require_gpu_vectors(self, method: str) -> sparse.csr_matrix:
        """Instruction-weighted device block vectors, slices x blocks; NeedsError without them."""
        self.require_every_launch(method)
        matrix = self.gpu_vectors() if self.gpu_vectors else None
        if matrix is None or not matrix.nnz:
            raise NeedsError(f"{method} needs device {Need.VECTORS.value}")
        return matrix

    def require_every_launch(self, method: str) -> None:
        """NeedsError when launches were left out by choice, so that their counts are not known."""
        if "left_out" in self.slices and (number := int(self.slices["left_out"].sum())):
            raise NeedsError(
                f"{method} needs counts of every launch, and --kernels left {number} out: record "
                "the program without it, or take a method that clusters vectors or one by times"
            )

    def checked(self, metric: str) -> F64:
        """Metric by name (or the times by theirs); InputError when unknown, NaN or negative."""
        if metric == self.time_name and self.times is not None:
            return self.times
        if metric not in self.metrics:
            own = [self.time_name] if self.times is not None else []
            known = ", ".join(sorted({*self.metrics, *own})) or "none"
            raise InputError(f"{self.name} has no metric {metric!r}; it has: {known}")
        values = np.asarray(self.metrics[metric], dtype=np.float64)
        _check_values(self.name, metric, values, len(self))
        return values

    def with_times(self, metric: str) -> SliceProfile:
        """The same profile selecting by another time-like metric (cycles, gpu_time)."""
        return replace(
            self,
            times=self.checked(metric),
            time_name=metric,
            startup=metric in ("time", "cpu_time"),
        )

    def kernel_codes(self) -> tuple[npt.NDArray[np.integer[Any]], Sequence[str]]:
        """(code of each slice's kernel name, the names); codes are dense from 0."""
        column = self.slices["kernel"]
        if isinstance(column.dtype, pd.CategoricalDtype):
            return column.cat.codes.to_numpy(), list(column.cat.categories)
        codes, names = pd.factorize(column)
        return codes.astype(np.int32), list(names)

    def groups(self, *, grid: bool) -> I32:
        """Dense group id of each slice: by kernel name, with `grid` also by grid and block."""
        codes, _ = self.kernel_codes()
        if not grid:
            return codes.astype(np.int32, copy=False)
        result = codes.astype(np.int64)
        for column in (*GRID, *BLOCK):
            if column in self.slices:
                values, inverse = np.unique(self.slices[column].to_numpy(), return_inverse=True)
                # Re-numbered at every step, so the product never overflows.
                result = np.unique(result * len(values) + inverse, return_inverse=True)[1]
        return result.astype(np.int32)

    def markers(self, rows: I64) -> list[Marker]:
        """The markers that end the slices `rows`."""
        part = self.slices.iloc[rows]
        kernels = part["kernel"].astype(object).tolist()
        calls = part["call"].tolist()
        programs = part["program"].tolist() if "program" in part else [""] * len(part)
        sizes = [
            part[name].fillna(0).tolist() if name in part else [0] * len(part)
            for name in (*GRID, *BLOCK)
        ]
        return [
            Marker(
                kernel=str(kernels[i]),
                call=int(calls[i]),
                program=programs[i] if isinstance(programs[i], str) else "",
                grid=(int(sizes[0][i]), int(sizes[1][i]), int(sizes[2][i])),
                block=(int(sizes[3][i]), int(sizes[4][i]), int(sizes[5][i])),
            )
            for i in range(len(part))
        ]

    def representatives(
        self,
        rows: I64,
        clusters: I64,
        multipliers: F64,
        weights: F64,
        draws: I64 | None = None,
    ) -> tuple[Representative, ...]:
        """Representatives of the given rows (equal lengths), in order of the run."""
        order = np.argsort(rows, kind="stable")
        rows = rows[order]
        process = np.zeros(len(rows), dtype=np.int64)
        before = process
        if "process" in self.slices:
            owners = self.slices["process"].to_numpy()
            process, before = owners[rows], owners[np.maximum(rows - 1, 0)]
        ends = self.markers(rows)
        starts = self.markers(np.maximum(rows - 1, 0))
        first = (rows == 0) | (process != before)
        return tuple(
            Representative(
                slice=JobRow(int(rows[i])),
                end=ends[i],
                start=None if first[i] else starts[i],
                cluster=int(clusters[pick]),
                multiplier=float(multipliers[pick]),
                weight=float(weights[pick]),
                draws=int(draws[pick]) if draws is not None else 1,
                process=int(process[i]),
            )
            for i, pick in enumerate(order.tolist())
        )

    def summary(self) -> dict[str, object]:
        """The whole run in a few numbers, for `Selection.summary`."""
        names = self.kernel_codes()[1]
        result: dict[str, object] = {
            "slices": len(self),
            "kernels": sum(name not in NO_KERNELS for name in names),
        }
        if self.times is not None:
            result[self.time_name] = float(self.times.sum())
        return result


def _check_values(profile: str, metric: str, values: F64, count: int) -> None:
    if len(values) != count:
        raise InputError(f"{profile}: {metric} has {len(values)} values for {count} slices")
    # One pass for the sum, two for the extremes: no 50-million-entry masks.
    low = float(np.min(values))
    if np.isnan(low) or not np.isfinite(float(np.max(values))):
        row = int(np.flatnonzero(~np.isfinite(values))[0])
        raise InputError(
            f"{profile}: {metric} of slice {row} is not a finite number; leave that launch out or "
            "export the profile again"
        )
    if low < 0.0:
        row = int(np.argmin(values))
        raise InputError(
            f"{profile}: {metric} of slice {row} is negative ({values[row]:g}); the source's clock "
            "or column map is wrong"
        )


MIX_METRICS = {
    "global_loads": "LOAD_GLOBAL",
    "global_stores": "STORE_GLOBAL",
    "shared_loads": "LOAD_LOCAL",
    "shared_stores": "STORE_LOCAL",
    "private_accesses": "PRIVATE",
    "atomics": "ATOMIC",
}
"""Metrics of a recorded run, and the instruction class that each counts (layout.MIX)."""


def from_process(process: Process, times: F64 | None = None, name: str = "run") -> SliceProfile:
    """The profile of a recorded process; `times` are its slice times in seconds, if timed.

    Metrics are of the device's warps: a load that 32 work-items of a warp execute counts once.
    """
    counts = {
        column: process.slices[column].to_numpy(np.float64)
        for column in ("cpu_instructions", "gpu_instructions", "warps")
        if column in process.slices
    }
    return SliceProfile(
        slices=process.slices,
        times=times,
        metrics={**counts, **_mix(process)},
        gpu_vectors=lambda: _gpu_matrix(process),
        cpu_vectors=lambda: _cpu_matrix(process),
        clusters=lambda seed: _clusters(process, seed),
        name=name,
        startup=True,
    )


def from_processes(
    slices: pd.DataFrame, processes: Sequence[Process], times: F64 | None = None, name: str = "run"
) -> SliceProfile:
    """The profile of several processes, one after the other; `slices` is their joint table, with a
    column `process`, `times` are of all its rows."""
    own = [from_process(process) for process in processes]
    common = set.intersection(*(set(profile.metrics) for profile in own))
    return SliceProfile(
        slices=slices,
        times=times,
        metrics={
            metric: np.concatenate([profile.metrics[metric] for profile in own])
            for metric in own[0].metrics
            if metric in common
        },
        gpu_vectors=lambda: _stacked(
            [_gpu_matrix(p) for p in processes],
            [p.gpu.blocks.identity if p.gpu else None for p in processes],
        ),
        cpu_vectors=lambda: _stacked(
            [_cpu_matrix(p) for p in processes],
            [p.cpu.blocks.identity if p.cpu else None for p in processes],
        ),
        clusters=lambda seed: _job_clusters(processes, seed),
        name=name,
        startup=True,
    )


def _stacked(
    matrices: Sequence[sparse.csr_matrix | None],
    identities: Sequence[npt.NDArray[np.uint64] | None],
) -> sparse.csr_matrix | None:
    """Rows of all processes; a block is one column wherever it is executed. None when a process
    has no vectors."""
    if any(matrix is None for matrix in matrices):
        return None
    every, column = np.unique(
        np.concatenate([i for i in identities if i is not None]), return_inverse=True
    )
    parts, first = [], 0
    for matrix in matrices:
        assert matrix is not None
        entries = matrix.tocoo()
        place = column[first : first + matrix.shape[1]][entries.col]
        shape = (matrix.shape[0], len(every))
        parts.append(sparse.coo_matrix((entries.data, (entries.row, place)), shape=shape))
        first += matrix.shape[1]
    return sparse.vstack(parts).tocsr()


def _job_clusters(processes: Sequence[Process], seed: int) -> I32:
    from xpuprof.clustering.cluster import Options
    from xpuprof.methods import job  # as for _clusters

    return job.select_job(job.held(processes), job.Plan(seed=seed), Options()).labels


def _mix(process: Process) -> dict[str, F64]:
    """Executed instructions by class, of every slice."""
    counts = _grid_counts(process)
    if counts is None or process.gpu is None:
        return {}
    launched = np.flatnonzero(process.gpu.launch_grid >= 0)
    result = {}
    for metric, kind in MIX_METRICS.items():
        per_grid = np.asarray(counts @ process.gpu.mix[:, MIX[kind]].astype(np.float64)).ravel()
        values = np.zeros(len(process.slices))
        values[launched] = per_grid[process.gpu.launch_grid[launched]]
        result[metric] = values
    return result | _divergence(process)


def _divergence(process: Process) -> dict[str, F64]:
    """Share of a warp's work-items that execute its instructions, of every launch; nothing when
    an instrumented launch does not tell."""
    launches, warp_size = process.launches, process.meta.warp_size
    lanes = launches["lane_instructions"].to_numpy(np.float64)
    executed = process.slices["gpu_instructions"].to_numpy(np.float64)[: len(launches)]
    if not warp_size or not lanes.any() or (executed[lanes == 0.0] > 0.0).any():
        return {}
    values = np.zeros(len(process.slices))
    values[: len(launches)] = lanes / np.maximum(warp_size * executed, 1.0)
    return {"divergence_efficiency": values}


def _clusters(process: Process, seed: int) -> I32:
    from xpuprof.methods import xpu_point  # which needs the signature code, others do not

    return xpu_point.select(process, seed=seed).labels


def _grid_counts(process: Process) -> sparse.csr_matrix | None:
    """Executions of each block, grids x blocks, summed over the warps."""
    gpu = process.gpu
    if gpu is None or len(gpu.vector_start) < 2:
        return None
    vectors = sparse.csr_matrix(
        (
            gpu.count.astype(np.float64),
            gpu.block.astype(np.int64),
            gpu.vector_start.astype(np.int64),
        ),
        shape=(len(gpu.vector_start) - 1, len(gpu.blocks.identity)),
    )
    grids = sparse.csr_matrix(
        (
            gpu.run_length.astype(np.float64),
            gpu.run_vector.astype(np.int64),
            gpu.grid_start.astype(np.int64),
        ),
        shape=(len(gpu.grid_start) - 1, vectors.shape[0]),
    )
    return (grids @ vectors).tocsr()


def _gpu_matrix(process: Process) -> sparse.csr_matrix | None:
    """slices x blocks, summed over the warps of each launch, weighted by instructions."""
    counts = _grid_counts(process)
    if counts is None or process.gpu is None:
        return None
    launched = np.flatnonzero(process.gpu.launch_grid >= 0)
    pick = sparse.csr_matrix(
        (np.ones(len(launched)), (launched, process.gpu.launch_grid[launched])),
        shape=(len(process.slices), counts.shape[0]),
    )
    weights = sparse.diags(process.gpu.blocks.instructions.astype(np.float64))
    return (pick @ counts @ weights).tocsr()


def _cpu_matrix(process: Process) -> sparse.csr_matrix | None:
    """slices x blocks, summed over the threads, weighted by instructions."""
    cpu = process.cpu
    if cpu is None or not len(cpu.block):
        return None
    weighted = cpu.count.astype(np.float64) * cpu.blocks.instructions[cpu.block]
    return sparse.coo_matrix(
        (weighted, (cpu.slice.astype(np.int64), cpu.block.astype(np.int64))),
        shape=(len(process.slices), len(cpu.blocks.identity)),
    ).tocsr()
