# SPDX-License-Identifier: Apache-2.0
"""Python side of `xpuprof._select`: arrays in, arrays out, at most two threads.

Results are identical for any number of threads."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from xpuprof._select import ffi, lib
from xpuprof.arrays import F32, F64, U32, U64
from xpuprof.errors import InputError

if TYPE_CHECKING:  # tables imports pandas, which takes longer than most selections
    from xpuprof.trace.tables import CpuVectors, GpuVectors


THREADS = min(2, os.cpu_count() or 1)


def pointer(array: npt.NDArray[Any], kind: str) -> Any:
    """C pointer to `array`'s first element; the caller keeps the array alive."""
    return ffi.cast(f"{kind} *", ffi.from_buffer(array))


def checked(status: int, what: str) -> int:
    """`status` of a C call, or an exception for its negative codes."""
    if status == -1:
        raise MemoryError(f"not enough memory to {what}")
    if status < 0:
        raise InputError(f"the vectors are not sound: cannot {what}; see `xpuprof check`")
    return status


def _u64(array: npt.NDArray[Any]) -> U64:
    return np.ascontiguousarray(array, dtype=np.uint64)


def _u32(array: npt.NDArray[Any]) -> U32:
    return np.ascontiguousarray(array, dtype=np.uint32)


def distinct_cpu(vectors: CpuVectors) -> tuple[U32, U64]:
    """Slices whose threads executed the same blocks as often: (class: uint32[slices], in order of
    first appearance; first: uint64[classes], the first slice of each)."""
    start, thread, block = _u64(vectors.slice_start), _u32(vectors.thread), _u32(vectors.block)
    count = _u64(vectors.count)
    _check_starts(start, min(len(thread), len(block), len(count)))
    point, first, classes = _classes(len(start) - 1)
    checked(
        lib.xps_merge_cpu(
            len(point), pointer(start, "uint64_t"), pointer(thread, "uint32_t"),
            pointer(block, "uint32_t"), pointer(count, "uint64_t"), pointer(point, "uint32_t"),
            pointer(first, "uint64_t"), classes,
        ),
        "merge equal slices",
    )  # fmt: skip
    return point, first[: classes[0]].copy()


def project_cpu(
    vectors: CpuVectors, seed: int, dim: int, threads: int = THREADS, rows: U64 | None = None
) -> tuple[F32, F64]:
    """Per-thread CPU vectors to (mix: float32[slices, dim], instructions: float64[slices]).

    A dimension is (thread number, block identity); its value is count x block instructions. Each
    row is divided by its instructions before it is stored. `rows`: of these slices only.
    """
    start, thread, block = _u64(vectors.slice_start), _u32(vectors.thread), _u32(vectors.block)
    count, identity = _u64(vectors.count), _u64(vectors.blocks.identity)
    instructions = _u32(vectors.blocks.instructions)
    _check_starts(start, min(len(thread), len(block), len(count)))
    first, last = start[:-1], start[1:]
    if rows is not None:
        first, last = first[rows], last[rows]
    out, length = np.empty((len(first), dim), np.float32), np.empty(len(first))
    checked(
        lib.xps_project_cpu(
            len(first), pointer(first, "uint64_t"), pointer(last, "uint64_t"),
            pointer(thread, "uint32_t"), pointer(block, "uint32_t"), pointer(count, "uint64_t"),
            len(identity), pointer(identity, "uint64_t"), pointer(instructions, "uint32_t"),
            seed, dim, threads, pointer(out, "float"), pointer(length, "double"),
        ),
        "project the CPU vectors",
    )  # fmt: skip
    return out, length


def project_gpu(
    vectors: GpuVectors, buckets: int, seed: int, dim: int, threads: int = THREADS
) -> tuple[F32, F64]:
    """Per-warp GPU vectors to (mix: float32[grids, dim], warp instructions: float64[grids]).

    Each distinct grid once. The warp axis is resampled to `buckets` cells; a dimension is (cell,
    block identity).
    """
    grids = len(vectors.grid_start) - 1
    out, length = np.empty((grids, dim), np.float32), np.empty(grids)
    grid_start, vector_start = _u64(vectors.grid_start), _u64(vectors.vector_start)
    run_vector, run_length = _u32(vectors.run_vector), _u64(vectors.run_length)
    block, count = _u32(vectors.block), _u64(vectors.count)
    identity, instructions = _u64(vectors.blocks.identity), _u32(vectors.blocks.instructions)
    _check_starts(grid_start, min(len(run_vector), len(run_length)))
    _check_starts(vector_start, min(len(block), len(count)))
    checked(
        lib.xps_project_gpu(
            grids, pointer(grid_start, "uint64_t"), pointer(run_vector, "uint32_t"),
            pointer(run_length, "uint64_t"), len(vector_start) - 1,
            pointer(vector_start, "uint64_t"), pointer(block, "uint32_t"),
            pointer(count, "uint64_t"), len(identity), pointer(identity, "uint64_t"),
            pointer(instructions, "uint32_t"), buckets, seed, dim, threads,
            pointer(out, "float"), pointer(length, "double"),
        ),
        "project the GPU vectors",
    )  # fmt: skip
    return out, length


def project_values(
    row_start: U64, dimension: U64, value: F64, seed: int, dim: int, threads: int = THREADS
) -> tuple[F32, F64]:
    """Sparse rows with 64-bit dimensions to (mix: float32[rows, dim], row sums: float64[rows])."""
    rows = len(row_start) - 1
    out, length = np.empty((rows, dim), np.float32), np.empty(rows)
    row_start, dimension = _u64(row_start), _u64(dimension)
    value = np.ascontiguousarray(value, dtype=np.float64)
    _check_starts(row_start, min(len(dimension), len(value)))
    checked(
        lib.xps_project_values(
            rows, pointer(row_start, "uint64_t"), pointer(dimension, "uint64_t"),
            pointer(value, "double"), seed, dim, threads, pointer(out, "float"),
            pointer(length, "double"),
        ),
        "project the vectors",
    )  # fmt: skip
    return out, length


def merge(rows: npt.NDArray[Any]) -> tuple[U32, U64]:
    """Merge rows whose bytes are equal: (point: uint32[rows], the dense number of each row's class
    in order of first appearance; first: uint64[points], the first row of each class)."""
    matrix = np.ascontiguousarray(rows).view(np.float32)
    point, first, points = _classes(len(matrix))
    checked(
        lib.xps_merge(
            len(matrix), matrix.shape[1], pointer(matrix, "float"), pointer(point, "uint32_t"),
            pointer(first, "uint64_t"), points,
        ),
        "merge equal slices",
    )  # fmt: skip
    return point, first[: points[0]].copy()


def _classes(rows: int) -> tuple[U32, U64, Any]:
    """Room for the class of each row, the first row of each class, and the number of classes."""
    return np.empty(rows, np.uint32), np.empty(rows, np.uint64), ffi.new("uint64_t *")


def _check_starts(start: U64, entries: int) -> None:
    """Row starts must ascend from 0 and stay within the entries; C does not check them."""
    descends = bool(np.any(start[1:] < start[:-1]))
    if len(start) == 0 or start[0] != 0 or int(start[-1]) > entries or descends:
        raise InputError("the vectors' row starts are not sound; see `xpuprof check`")
