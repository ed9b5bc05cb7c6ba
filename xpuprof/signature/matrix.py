"""From block vectors to the matrix that is clustered: the XPU-BBV of XPU-Point, section IV.

CPU part and GPU part "need to be projected separately" because they differ in magnitude (section
IV-D). Each part becomes a mix (where its instructions go, normalised) and a length (how many there
are, as a logarithm), each scaled so that neither part outweighs the other. docs/selection.md tells
why.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from xpuprof.errors import UsageError
from xpuprof.signature import kernels

if TYPE_CHECKING:  # see kernels.py
    from xpuprof.trace.tables import Process

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]

DIM = 64
WARP_BUCKETS = 32
CPU_WEIGHT = 0.5
LENGTH_WEIGHT = 1.0
"""Distance between two slices of equal mix, one twice as long as the other, in units of the
root mean square norm of a part's mixes."""


@dataclass(frozen=True, eq=False)
class Signature:
    """What the clustering sees of each slice.

    `matrix`: float32[slices, dimensions]. `extent`: float64[slices], each slice's share of the
    run's instructions (CPU and GPU part each a share of their own total, weighted as the parts
    are); it adds up to 1. `instructions`: float64[slices], CPU and GPU together. `parameters`: what
    it was made with.
    """

    matrix: F32
    extent: F64
    instructions: F64
    parameters: dict[str, Any]

    def __len__(self) -> int:
        return len(self.matrix)


def xpu_signature(
    process: Process,
    *,
    seed: int,
    dim: int = DIM,
    warp_buckets: int = WARP_BUCKETS,
    cpu_weight: float = CPU_WEIGHT,
    length_weight: float = LENGTH_WEIGHT,
) -> Signature:
    """Signature of every slice of a recorded process; `dim` dimensions a part.

    Without CPU vectors, or with `cpu_weight` 0, it is the GPU part alone. Launches without vectors
    are known by kernel name and grid. Raises UsageError for parameters out of range.
    """
    parts = project(process, seed=seed, dim=dim, warp_buckets=warp_buckets, cpu_weight=cpu_weight)
    return join(parts, [scale_of(part) for part in parts], length_weight, warp_buckets)


@dataclass(frozen=True, eq=False)
class Part:
    """The CPU or the GPU part of some slices. `weight`: among the parts; `mix`: float32[slices,
    dim], projected, each row divided by its instructions; `length`: float64[slices], instructions.
    """

    weight: float
    mix: F32
    length: F64


@dataclass(frozen=True)
class Scale:
    """What scaling a part needs to know of all its slices; of several runs they add up."""

    square: float
    """Sum of the mixes' squared norms."""
    active: int
    """Slices with instructions in this part."""
    total: float
    """Instructions."""
    slices: int

    def __add__(self, other: Scale) -> Scale:
        return Scale(
            self.square + other.square,
            self.active + other.active,
            self.total + other.total,
            self.slices + other.slices,
        )


def project(
    process: Process, *, seed: int, dim: int, warp_buckets: int, cpu_weight: float
) -> list[Part]:
    """GPU part and CPU part (where there is one) of every slice; see `xpu_signature`."""
    if not 1 <= dim <= 4096:
        raise UsageError(f"--dim must lie between 1 and 4096, not {dim}")
    if not 1 <= warp_buckets <= 65536:
        raise UsageError(f"--warp-buckets must lie between 1 and 65536, not {warp_buckets}")
    if not 0.0 <= cpu_weight <= 1.0:
        raise UsageError(f"--cpu-weight must lie between 0 and 1, not {cpu_weight:g}")
    parts = [Part(1.0 - cpu_weight, *_gpu_part(process, warp_buckets, seed, dim))]
    if process.cpu is not None and cpu_weight > 0.0:
        parts.append(Part(cpu_weight, *_cpu_part(process, seed, dim)))
    return parts


def scale_of(part: Part) -> Scale:
    """The scale of one run's part."""
    square = float(np.einsum("ij,ij->", part.mix, part.mix, dtype=np.float64))
    active = int(np.count_nonzero(part.length))
    return Scale(square, active, float(part.length.sum()), len(part.length))


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
    if not 1 <= dim <= 4096:
        raise UsageError(f"--dim must lie between 1 and 4096, not {dim}")
    matrix, length = kernels.project_values(row_start, dimension, value, seed, dim)
    return Signature(matrix, _share(length), length, {"dim": dim})


def _cpu_part(process: Process, seed: int, dim: int) -> tuple[F32, F64]:
    assert process.cpu is not None
    slices = len(process.slices)
    mix, length = np.zeros((slices, dim), np.float32), np.zeros(slices)
    cut_mix, cut_length = kernels.project_cpu(process.cpu, seed, dim)
    # A run that was cut short may lack the last slices' vectors.
    known = min(slices, len(cut_mix))
    mix[:known], length[:known] = cut_mix[:known], cut_length[:known]
    return mix, length


def _gpu_part(process: Process, buckets: int, seed: int, dim: int) -> tuple[F32, F64]:
    """Launch i's grid belongs to slice i; the last slice has no kernel."""
    slices = len(process.slices)
    mix, length = np.zeros((slices, dim), np.float32), np.zeros(slices)
    bare = np.ones(min(len(process.launches), slices), dtype=bool)
    if process.gpu is not None and len(process.gpu.launch_grid):
        grid = process.gpu.launch_grid
        grid_mix, grid_length = kernels.project_gpu(process.gpu, buckets, seed, dim)
        launches = np.flatnonzero(grid[:slices] >= 0)
        mix[launches], length[launches] = grid_mix[grid[launches]], grid_length[grid[launches]]
        bare[launches] = False
    rows = np.flatnonzero(bare)
    if len(rows):
        mix[rows], length[rows] = _named_launches(process, rows, seed, dim)
    return mix, length


def _named_launches(
    process: Process, rows: npt.NDArray[np.intp], seed: int, dim: int
) -> tuple[F32, F64]:
    """Launches that ran uninstrumented: one dimension a kernel, work-items for instructions."""
    table = process.launches.iloc[rows]
    names = (table["program"].astype(str) + " " + table["kernel"].astype(str)).to_numpy(str)
    known, which = np.unique(names, return_inverse=True)
    identity = np.array([_name_hash(str(name)) for name in known], dtype=np.uint64)
    sizes: F64 = np.maximum(table[["gx", "gy", "gz"]].to_numpy(np.float64), 1.0)
    items = sizes.prod(axis=1)
    start = np.arange(len(rows) + 1, dtype=np.uint64)
    return kernels.project_values(start, identity[which], items, seed, dim)


def _name_hash(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little")


def join(
    parts: list[Part], scales: list[Scale], length_weight: float, warp_buckets: int
) -> Signature:
    """[mix, log2(1 + length)] of each part, scaled to a root mean square norm of 1 and weighted.

    `scales` are of all slices that are clustered together; extents are shares of their totals.
    """
    slices, dim = parts[0].mix.shape
    columns: list[F32] = []
    extent, instructions = np.zeros(slices), np.zeros(slices)
    weights = sum(part.weight for part in parts)
    loaded = sum(part.weight for part, scale in zip(parts, scales, strict=True) if scale.total)
    for part, scale in zip(parts, scales, strict=True):
        share = part.weight / weights if weights > 0.0 else 1.0
        mean_square = scale.square / max(scale.active, 1)
        factor = np.sqrt(share / mean_square) if mean_square > 0.0 else 1.0
        columns.append(part.mix * np.float32(factor))
        logarithm = np.log2(1.0 + part.length) * (length_weight * np.sqrt(share))
        columns.append(logarithm.astype(np.float32)[:, None])
        if scale.total:
            extent += part.length / scale.total * (part.weight / loaded if loaded else 1.0)
        instructions += part.length
    parameters = {
        "dim": dim,
        "warp_buckets": warp_buckets,
        "cpu_weight": parts[1].weight if len(parts) == 2 else 0.0,
        "length_weight": length_weight,
    }
    if not any(scale.total for scale in scales):
        extent += 1.0 / scales[0].slices
    return Signature(np.hstack(columns), extent, instructions, parameters)


def _share(length: F64) -> F64:
    total = float(length.sum())
    return length / total if total > 0.0 else np.full(len(length), 1.0 / len(length))
