# SPDX-License-Identifier: Apache-2.0
"""From block vectors to the matrix to cluster: the XPU-BBV of XPU-Point, section IV.

CPU part and GPU part "need to be projected separately" because they differ in magnitude (section
IV-D). Stack-distance vectors (LDV), where the run has them, form a further part on each side. Each
part becomes a mix (where its instructions go, normalised) and a length (how many there are, over
the mean), each scaled so that neither part outweighs the other. docs/selection.md gives the
reasons.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from xpuprof.arrays import F32, F64, I64
from xpuprof.errors import InputError, UsageError
from xpuprof.signature import kernels

if TYPE_CHECKING:  # see kernels.py
    from xpuprof.trace.tables import CpuVectors, Process


DIM = 64
WARP_BUCKETS = 32
CPU_WEIGHT = 0.5
MEMORY_WEIGHT = 0.25
"""Share of a side (CPU, GPU) that its stack distances take, if it has any."""
LENGTH_WEIGHT = 4.0
"""Distance between two slices of equal mix whose lengths differ by the mean length, in units of the
root mean square norm of a part's mixes."""
TRANSFER_WEIGHT = 0.1
"""Weight of the bytes that slices move, beside the weights of the sides, which add up to 1."""
MOST_BUILT = 32
"""Slices of a run that hold a build, each set apart for itself."""
BUILD_CLASSES = 32
"""Clusters of further such slices: those whose instructions are the same power of 4."""
BYTE_WORK = 0.2
"""CPU instructions in the time that a transfer takes for a byte."""
LAUNCH_WORK = 20_000.0
"""CPU instructions in the time that a launch and its completion take: 5 to 10 us on any runtime."""
WARP_WORK = 0.01
"""CPU instructions in the time of a warp instruction on a GPU that is full. The least to be
expected, so that CPU work counts as soon as it may matter on some machine."""


@dataclass(frozen=True, eq=False)
class Signature:
    """The vectors of the slices, ready for clustering.

    `matrix`: float32[slices, dimensions]. `extent`: float64[slices], each slice's share of the
    run's instructions (the CPU and GPU parts as shares of their own totals, weighted as the parts
    are); it adds up to 1. `instructions`: float64[slices], CPU and GPU together. `parameters`: the
    options used. `builds`: as `builds_of`, None if unknown.
    """

    matrix: F32
    extent: F64
    instructions: F64
    parameters: Mapping[str, Any]
    builds: F64 | None = None
    """Slices in which a device program was built; None: not known."""
    program: str = ""
    """As `beginning_of`."""

    def __len__(self) -> int:
        return len(self.matrix)


@dataclass(frozen=True)
class Projection:
    """How block vectors are projected (`dim` dimensions per part) and scaled; the same for all
    runs.

    A `cpu_weight` of 0 leaves only the GPU side. `memory_weight` None means MEMORY_WEIGHT if there
    are stack distances. `counts`: a part is its counts over the mean slice's, neither mix nor
    length, as XPU-Point was published. Raises UsageError for values out of range.
    """

    seed: int
    dim: int = DIM
    warp_buckets: int = WARP_BUCKETS
    cpu_weight: float = CPU_WEIGHT
    memory_weight: float | None = None
    length_weight: float = LENGTH_WEIGHT
    counts: bool = False

    def __post_init__(self) -> None:
        check_dim(self.dim)
        if not 1 <= self.warp_buckets <= 65536:
            raise UsageError(
                f"--warp-buckets must lie between 1 and 65536, not {self.warp_buckets}"
            )
        if not 0.0 <= self.cpu_weight <= 1.0:
            raise UsageError(f"--cpu-weight must lie between 0 and 1, not {self.cpu_weight:g}")
        if not 0.0 <= self.length_weight <= 1e6:
            raise UsageError(
                f"length_weight must lie between 0 and 1,000,000, not {self.length_weight:g}"
            )
        if self.memory_weight is not None and not 0.0 <= self.memory_weight <= 1.0:
            raise UsageError(
                f"--memory-weight must lie between 0 and 1, not {self.memory_weight:g}"
            )

    def settings(self, scales: Sequence[Scale]) -> Mapping[str, Any]:
        """What a selection records of it; weights of absent parts are 0."""
        kinds = [scale.kind for scale in scales]
        memory = MEMORY_WEIGHT if self.memory_weight is None else self.memory_weight
        return {
            "dim": self.dim,
            "warp_buckets": self.warp_buckets,
            "cpu_weight": self.cpu_weight if "cpu" in kinds else 0.0,
            "memory_weight": memory if any(kind.endswith(_MEMORY) for kind in kinds) else 0.0,
            **({"counts": True} if self.counts else {"length_weight": self.length_weight}),
        }


def check_dim(dim: int) -> None:
    """Raises UsageError for a number of dimensions out of range."""
    if not 1 <= dim <= 4096:
        raise UsageError(f"--dim must lie between 1 and 4096, not {dim}")


def signatures(
    processes: Sequence[Process], projection: Projection, ends: bool = True
) -> list[Signature]:
    """Signature of every slice of recorded processes, scaled together.

    `ends`: the first and the last slice represent themselves, so the mean length excludes them.
    Launches without vectors are represented by kernel name and grid. Raises InputError when stack
    distances are requested but missing, or only some processes have CPU vectors.
    """
    every = [project(process, projection) for process in processes]
    built = [builds_of(process) for process in processes]
    apart = [apart_of(len(own), ends, own) for own in built]
    scales = summed(
        [[scale_of(part, own) for part in parts] for parts, own in zip(every, apart, strict=True)]
    )
    settings = projection.settings(scales)
    return [
        Signature(*join(parts, scales, projection), settings, own, beginning_of(process))
        for process, parts, own in zip(processes, every, built, strict=True)
    ]


@dataclass(frozen=True, eq=False)
class Vectors:
    """Vectors of some slices, each distinct one once: a million launches of one kernel and grid
    share one. `mix`: float32[vectors, dim], projected, each divided by its length; `length`:
    float64[vectors], instructions or lines touched; `row`: int64[slices], the vector of each
    slice."""

    mix: F32
    length: F64
    row: I64

    def __len__(self) -> int:
        return len(self.row)

    def lengths(self) -> F64:
        """float64[slices]."""
        return self.length[self.row]

    def only(self, slices: I64) -> Vectors:
        """Those of the slices given, and no others: workers pass them on."""
        used, row = np.unique(self.row[slices], return_inverse=True)
        return Vectors(self.mix[used], self.length[used], row)


@dataclass(frozen=True, eq=False)
class Part:
    """One part of some slices. `weight`: relative to the other parts."""

    kind: str
    """`gpu` or `cpu`: block vectors; `gpu memory` or `cpu memory`: stack distances; `transfers`:
    bytes moved, by direction."""
    weight: float
    vectors: Vectors


@dataclass(frozen=True)
class Scale:
    """Totals over all slices that scaling a part needs; those of several runs add up."""

    square: float
    """Sum of the mixes' squared norms."""
    active: int
    """Slices with instructions in this part."""
    total: float
    """Instructions; 0 for stack distances and transfers."""
    slices: int
    kind: str
    inner: float
    """Instructions of the slices that are clustered."""
    inner_active: int

    @property
    def mean_length(self) -> float:
        """Mean instructions of the clustered slices that have any in this part."""
        return self.inner / self.inner_active if self.inner_active else 1.0

    def __add__(self, other: Scale) -> Scale:
        return Scale(
            self.square + other.square,
            self.active + other.active,
            self.total + other.total,
            self.slices + other.slices,
            self.kind,
            self.inner + other.inner,
            self.inner_active + other.inner_active,
        )


def project(process: Process, projection: Projection) -> list[Part]:
    """The parts of every slice, the GPU's block vectors first; see `signatures`."""
    seed, dim, cpu_weight = projection.seed, projection.dim, projection.cpu_weight
    memory_weight = projection.memory_weight
    device = _gpu_part(process, projection.warp_buckets, seed, dim)
    sides = [("gpu", 1.0 - cpu_weight, device)]
    pieces = process.cpu_pieces() if cpu_weight > 0.0 else None
    if pieces is not None:
        sides.append(("cpu", cpu_weight, _cpu_part(pieces, len(process.slices), seed, dim)))
    share = MEMORY_WEIGHT if memory_weight is None else memory_weight
    distances = _memory_parts(process, seed, dim) if share > 0.0 else {}
    if memory_weight and not any(side in distances for side, _, _ in sides):
        raise InputError(
            "the run has no stack distances, which --memory-weight is about; record it again with "
            "--memory, or omit --memory-weight"
        )
    parts = [
        Part(side, weight * (1.0 - share if side in distances else 1.0), vectors)
        for side, weight, vectors in sides
    ]
    parts += [
        Part(side + _MEMORY, weight * share, distances[side])
        for side, weight, _ in sides
        if side in distances
    ]
    parts.append(Part(_TRANSFERS, TRANSFER_WEIGHT, _transfer_part(process)))
    return parts


_BLOCKS = ("gpu", "cpu")
_MEMORY = " memory"
_TRANSFERS = "transfers"


def builds_of(process: Process) -> F64:
    """Instructions of each slice in which a device program was built, and 0 of the others:
    float64[slices]."""
    slices = process.slices
    if "builds" not in slices:
        return np.zeros(len(slices))
    executed = (slices["cpu_instructions"] + slices["gpu_instructions"]).to_numpy(np.float64)
    return np.where(slices["builds"].to_numpy() > 0, np.maximum(executed, 1.0), 0.0)


def beginning_of(process: Process) -> str:
    """What tells the programs of a job apart: the kernel of the first launch, with the hash of its
    device program. Ranks of one program begin alike, even where their later launches differ."""
    first = process.slices.iloc[0]
    return f"{first.get('program', '')} {first['kernel']}"


def apart_of(slices: int, ends: bool, builds: F64 | None = None) -> npt.NDArray[np.int8]:
    """Which slices of a run are not clustered by their vectors, which do not show what takes their
    time: with `ends`, the first (1), the last (2), and those with a build (`builds_of`), which are
    like start-up (from 3 on). The first MOST_BUILT of these stand alone; of further ones, those
    that execute about as much share a cluster, as programs of a size do. 0: clustered."""
    apart = np.zeros(slices, np.int8)
    if not ends or slices <= 2:
        return apart
    built = np.flatnonzero(builds[1:-1]) + 1 if builds is not None else np.empty(0, np.int64)
    if builds is not None and len(built) < slices - 2:
        alone, further = built[:MOST_BUILT], built[MOST_BUILT:]
        apart[alone] = 3 + np.arange(len(alone))
        power = np.minimum(np.log2(builds[further]) // 2, BUILD_CLASSES - 1)
        apart[further] = 3 + MOST_BUILT + power.astype(np.int8)
    apart[0], apart[-1] = 1, 2
    return apart


def scale_of(part: Part, apart: npt.NDArray[np.int8]) -> Scale:
    """The scale of one run's part; `apart` as in `apart_of`."""
    mix, row, length = part.vectors.mix, part.vectors.row, part.vectors.lengths()
    norms = np.einsum("ij,ij->i", mix, mix, dtype=np.float64)
    # Not `@`: its last bits depend on the processor and the number of threads.
    square = float((np.bincount(row, minlength=len(mix)) * norms).sum())
    active = int(np.count_nonzero(length))
    total = float(length.sum()) if part.kind in _BLOCKS else 0.0
    inner = length[apart == 0]
    inner_active = int(np.count_nonzero(inner))
    return Scale(square, active, total, len(length), part.kind, float(inner.sum()), inner_active)


def summed(scales: Sequence[list[Scale]]) -> list[Scale]:
    """The scale of each part over all runs. Raises InputError when the runs have different
    parts."""
    if len({tuple(scale.kind for scale in own) for own in scales}) > 1:
        raise InputError(
            "some of the runs have CPU vectors, or stack distances, and some have not: profile "
            "them alike"
        )
    return [sum(column[1:], start=column[0]) for column in zip(*scales, strict=True)]


def frequency_signature(
    row_start: npt.NDArray[np.uint64],
    dimension: npt.NDArray[np.uint64],
    value: F64,
    *,
    seed: int,
    dim: int,
) -> Signature:
    """Signature of plain frequency vectors (a .bb file), as SimPoint makes it: each vector divided
    by its sum, then projected. Lengths do not enter."""
    check_dim(dim)
    matrix, length = kernels.project_values(row_start, dimension, value, seed, dim)
    return Signature(matrix, _share(length), length, {"dim": dim})


def _cpu_part(pieces: Iterable[CpuVectors], slices: int, seed: int, dim: int) -> Vectors:
    """Each piece's vectors are projected before the next one is read."""
    rows, mixes, lengths, known = [], [], [], 0
    for vectors in pieces:
        point, first = kernels.distinct_cpu(vectors)
        mix, length = kernels.project_cpu(vectors, seed, dim, rows=first)
        rows.append(known + point.astype(np.int64))
        mixes.append(mix)
        lengths.append(length)
        known += len(first)
    found = Vectors(np.concatenate(mixes), np.concatenate(lengths), np.concatenate(rows))
    if len(mixes) > 1:
        found = _merged(found)
    row = np.zeros(slices, np.int64)
    own = found.row[:slices]
    row[: len(own)] = 1 + own  # a truncated run may lack the last slices' vectors
    return Vectors(*_behind_none(dim, (found.mix, found.length)), row)


def _merged(vectors: Vectors) -> Vectors:
    """Equal vectors once."""
    mix, _ = kernels.merge(vectors.mix)
    point, first = kernels.merge(np.stack([mix.astype(np.float64), vectors.length], axis=1))
    return Vectors(vectors.mix[first], vectors.length[first], point.astype(np.int64)[vectors.row])


def _gpu_part(process: Process, buckets: int, seed: int, dim: int) -> Vectors:
    """Launch i's grid belongs to slice i. The last slice has no kernel; neither has one that ends
    with the window."""
    slices = len(process.slices)
    found: list[tuple[F32, F64]] = []
    row = np.zeros(slices, np.int64)
    bare = np.ones(min(process.sums.launches, slices), dtype=bool)
    if process.window is not None:
        bare &= process.window.inside[: len(bare)]
    if process.gpu is not None and len(process.gpu.launch_grid):
        grid = process.gpu.launch_grid[:slices]
        found.append(kernels.project_gpu(process.gpu, buckets, seed, dim))
        launches = np.flatnonzero(grid >= 0)
        row[launches] = 1 + grid[launches]
        bare[launches] = False
    rows = np.flatnonzero(bare)
    if len(rows):
        named = _named_launches(process, rows, seed, dim)
        row[rows] = 1 + sum(len(mix) for mix, _ in found) + named.row
        found.append((named.mix, named.length))
    return Vectors(*_behind_none(dim, *found), row)


def _behind_none(dim: int, *found: tuple[F32, F64]) -> tuple[F32, F64]:
    """Mixes and lengths behind those of slices which have none: vector 0."""
    mixes, lengths = zip((np.zeros((1, dim), np.float32), np.zeros(1)), *found, strict=True)
    return np.vstack(mixes), np.concatenate(lengths)


def _transfer_part(process: Process) -> Vectors:
    """Bytes that each slice moves, by direction."""
    names = ["to_device", "to_host", "within"]
    moved: F64 = process.slices.reindex(columns=names, fill_value=0).to_numpy(np.float64)
    row, first = kernels.merge(moved)
    moved = moved[first]
    length = moved.sum(axis=1)
    mix = (moved / np.maximum(length, 1.0)[:, None]).astype(np.float32)
    return Vectors(mix, length, row.astype(np.int64))


def _memory_parts(process: Process, seed: int, dim: int) -> dict[str, Vectors]:
    """Stack distances by side. A launch's distances belong to the slice that it ends; on the CPU a
    dimension is (thread, bucket), as in the block vectors."""
    slices = len(process.slices)
    parts = {}
    device, cpu = process.device_distances, process.distances
    if device is not None and device.count.any():
        nobody = np.zeros(len(device.launch), np.int64)
        parts["gpu"] = _histograms(device.launch, nobody, device.count, slices, seed, dim)
    if cpu is not None and cpu.count.any():
        parts["cpu"] = _histograms(cpu.slice, cpu.thread, cpu.count, slices, seed, dim)
    return parts


def _histograms(
    owner: npt.NDArray[Any],
    thread: npt.NDArray[Any],
    count: npt.NDArray[np.uint64],
    slices: int,
    seed: int,
    dim: int,
) -> Vectors:
    """Project rows of 64 buckets, ascending by `owner`, to the vectors of slices."""
    row, bucket = np.nonzero(count)
    start = np.searchsorted(owner[row], np.arange(slices + 1)).astype(np.uint64)
    key = thread[row].astype(np.int64) * count.shape[1] + bucket
    known, which = np.unique(key, return_inverse=True)
    identity = np.array([_name_hash(f"stack distance {k}") for k in known.tolist()], np.uint64)
    values: F64 = count[row, bucket].astype(np.float64)
    mix, length = kernels.project_values(start, identity[which], values, seed, dim)
    # Runs with stack distances are short: merged when projected.
    return _merged(Vectors(mix, length, np.arange(slices)))


def _named_launches(process: Process, rows: npt.NDArray[np.intp], seed: int, dim: int) -> Vectors:
    """Uninstrumented launches: one dimension per kernel, work-items in place of instructions."""
    table = process.slices.iloc[rows]
    names = (table["program"].astype(str) + " " + table["kernel"].astype(str)).to_numpy(str)
    known, which = np.unique(names, return_inverse=True)
    identity = np.array([_name_hash(str(name)) for name in known], dtype=np.uint64)
    sizes: F64 = np.maximum(table[["gx", "gy", "gz"]].to_numpy(np.float64), 1.0)
    items = sizes.prod(axis=1)
    row, first = kernels.merge(np.stack([which.astype(np.float64), items], axis=1))
    start = np.arange(len(first) + 1, dtype=np.uint64)
    projected = kernels.project_values(start, identity[which[first]], items[first], seed, dim)
    return Vectors(*projected, row.astype(np.int64))


def _name_hash(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little")


def join(parts: list[Part], scales: list[Scale], projection: Projection) -> tuple[F32, F64, F64]:
    """[mix, length] of each part: mixes scaled to a root mean square norm of 1, lengths to a mean
    of 1, both weighted.

    The CPU's mix is weighted by its share of the slice's work and its length counts relative to the
    mean slice's work; so do transfers. A few hundred instructions of the allocator, which differ
    from run to run, thus count little beside the launch that they belong to. With
    `projection.counts` a part is one block of columns, the mix times the length over its mean, and
    transfers are left out.

    Returns matrix, extent and instructions as in `Signature`. `scales` cover all slices clustered
    together; extents are shares of their totals.
    """
    slices = len(parts[0].vectors)
    columns: list[F32] = []
    extent, instructions = np.zeros(slices), np.zeros(slices)
    if projection.counts or not scales[-1].inner_active:  # nothing moves within the run
        parts, scales = parts[:-1], scales[:-1]
    weights = sum(part.weight for part in parts)
    sides: dict[str, float] = {}  # extents come from block vectors, with the weight of their side
    for part in parts:
        side = part.kind.removesuffix(_MEMORY)
        sides[side] = sides.get(side, 0.0) + part.weight
    loaded = sum(sides[scale.kind] for scale in scales if scale.total)
    of_work = _shares_of_work(parts, scales)
    for part, scale in zip(parts, scales, strict=True):
        share = part.weight / weights if weights > 0.0 else 1.0
        mean_square = scale.square / max(scale.active, 1)
        factor = np.sqrt(share / mean_square) if mean_square > 0.0 else 1.0
        own, executed = part.vectors, part.vectors.lengths()
        mix, length = (own.mix * np.float32(factor))[own.row], executed / scale.mean_length
        if projection.counts:
            columns.append(mix * length.astype(np.float32)[:, None])
        else:
            unit = projection.length_weight * np.sqrt(share)
            if work := of_work.get(part.kind.partition(" ")[0]):
                of_slice, of_mean = work
                mix, unit = mix * of_slice.astype(np.float32)[:, None], unit * of_mean
            columns += [mix, (unit * length).astype(np.float32)[:, None]]
        if scale.total:
            extent += executed / scale.total * (sides[part.kind] / loaded if loaded else 1.0)
        if part.kind in _BLOCKS:
            instructions += executed
    if not any(scale.total for scale in scales):
        extent += 1.0 / scales[0].slices
    return np.hstack(columns), extent, instructions


def _shares_of_work(parts: list[Part], scales: list[Scale]) -> dict[str, tuple[F64, float]]:
    """Each slice's share of work done by the CPU and by transfers, and that of the mean lengths."""
    units = {"gpu": WARP_WORK, "cpu": 1.0, _TRANSFERS: BYTE_WORK}
    own = {p.kind: units[p.kind] * p.vectors.lengths() for p in parts if p.kind in units}
    mean = {s.kind: units[s.kind] * s.mean_length for s in scales if s.kind in units}
    shares: dict[str, tuple[F64, float]] = {}
    before, mean_before = own["gpu"] + LAUNCH_WORK, mean["gpu"] + LAUNCH_WORK
    for kind in ("cpu", _TRANSFERS):
        if kind in own:
            before, mean_before = before + own[kind], mean_before + mean[kind]
            shares[kind] = own[kind] / before, mean[kind] / mean_before
    return shares


def _share(length: F64) -> F64:
    total = float(length.sum())
    return length / total if total > 0.0 else np.full(len(length), 1.0 / len(length))
