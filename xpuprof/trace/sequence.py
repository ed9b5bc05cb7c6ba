# SPDX-License-Identifier: Apache-2.0
"""The order of a run's slices as a value, compared between runs and stored in selections."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from xpuprof.errors import InputError
from xpuprof.trace.run_lengths import decode_runs, encode_runs

KIND_COLUMNS = ("kernel", "program", "gx", "gy", "gz", "lx", "ly", "lz", "range")
"""Columns that identify the kind of a launch. `range`: the operator or annotated range that
launched it, known for imported profiles."""

_DEFAULTS = {"program": "", "range": ""}


@dataclass(frozen=True)
class LaunchSequence:
    """The order of a run's slices.

    `kinds`: one list a kind: kernel, program, grid, block and, if known, range; `order`: kind of
    every slice, run-length coded lines.
    """

    kinds: list[list[Any]]
    order: list[str]

    @cached_property
    def digest(self) -> str:
        """Equal for equal sequences."""
        return hashlib.sha256(json.dumps([self.kinds, self.order]).encode()).hexdigest()

    def as_json(self) -> dict[str, object]:
        """For `Selection.identity["sequence"]`."""
        return {"digest": self.digest, "kinds": self.kinds, "order": self.order}


def launch_sequence(slices: pd.DataFrame) -> LaunchSequence:
    """The sequence of a slice table as `trace.tables.Process.slices`; missing columns count as
    unknown."""
    kinds = with_kind_columns(slices)
    codes, first = _first_seen_codes(kinds)
    listed = [
        [str(row[0]), str(row[1]), [int(n) for n in row[2:5]], [int(n) for n in row[5:8]]]
        for row in kinds.iloc[first].to_numpy(dtype=object).tolist()
    ]
    ranges = kinds["range"].iloc[first].astype(str).tolist()
    if any(ranges):
        listed = [[*kind, name] for kind, name in zip(listed, ranges, strict=True)]
    return LaunchSequence(listed, encode_runs(codes))


def joined_sequences(sequences: Sequence[LaunchSequence]) -> LaunchSequence:
    """The sequence of several processes, joined from each one's."""
    kinds: dict[str, int] = {}
    codes = []
    for sequence in sequences:
        own = [kinds.setdefault(json.dumps(kind), len(kinds)) for kind in sequence.kinds]
        codes.append(np.array(own, dtype=np.int32)[decode_runs(sequence.order)])
    listed = [json.loads(kind) for kind in kinds]
    return LaunchSequence(listed, encode_runs(np.concatenate(codes)))


def sequence_slices(identity: Mapping[str, Any], source: str) -> pd.DataFrame | None:
    """The slice table (kind columns, `call`, and `process` where the selection lists processes)
    that `launch_sequence` described; None if there is none.

    Raises InputError when the sequence is damaged; `source` names the selection.
    """
    sequence = identity.get("sequence")
    if sequence is None:
        return None
    try:
        kinds = pd.DataFrame(
            [
                [kernel, program, *grid, *block, *(more or [""])]
                for kernel, program, grid, block, *more in sequence["kinds"]
            ],
            columns=list(KIND_COLUMNS),
        )
        codes = decode_runs(sequence["order"])
        table = kinds.iloc[codes].reset_index(drop=True)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise InputError(
            f"{source}: its launch sequence cannot be read ({error}): "
            "make it again with `xpuprof select RUN`"
        ) from error
    if lengths := [int(process["slices"]) for process in identity.get("processes", [])]:
        if sum(lengths) != len(table):
            raise InputError(
                f"{source}: its processes have {sum(lengths)} slices, its launch sequence "
                f"{len(table)}: make it again with `xpuprof select RUN`"
            )
        table["process"] = np.repeat(np.arange(len(lengths)), lengths)
    by = [name for name in ("process", "kernel") if name in table]
    table["call"] = table.groupby(by, sort=False).cumcount() + 1
    return table


def with_kind_columns(slices: pd.DataFrame) -> pd.DataFrame:
    """The kind columns of a slice table, 0 and "" for missing ones."""
    columns = {
        name: slices[name] if name in slices else _DEFAULTS.get(name, 0) for name in KIND_COLUMNS
    }
    return pd.DataFrame(columns, index=slices.index)


def first_difference(a: pd.DataFrame, b: pd.DataFrame) -> str:
    """Where the kinds of two slice tables differ first; not empty, even if they do not."""
    shorter = min(len(a), len(b))
    left, right = (with_kind_columns(t).to_numpy(dtype=object)[:shorter] for t in (a, b))
    differs = left != right
    if not differs.any():
        return f"{len(a)} and {len(b)} slices"
    row, column = (int(n) for n in np.argwhere(differs)[0])
    return f"slice {row}: {KIND_COLUMNS[column]} {left[row, column]} and {right[row, column]}"


def _first_seen_codes(kinds: pd.DataFrame) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """(dense code of each row in order of first appearance, first row of each code)."""
    codes = kinds.groupby(list(KIND_COLUMNS), sort=False, observed=True).ngroup().to_numpy()
    _, first = np.unique(codes, return_index=True)
    return codes, first
