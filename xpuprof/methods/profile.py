# SPDX-License-Identifier: Apache-2.0
"""`SliceProfile`: what every sampling method reads, whatever its source.

A recorded run, an Nsight Systems export and a CSV of hardware counters become the same thing: one
row per slice, with optional times, other metrics and basic-block vectors. A method asks for what it
needs; missing data raises a `NeedsError` that names the import or command that provides it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import sparse

from xpuprof.arrays import F64, I32, I64
from xpuprof.errors import InputError
from xpuprof.estimation.further_runs import SliceTimes
from xpuprof.methods.declaration import Need
from xpuprof.selection.results import RunSummary
from xpuprof.selection.selection import Marker, Representative
from xpuprof.trace.coordinates import NO_KERNELS, JobRow
from xpuprof.trace.pieces import pieces

if TYPE_CHECKING:
    from xpuprof.methods.block_vectors import BlockVectors

Vectors = Callable[[], "sparse.csr_matrix | None"]

COLUMNS = ("kernel", "call")
"""Required columns of the slice table; `trace.tables.Process.slices` lists the others."""
GRID = ("gx", "gy", "gz")
BLOCK = ("lx", "ly", "lz")


class NeedsError(InputError):
    """A method needs data that the profile lacks; `compare` prints the text as the reason."""


class Boundaries(Protocol):
    """Markers at which slices end."""

    def markers(self, rows: I64) -> list[Marker]:
        """The markers that end the slices `rows`."""
        ...

    def owners(self, rows: I64) -> I64:
        """The processes of the slices `rows`."""
        ...


class Slices(Boundaries, Protocol):
    """The slices to select from, one row each, in run order, in memory or on workers."""

    @property
    def name(self) -> str:
        """Name for messages."""
        ...

    @property
    def times(self) -> F64 | None:
        """float64[slices], seconds, typical of `repeats` timer runs."""
        ...

    @property
    def timed(self) -> SliceTimes | None:
        """The same with what the timer runs tell of further ones; None if unknown."""
        ...

    @property
    def vectors(self) -> BlockVectors | None:
        """Vectors for clustering methods."""
        ...

    def at_hand(self) -> SliceProfile:
        """The same, with all tables in this process."""
        ...


def representatives(
    slices: Boundaries,
    rows: I64,
    clusters: I64,
    multipliers: F64,
    weights: F64,
    draws: I64 | None = None,
) -> tuple[Representative, ...]:
    """Representatives of the given rows (equal lengths), in run order."""
    order = np.argsort(rows, kind="stable")
    rows = rows[order]
    owners = slices.owners(rows)
    first = (rows == 0) | (slices.owners(np.maximum(rows - 1, 0)) != owners)
    markers = slices.markers(np.concatenate([rows, rows[~first] - 1]))
    starts = iter(markers[len(rows) :])
    return tuple(
        Representative(
            slice=JobRow(int(rows[i])),
            end=markers[i],
            start=None if first[i] else next(starts),
            cluster=int(clusters[row]),
            multiplier=float(multipliers[row]),
            weight=float(weights[row]),
            draws=1 if draws is None else int(draws[row]),
            process=int(owners[i]),
        )
        for i, row in enumerate(order.tolist())
    )


@dataclass(frozen=True, eq=False)
class SliceProfile:
    """One row per slice, in run order.

    `slices`: columns as `trace.tables.Process.slices` (kernel and call at least; kernel may be
    categorical, as 50 million rows require). `times`: float64[slices], seconds, both the selection
    criterion and the cost of measuring a slice. `metrics`: further float64[slices] by name, each in
    its own unit, perhaps made on first use. `gpu_vectors`, `cpu_vectors`: return a sparse slices x
    blocks matrix of instruction-weighted block counts, or None; `class_vectors`: see
    `recorded.class_matrix`.
    """

    slices: pd.DataFrame
    times: F64 | None = None
    metrics: Mapping[str, F64] = field(default_factory=dict)
    gpu_vectors: Vectors | None = None
    cpu_vectors: Vectors | None = None
    class_vectors: Vectors | None = None
    vectors: BlockVectors | None = None
    """The same vectors for clustering methods: by thread and warp, where known."""
    timed: SliceTimes | None = None
    """`times` with what the timer runs tell of further ones; None: one run, or unknown."""
    time_name: str = "time"
    """Name of the metric in `times`."""
    name: str = "profile"
    startup: bool = False
    """Times are of slices, not kernels: a process's first includes program start-up."""

    def __post_init__(self) -> None:
        count = len(self.slices)
        if not count:
            raise InputError(f"{self.name}: the profile has no slices; record or import it again")
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

    def __len__(self) -> int:
        return len(self.slices)

    def has(self, need: Need) -> bool:
        """Whether the profile meets a need; counters are known to the method that asks for them."""
        try:
            return {
                Need.VECTORS: lambda: self.vectors is not None,
                Need.DEVICE_VECTORS: lambda: self.require_gpu_vectors("") is not None,
                Need.TIMES: lambda: self.times is not None,
                Need.INSTRUCTIONS: lambda: self.require_instructions("") is not None,
                Need.COUNTERS: lambda: bool(self.metrics),
            }[need]()
        except NeedsError:
            return False

    def require_times(self, method: str) -> F64:
        """Slice times in seconds; NeedsError when the profile has none."""
        if self.times is None:
            raise NeedsError(f"{method} needs {Need.TIMES.value}")
        return self.times

    def require_instructions(self, method: str) -> F64:
        """Device instructions per slice, float64[slices]; NeedsError when unknown."""
        self.require_every_launch(method)
        for metric in ("gpu_instructions", "inst_executed", "instructions", "gpu_sim_insn"):
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
            raise NeedsError(f"{method} needs {Need.DEVICE_VECTORS.value}")
        return matrix

    def warp_classes(self) -> sparse.csr_matrix | None:
        """Device block vectors by warp class; None if unknown."""
        return self.class_vectors() if self.class_vectors else None

    def require_every_launch(self, method: str) -> None:
        """Raises NeedsError when --kernels excluded launches, so that their counts are unknown."""
        if "left_out" in self.slices and (number := int(self.slices["left_out"].sum())):
            raise NeedsError(
                f"{method} needs counts of every launch, but --kernels left {number} out: record "
                "the program without it, or take a method that clusters vectors or one by times"
            )

    def checked(self, metric: str) -> F64:
        """Metric by name, the times included; InputError when unknown, NaN or negative."""
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
            timed=self.timed if metric == self.time_name else None,
        )

    def kernel_codes(self) -> tuple[npt.NDArray[np.integer[Any]], Sequence[str]]:
        """(code of each slice's kernel name, names); codes are dense from 0, in order of first
        appearance, so that what is drawn does not depend on how kernels are called."""
        column = self.slices["kernel"]
        if isinstance(column.dtype, pd.CategoricalDtype):
            return _by_appearance(column.cat.codes.to_numpy(), list(column.cat.categories))
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
                # Renumber at every step, so that the product never overflows.
                result = np.unique(result * len(values) + inverse, return_inverse=True)[1]
        return result.astype(np.int32)

    def markers(self, rows: I64) -> list[Marker]:
        """The markers that end the slices `rows`."""
        return markers_of(self.slices, rows)

    def owners(self, rows: I64) -> I64:
        """The processes of the slices `rows`; 0 if the table has no processes."""
        if "process" not in self.slices:
            return np.zeros(len(rows), dtype=np.int64)
        return self.slices["process"].to_numpy()[rows].astype(np.int64)

    def at_hand(self) -> SliceProfile:
        """The profile itself."""
        return self

    def representatives(
        self,
        rows: I64,
        clusters: I64,
        multipliers: F64,
        weights: F64,
        draws: I64 | None = None,
    ) -> tuple[Representative, ...]:
        """Representatives of the given rows; see `representatives`."""
        return representatives(self, rows, clusters, multipliers, weights, draws)

    def summary(self) -> RunSummary:
        """The value of `Selection.summary`."""
        names = self.kernel_codes()[1]
        total = {} if self.times is None else {self.time_name: float(self.times.sum())}
        kernels = sum(name not in NO_KERNELS for name in names)
        return RunSummary(slices=len(self), kernels=kernels, metrics=total)


def _by_appearance(
    codes: npt.NDArray[np.integer[Any]], names: list[str]
) -> tuple[npt.NDArray[np.integer[Any]], Sequence[str]]:
    """Codes renumbered in order of first appearance, and their names; unused ones are left out."""
    first = np.full(len(names), len(codes))
    for piece in pieces(len(codes)):
        own, at = np.unique(codes[piece], return_index=True)
        first[own] = np.minimum(first[own], at + piece.start)
    order = np.argsort(first, kind="stable")[: np.count_nonzero(first < len(codes))]
    if np.array_equal(order, np.arange(len(names))):
        return codes, names
    number = np.zeros(len(names), codes.dtype)
    number[order] = np.arange(len(order))
    return number[codes], [names[code] for code in order.tolist()]


def markers_of(slices: pd.DataFrame, rows: I64) -> list[Marker]:
    """The markers that end the slices `rows` of a table."""
    part = slices.iloc[rows]
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
