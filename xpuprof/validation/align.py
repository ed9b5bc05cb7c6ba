# SPDX-License-Identifier: Apache-2.0
"""Two runs of one program whose launch sequences differ, slice by slice.

With autotuning, another vendor's library or another machine, a program launches slightly different
kernels. The longest common subsequence of (kernel, grid, work-group) gives the anchors. Slices
between two anchors are matched again by kernel name, then by the bare function name (no parameters,
template arguments or namespaces), then by the launching operator if known, since another vendor's
library implements it with other kernels. Run order is always preserved. Sizes that one of the runs
does not know are not compared.

Kernels of one name in several device programs are distinguished by the program's hash, if the runs
share such hashes: one that only one of them has is then another program. Where they share none,
hashes say nothing, since another driver, compiler or engine makes others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from xpuprof.arrays import I64
from xpuprof.trace.coordinates import JobRows, OtherRows
from xpuprof.trace.kernel_names import brief
from xpuprof.trace.sequence import known_sizes, with_kind_columns

LEVELS = ("kernel and grid", "kernel", "function", "operator", "start-up")
"""What two matched slices have in common, closest match first."""
SAME_KERNEL = LEVELS.index("kernel")
START_UP = LEVELS.index("start-up")
"""No kernel in common: both slices are the first of their process (see `ends`)."""

_BITS = 1 << 31
"""A larger table of a x b bits (256 MiB) is split (Hirschberg) instead of stored."""


@dataclass(frozen=True, eq=False)
class Alignment:
    """`match[i]` is the slice of B that matches slice i of A, -1 if none does.

    `level[i]` indexes LEVELS (-1 unmatched). `kinds_b` and `kernels_b` are codes of B's slices,
    equal for those with the same kernel and grid, and with the same kernel.
    """

    match: OtherRows
    level: npt.NDArray[np.int8]
    kinds_b: I64
    kernels_b: I64

    @property
    def slices_b(self) -> int:
        """Number of slices of B."""
        return len(self.kinds_b)

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


def align(a: pd.DataFrame, b: pd.DataFrame, starts: tuple[I64, I64] | None = None) -> Alignment:
    """Align two slice tables (columns as `trace.tables.Process.slices`, missing ones are unknown);
    those of jobs have a column `process`, and each process is aligned with its counterpart.
    `starts`: rows of A and of B that hold start-up, which match whatever they launch.

    Cost: with sequences of n and m slices that differ, n x m / 64 machine operations between the
    first and the last difference; negligible if they are equal.
    """
    keys = keys_of(a, b)
    match = np.full(len(a), -1, dtype=np.int64)
    level = np.full(len(a), -1, dtype=np.int8)
    if starts is not None:
        match[starts[0]] = starts[1]
    for rows, there in _counterparts(a, b):
        known = match[rows]
        known[known >= 0] = np.searchsorted(there, known[known >= 0])
        own, level[rows] = _aligned([(key[rows], key[len(a) + there]) for key in keys], known)
        found = own >= 0
        match[rows[found]] = there[own[found]]
    kinds, kernels = (key[len(a) :] for key in keys[: SAME_KERNEL + 1])
    return Alignment(OtherRows(match), level, kinds, kernels)


def keys_of(a: pd.DataFrame, b: pd.DataFrame) -> tuple[I64, ...]:
    """For each of LEVELS before START_UP a code of every slice of A, then of B; equal codes
    match."""
    kinds = pd.concat([with_kind_columns(a), with_kind_columns(b)], ignore_index=True)
    names, listed = pd.factorize(kinds["kernel"].astype(str))
    functions = pd.factorize(listed.map(brief))[0][names]
    programs = _programs(names, pd.factorize(kinds["program"].astype(str))[0], len(a))
    sizes = known_sizes(kinds.iloc[: len(a)], kinds.iloc[len(a) :])
    by_grid = kinds.groupby(
        [names, programs, *(kinds[name] for name in sizes)], sort=False
    ).ngroup()
    width = programs.max(initial=0) + 1
    return (
        np.asarray(by_grid, dtype=np.int64),
        names * width + programs,
        functions * width + programs,
        _operators(kinds["range"].astype(str)),
    )


def _programs(names: I64, programs: I64, size_a: int) -> I64:
    """Codes of the programs that tell kernels of one name apart in both runs; 0 otherwise."""
    common = np.intersect1d(programs[:size_a], programs[size_a:])
    known = np.where(np.isin(programs, common), programs + 1, 0)
    width = known.max(initial=0) + 1
    several = np.bincount(np.unique(names * width + known) // width) > 1
    return np.where(several[names], known, 0)


def _counterparts(a: pd.DataFrame, b: pd.DataFrame) -> Iterator[tuple[I64, I64]]:
    """Rows of A and of B to align with each other."""
    if "process" not in a or "process" not in b:
        yield np.arange(len(a)), np.arange(len(b))
        return
    before, after = a["process"].to_numpy(), b["process"].to_numpy()
    for process in np.unique(before):
        yield np.flatnonzero(before == process), np.flatnonzero(after == process)


def _aligned(keys: Sequence[tuple[I64, I64]], known: I64) -> tuple[I64, npt.NDArray[np.int8]]:
    """`match` and `level` (see Alignment). `keys`: as from `keys_of`, those of A and of B; `known`:
    the matches that are given, -1 for slices without."""
    other = keys[0][1]
    match = known.copy()
    level = _level_of(keys, match)
    for number, (key_a, key_b) in enumerate(keys):
        for start_a, end_a, start_b, end_b in _gaps(match, len(other)):
            pairs = common_subsequence(key_a[start_a:end_a], key_b[start_b:end_b])
            rows = pairs[:, 0] + start_a
            match[rows] = pairs[:, 1] + start_b
            level[rows] = number
    return match, level


def _level_of(keys: Sequence[tuple[I64, I64]], match: I64) -> npt.NDArray[np.int8]:
    """The level of each of the matches of start-ups; -1 for slices without a match. `keys` as in
    `_aligned`."""
    rows = np.flatnonzero(match >= 0)
    level = np.full(len(match), -1, dtype=np.int8)
    level[rows] = START_UP
    for number, (key_a, key_b) in reversed([*enumerate(keys)]):
        level[rows[key_a[rows] == key_b[match[rows]]]] = number
    return level


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
