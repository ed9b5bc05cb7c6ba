# SPDX-License-Identifier: Apache-2.0
"""CPU vectors of a recorded process, piece by piece: they are most of a trace, and need not fit
into memory to be projected."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from xpuprof.arrays import I64, U32, U64, starts_of
from xpuprof.trace.layout import CPU
from xpuprof.trace.streams import SMALL, Rows, Stream, StreamReader
from xpuprof.trace.tables import Blocks, CpuVectors, Window

ENTRIES = 1 << 20
"""Of a piece, 16 bytes each; more where a slice, or a chunk of the stream, has more."""


def cpu_pieces(path: Path, finished: int, window: Window | None) -> Iterator[CpuVectors]:
    """Vectors of the process's first `finished` slices, those in the window alone, in order: each
    piece has those of the slices that follow the last piece's. At least one. Raises TraceError."""
    with StreamReader(path, CPU, (*SMALL, "bbvs")) as reader:
        for _ in reader.chunks("bbvs"):
            pass  # whole, before any entries
        vectors = reader.stream["bbvs"]
        complete = _complete_before(vectors["slice"].astype(np.int64), finished)
        known = vectors[vectors["slice"] < finished]
        entries = np.bincount(known["slice"].astype(np.int64), known["n_pairs"], finished)
        before = np.cumsum(np.append(0.0, entries))  # each slice
        waiting, first, read = _Waiting(reader.stream), 0, 0
        for rows in reader.chunks("bbvs", "bbv_block", "bbv_count"):
            waiting.add(rows)
            read += len(rows["bbvs"])
            end = int(complete[read])
            if end > first and before[end] - before[first] >= ENTRIES:
                yield _clipped(waiting.take(first, end), first, window)
                first = end
        if first < finished or not finished:
            yield _clipped(waiting.take(first, finished), first, window)


def _complete_before(slices: I64, finished: int) -> I64:
    """int64[vectors + 1]: the slice before which all are complete, after so many of the stream's
    vectors. A late vector of an earlier slice may come last."""
    later = np.append(slices, finished)
    return np.minimum.accumulate(later[::-1])[::-1]


class _Waiting:
    """Vectors that were read and not yet taken, in the stream's order."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._parts: list[tuple[npt.NDArray[Any], U32, U64]] = []

    def add(self, rows: Rows) -> None:
        """A chunk's vectors, whose entries lie in buffers that the next chunk overwrites."""
        self._parts.append((rows["bbvs"], rows["bbv_block"].copy(), rows["bbv_count"].copy()))

    def take(self, first: int, end: int) -> CpuVectors:
        """The vectors of the slices from `first` up to `end`, ordered; earlier ones are dropped."""
        empty = self._stream["bbvs"][:0], np.empty(0, np.uint32), np.empty(0, np.uint64)
        vectors, block, count = map(np.concatenate, zip(empty, *self._parts, strict=True))
        key = (vectors["slice"] << np.uint64(32)) | vectors["thread"]
        own = np.flatnonzero((vectors["slice"] >= first) & (vectors["slice"] < end))
        if np.any(key[own][1:] < key[own][:-1]):
            own = own[np.argsort(key[own], kind="stable")]
        rest = np.flatnonzero(vectors["slice"] >= end)
        left, taken = (_entries_of(vectors["n_pairs"], which) for which in (rest, own))
        self._parts = [(vectors[rest], block[left], count[left])]
        vectors, sizes = vectors[own], vectors["n_pairs"][own].astype(np.int64)
        of_slices = np.bincount(vectors["slice"].astype(np.int64) - first, sizes, end - first)
        blocks = self._stream["cpu_blocks"]
        return CpuVectors(
            thread=np.repeat(vectors["thread"].astype(np.uint32), sizes),
            block=block[taken],
            count=count[taken],
            slice_start=starts_of(of_slices),
            blocks=Blocks(
                np.ascontiguousarray(blocks["identity"]),
                np.ascontiguousarray(blocks["instructions"]),
            ),
            block_image=np.ascontiguousarray(blocks["image"]),
            block_offset=np.ascontiguousarray(blocks["offset"]),
        )


def _entries_of(sizes: U64, vectors: I64) -> I64 | slice:
    """The places of these vectors' entries among those of all, whose sizes are given."""
    starts = starts_of(sizes).astype(np.int64)
    if not len(vectors) or np.all(np.diff(vectors) == 1):  # nearly always
        return slice(starts[vectors[0]], starts[vectors[-1] + 1]) if len(vectors) else slice(0)
    own = sizes[vectors].astype(np.int64)
    moved = starts[:-1][vectors] - (np.cumsum(own) - own)
    return np.repeat(moved, own) + np.arange(own.sum())


def _clipped(vectors: CpuVectors, first: int, window: Window | None) -> CpuVectors:
    """Those in the window of the vectors from slice `first` on."""
    if window is None:
        return vectors
    sizes = np.diff(vectors.slice_start).astype(np.int64)
    wanted = window.wanted[first : first + len(sizes)]
    keep = np.repeat(wanted, sizes)
    return replace(
        vectors,
        thread=vectors.thread[keep],
        block=vectors.block[keep],
        count=vectors.count[keep],
        slice_start=starts_of(sizes[wanted]),
    )
