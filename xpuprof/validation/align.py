# SPDX-License-Identifier: Apache-2.0
"""Two runs of one program whose launch sequences differ, slice by slice.

With autotuning, another vendor's library or another machine, a program launches slightly different
kernels. The longest common subsequence of (kernel, grid, work-group) gives the anchors. Slices
between two anchors are matched again by kernel name, then by the bare function name (no parameters,
template arguments or namespaces), then by the launching operator if known, since another vendor's
library implements it with other kernels. Run order is always preserved. Sizes that one of the runs
does not know are not compared.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from xpuprof.arrays import I64
from xpuprof.trace.coordinates import JobRows, OtherRows
from xpuprof.trace.kernel_names import brief
from xpuprof.trace.sequence import KIND_COLUMNS, with_kind_columns

LEVELS = ("kernel and grid", "kernel", "function", "operator")
"""What two matched slices have in common, closest match first."""
SAME_KERNEL = LEVELS.index("kernel")

_BITS = 1 << 31
"""A larger table of a x b bits (256 MiB) is split (Hirschberg) instead of stored."""


@dataclass(frozen=True, eq=False)
class Alignment:
    """`match[i]` is the slice of B that matches slice i of A, -1 if none does.

    `level[i]` indexes LEVELS (-1 unmatched); `slices_b` is the number of slices of B.
    """

    match: OtherRows
    level: npt.NDArray[np.int8]
    slices_b: int

    @property
    def same(self) -> bool:
        """Both runs have the same sequence: every slice matches its own row."""
        own = np.array_equal(self.match, np.arange(self.slices_b))
        return own and bool((self.level == 0).all())

    @property
    def unmatched_a(self) -> JobRows:
        """Slices of A that B lacks."""
        return JobRows(np.flatnonzero(self.match < 0))

    @property
    def unmatched_b(self) -> OtherRows:
        """Slices of B that A lacks."""
        taken = np.zeros(self.slices_b, dtype=bool)
        taken[self.match[self.match >= 0]] = True
        return OtherRows(np.flatnonzero(~taken))


def align(a: pd.DataFrame, b: pd.DataFrame) -> Alignment:
    """Align two slice tables (columns as `trace.tables.Process.slices`, missing ones are unknown).

    Cost: with sequences of n and m slices that differ, n x m / 64 machine operations between the
    first and the last difference; negligible if they are equal.
    """
    kinds = pd.concat([with_kind_columns(a), with_kind_columns(b)], ignore_index=True).astype(
        {"kernel": str}
    )
    # Exclude the program's hash: a driver may receive IL on one machine and source on another.
    by_grid = ["kernel", *_known_sizes(kinds[: len(a)], kinds[len(a) :])]
    names = kinds["kernel"]
    functions = names.map({name: brief(name) for name in names.unique()})
    keys = (
        kinds.groupby(by_grid, sort=False).ngroup().to_numpy(),
        pd.factorize(names)[0],
        pd.factorize(functions)[0],
        _operators(kinds["range"].astype(str)),
    )
    size_a, size_b = len(a), len(b)
    match = np.full(size_a, -1, dtype=np.int64)
    level = np.full(size_a, -1, dtype=np.int8)
    for number, key in enumerate(keys):
        for start_a, end_a, start_b, end_b in _gaps(match, size_b):
            pairs = common_subsequence(key[start_a:end_a], key[size_a + start_b : size_a + end_b])
            rows = pairs[:, 0] + start_a
            match[rows] = pairs[:, 1] + start_b
            level[rows] = number
    return Alignment(OtherRows(match), level, size_b)


def align_processes(a: pd.DataFrame, b: pd.DataFrame) -> Alignment:
    """Align two slice tables of jobs, each process with its counterpart (column `process`)."""
    if "process" not in a or "process" not in b:
        return align(a, b)
    match = np.full(len(a), -1, dtype=np.int64)
    level = np.full(len(a), -1, dtype=np.int8)
    before, after = a["process"].to_numpy(), b["process"].to_numpy()
    for process in np.unique(before):
        rows, there = np.flatnonzero(before == process), np.flatnonzero(after == process)
        if len(there):
            own = align(a.iloc[rows], b.iloc[there])
            match[rows] = np.where(own.match >= 0, there[own.match], -1)
            level[rows] = own.level
    return Alignment(OtherRows(match), level, len(b))


def _known_sizes(a: pd.DataFrame, b: pd.DataFrame) -> list[str]:
    """The columns of grids and work-groups that both tables know: 0 is unknown."""
    sizes = [name for name in KIND_COLUMNS if name not in ("kernel", "program", "range")]
    return [name for name in sizes if a[name].any() and b[name].any()]


def _operators(ranges: pd.Series[str]) -> I64:
    """Codes of the operators; launches without one match nothing."""
    codes = pd.factorize(ranges)[0].astype(np.int64)
    none = (ranges == "").to_numpy()
    codes[none] = -1 - np.flatnonzero(none)
    return codes


def common_subsequence(a: npt.NDArray[np.integer], b: npt.NDArray[np.integer]) -> I64:
    """Pairs (i, j), ascending in both, of a longest common subsequence of two code sequences.

    Bit-parallel (Hyyro, "Bit-parallel LCS-length computation revisited", 2004).
    """
    shorter = min(len(a), len(b))
    if not shorter:
        return np.empty((0, 2), dtype=np.int64)
    differs = np.flatnonzero(a[:shorter] != b[:shorter])
    head = int(differs[0]) if len(differs) else shorter
    differs = np.flatnonzero(a[::-1][: shorter - head] != b[::-1][: shorter - head])
    tail = int(differs[0]) if len(differs) else shorter - head
    middle = _middle(a[head : len(a) - tail].tolist(), b[head : len(b) - tail].tolist())
    parts = [
        np.stack([np.arange(head), np.arange(head)], axis=1),
        np.array(middle, dtype=np.int64).reshape(-1, 2) + head,
        np.stack([np.arange(len(a) - tail, len(a)), np.arange(len(b) - tail, len(b))], axis=1),
    ]
    return np.concatenate(parts).astype(np.int64)


def _gaps(match: I64, size_b: int) -> list[tuple[int, int, int, int]]:
    """Stretches (start and end in A, in B) between matched slices that are non-empty in both."""
    anchors = np.flatnonzero(match >= 0)
    left_a = np.concatenate(([-1], anchors))
    left_b = np.concatenate(([-1], match[anchors]))
    right_a = np.concatenate((anchors, [len(match)]))
    right_b = np.concatenate((match[anchors], [size_b]))
    open_ = (right_a - left_a > 1) & (right_b - left_b > 1)
    columns = (left_a + 1, right_a, left_b + 1, right_b)
    return [tuple(int(c[g]) for c in columns) for g in np.flatnonzero(open_)]  # type: ignore[misc]


def _middle(a: list[int], b: list[int]) -> list[tuple[int, int]]:
    if not a or not b:
        return []
    if len(a) * len(b) <= _BITS:
        return _traced(a, b)
    if len(b) < 2:
        return [(a.index(b[0]), 0)] if b[0] in a else []
    half = len(b) // 2
    ahead = _lengths(a, b[:half])
    behind = _lengths(a[::-1], b[half:][::-1])
    cut = int(np.argmax(ahead + behind[::-1]))
    return _middle(a[:cut], b[:half]) + [(i + cut, j + half) for i, j in _middle(a[cut:], b[half:])]


def _positions(a: list[int]) -> dict[int, int]:
    """For each code, the bit set of its positions in `a`."""
    bits: dict[int, bytearray] = {}
    size = len(a) // 8 + 1
    for place, code in enumerate(a):
        bits.setdefault(code, bytearray(size))[place >> 3] |= 1 << (place & 7)
    return {code: int.from_bytes(row, "little") for code, row in bits.items()}


def _lengths(a: list[int], b: list[int]) -> I64:
    """Length of the longest common subsequence of a[:i] and b, for i in 0..len(a)."""
    places, ones = _positions(a), (1 << len(a)) - 1
    row = ones
    for code in b:
        hit = row & places.get(code, 0)
        row = ((row + hit) | (row - hit)) & ones
    raw = np.frombuffer(row.to_bytes(len(a) // 8 + 1, "little"), dtype=np.uint8)
    steps = 1 - np.unpackbits(raw, bitorder="little")[: len(a)].astype(np.int64)
    return np.concatenate(([0], np.cumsum(steps)))


def _traced(a: list[int], b: list[int]) -> list[tuple[int, int]]:
    places, ones, size = _positions(a), (1 << len(a)) - 1, len(a) // 8 + 1
    row = ones
    rows = []
    for code in b:
        hit = row & places.get(code, 0)
        row = ((row + hit) | (row - hit)) & ones
        rows.append(row.to_bytes(size, "little"))
    pairs = []
    i, j = len(a), len(b)
    while i and j:
        byte, bit = (i - 1) >> 3, 1 << ((i - 1) & 7)
        if rows[j - 1][byte] & bit:
            i -= 1
            continue
        j -= 1
        if j and not rows[j - 1][byte] & bit:
            continue
        i -= 1
        pairs.append((i, j))
    return pairs[::-1]
