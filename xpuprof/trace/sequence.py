# SPDX-License-Identifier: Apache-2.0
"""The order of a run's slices as a value, compared between runs and stored in selections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from xpuprof.errors import InputError
from xpuprof.inputs import SELECT_AGAIN
from xpuprof.trace.coordinates import NO_KERNELS
from xpuprof.trace.kinds import Key, LaunchKind, LaunchSequence, size_of
from xpuprof.trace.run_lengths import decode_runs, encode_runs

if TYPE_CHECKING:
    import pandas as pd

_SIZES = ("gx", "gy", "gz", "lx", "ly", "lz")
KIND_COLUMNS = ("kernel", "program", *_SIZES, "range")
"""Columns that identify the kind of a launch (`LaunchKind`)."""

VARIES = "the program launches other kernels in each run"
STEADY = "fix its input, its seeds and its number of threads"
"""The remedy."""
RACES = "threads of the program launch kernels in another order in each run"
TAKE_TURNS = "let one thread launch, or let the threads take turns"
"""The remedy."""

_DEFAULTS = {"program": "", "range": ""}


def launch_sequence(slices: pd.DataFrame) -> LaunchSequence:
    """The sequence of a slice table as `trace.tables.Process.slices`; missing columns count as
    unknown."""
    codes, first = _first_seen_codes(slices)
    listed = [
        LaunchKind(str(row[0]), str(row[1]), size_of(row[2:5]), size_of(row[5:8]), str(row[8]))
        for row in with_kind_columns(slices.iloc[first]).to_numpy(dtype=object).tolist()
    ]
    return LaunchSequence(tuple(listed), tuple(encode_runs(codes)))


def joined_sequences(sequences: Sequence[LaunchSequence]) -> LaunchSequence:
    """The sequence of several processes, joined from each one's."""
    kinds: dict[LaunchKind, int] = {}
    codes = []
    for sequence in sequences:
        own = [kinds.setdefault(kind, len(kinds)) for kind in sequence.kinds]
        codes.append(np.array(own, dtype=np.int32)[decode_runs(sequence.order)])
    return LaunchSequence(tuple(kinds), tuple(encode_runs(np.concatenate(codes))))


def sequence_slices(
    sequence: LaunchSequence | None, processes: Sequence[Key], source: str
) -> pd.DataFrame | None:
    """The slice table (kind columns, `call`, and `process` where there are `processes`) that
    `launch_sequence` described; None if there is none.

    Raises InputError when the sequence is damaged; `source` names the selection.
    """
    if sequence is None:
        return None
    import pandas as pd  # here and below: times and sums do without

    rows = [[k.kernel, k.program, *k.grid, *k.block, k.range] for k in sequence.kinds]
    try:
        codes = decode_runs(sequence.order)
        kinds = pd.DataFrame(rows, columns=list(KIND_COLUMNS))
        table = kinds.iloc[codes].reset_index(drop=True)
    except (IndexError, ValueError) as error:
        raise InputError(
            f"{source}: its launch sequence cannot be read ({error}): {SELECT_AGAIN}"
        ) from error
    if lengths := [key.slices for key in processes]:
        if sum(lengths) != len(table):
            raise InputError(
                f"{source}: its processes have {sum(lengths)} slices, its launch sequence "
                f"{len(table)}: {SELECT_AGAIN}"
            )
        table["process"] = np.repeat(np.arange(len(lengths)), lengths)
    by = [name for name in ("process", "kernel") if name in table]
    table["call"] = table.groupby(by, sort=False).cumcount() + 1
    return table


def with_kind_columns(slices: pd.DataFrame) -> pd.DataFrame:
    """The kind columns of a slice table, 0 and "" for missing ones."""
    import pandas as pd

    columns = {
        name: slices[name] if name in slices else _DEFAULTS.get(name, 0) for name in KIND_COLUMNS
    }
    return pd.DataFrame(columns, index=slices.index)


def first_difference(a: pd.DataFrame, b: pd.DataFrame) -> str:
    """Where the kinds of two slice tables differ first, in what both know if possible; not empty,
    even if they do not."""
    shorter = min(len(a), len(b))
    tables = [with_kind_columns(table) for table in (a, b)]
    for names in (_known_to_both(*tables), KIND_COLUMNS):
        left, right = (table[[*names]].to_numpy(dtype=object)[:shorter] for table in tables)
        if (differs := left != right).any() or len(a) != len(b):
            break
    if not differs.any():
        return f"{len(a)} and {len(b)} slices"
    row, column = (int(n) for n in np.argwhere(differs)[0])
    one, other = (
        dict(zip(KIND_COLUMNS, table.iloc[row].tolist(), strict=True)) for table in tables
    )
    return f"slice {row}: {_difference(names[column], one, other)}"


def _known_to_both(a: pd.DataFrame, b: pd.DataFrame) -> list[str]:
    """The kind columns that tell launches of two tables apart: not sizes that one does not know,
    nor hashes of device programs of which they share none, as another engine makes others."""
    programs = [set(table["program"].unique()) - {""} for table in (a, b)]
    known = ["kernel", "range", *known_sizes(a, b)]
    if not programs[0].isdisjoint(programs[1]):
        known.append("program")
    return [name for name in KIND_COLUMNS if name in known]


def known_sizes(a: pd.DataFrame, b: pd.DataFrame) -> list[str]:
    """The columns of grids and work-groups that both tables know (as far as they have rows): 0 is
    unknown."""
    runs = [run for run in (a, b) if len(run)]
    return [name for name in _SIZES if all(run[name].any() for run in runs)]


def _difference(name: str, one: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """How two launches differ, first of all in the kind column `name`."""
    kernels = [
        NO_KERNELS.get(kind["kernel"]) or f"kernel {kind['kernel']}" for kind in (one, other)
    ]
    if name == "kernel":
        return " and ".join(kernels)
    if name == "program":
        return f"{kernels[0]} from device programs whose source or build options differ"
    if name == "range":
        return f"{kernels[0]} in the ranges {one[name]!r} and {other[name]!r}"
    which = "grids" if name.startswith("g") else "group sizes"
    sizes = [" x ".join(str(kind[name[0] + axis]) for axis in "xyz") for kind in (one, other)]
    return f"{kernels[0]} with the {which} {' and '.join(sizes)}"


def _first_seen_codes(slices: pd.DataFrame) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """(dense code of each row's kind in order of first appearance, first row of each code)."""
    known = [name for name in KIND_COLUMNS if name in slices]
    starts = _starts_of_runs(slices, known)  # millions of launches are often a few runs
    codes = slices.iloc[starts].groupby(known, sort=False, observed=True).ngroup().to_numpy()
    _, first = np.unique(codes, return_index=True)
    return np.repeat(codes, np.diff(starts, append=len(slices))), starts[first]


def _starts_of_runs(slices: pd.DataFrame, columns: Sequence[str]) -> npt.NDArray[np.int64]:
    """The rows that differ from the one before in one of the columns, and the first row."""
    differs = np.arange(len(slices)) == 0
    for name in columns:
        column = slices[name]
        values = column.cat.codes.to_numpy() if column.dtype == "category" else column.to_numpy()
        differs[1:] |= values[1:] != values[:-1]
    return np.flatnonzero(differs)
