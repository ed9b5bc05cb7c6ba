# SPDX-License-Identifier: Apache-2.0
"""Alignment of launch sequences, against a plain dynamic program and on made-up runs."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xpuprof.trace.kinds import LaunchSequence
from xpuprof.trace.sequence import first_difference, launch_sequence, sequence_slices
from xpuprof.validation import align as module
from xpuprof.validation.align import align, common_subsequence

CODES = st.lists(st.integers(0, 4), max_size=40)


def longest(a: list[int], b: list[int]) -> int:
    """The textbook table."""
    table = np.zeros((len(a) + 1, len(b) + 1), dtype=int)
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            table[i + 1, j + 1] = (
                table[i, j] + 1 if x == y else max(table[i, j + 1], table[i + 1, j])
            )
    return int(table[-1, -1])


def check(a: list[int], b: list[int]) -> None:
    pairs = common_subsequence(np.array(a, dtype=int), np.array(b, dtype=int))
    assert all(a[i] == b[j] for i, j in pairs)
    assert (np.diff(pairs, axis=0) > 0).all()
    assert len(pairs) == longest(a, b)


@settings(max_examples=200, deadline=None)
@given(a=CODES, b=CODES)
def test_longest_common_subsequence(a: list[int], b: list[int]) -> None:
    check(a, b)


@settings(max_examples=100, deadline=None)
@given(a=CODES, b=CODES)
def test_split_in_halves_is_as_long(a: list[int], b: list[int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_BITS", 8)
        check(a, b)


def table(*launches: str) -> pd.DataFrame:
    """`k/64` is a launch of k over 64 work-items."""
    names = [launch.split("/")[0] for launch in launches]
    grids = [int(launch.split("/")[1]) if "/" in launch else 0 for launch in launches]
    return pd.DataFrame({"kernel": names, "gx": grids})


def test_equal_sequences() -> None:
    run = table(*["a/1", "b/2"] * 50, "SYS_exit")
    alignment = align(run, run)
    assert alignment.same
    assert alignment.match.tolist() == list(range(101))


def test_inserted_launches_shift_what_follows() -> None:
    alignment = align(table("a", "b", "a", "b"), table("a", "tune", "tune", "b", "a", "b"))
    assert alignment.match.tolist() == [0, 3, 4, 5]
    assert alignment.unmatched_b.tolist() == [1, 2]
    assert not alignment.same


def test_another_grid_is_matched_by_name_between_its_neighbours() -> None:
    alignment = align(table("a/1", "b/1", "c/1"), table("a/1", "b/2", "c/1"))
    assert alignment.match.tolist() == [0, 1, 2]
    assert alignment.level.tolist() == [0, 1, 0]
    assert not alignment.same


def test_sizes_that_one_run_does_not_know_are_not_compared() -> None:
    known = table("a/1", "b/2", "a/1").assign(lx=[1, 2, 1])
    assert align(known, table("a", "b", "a")).same
    assert align(known, table("a/1", "b/2", "a/1")).same
    assert align(known, table("a/1", "b/3", "a/1")).level.tolist() == [0, 1, 0]


def test_another_vendors_spelling_is_matched_by_function() -> None:
    a = table("void at::native::gemm<float, 4>(float*)", "only_a", "relu(int)")
    b = table("void at::native::gemm<half, 8>(half*)", "relu(long)", "only_b")
    alignment = align(a, b)
    assert alignment.match.tolist() == [0, -1, 1]
    assert alignment.level.tolist() == [2, -1, 2]
    assert alignment.unmatched_a.tolist() == [1]
    assert alignment.unmatched_b.tolist() == [2]


def stored(sequence: LaunchSequence) -> LaunchSequence:
    """The sequence after a round trip through a selection file."""
    return LaunchSequence.from_json(json.loads(json.dumps(sequence.as_json())))


def test_another_library_is_matched_by_the_operator_that_called_it() -> None:
    a = table("cutlass_gemm", "copy", "cutlass_gemm").assign(range=["mm", "", "mm"])
    b = table("Cijk_Ailk", "Cijk_pre", "fill", "Cijk_Ailk").assign(range=["mm", "", "", "mm"])
    alignment = align(a, b)
    assert alignment.match.tolist() == [0, -1, 3]
    assert alignment.level.tolist() == [3, -1, 3]
    back = sequence_slices(stored(launch_sequence(a)), (), "s")
    assert back is not None
    assert align(back, b).match.tolist() == [0, -1, 3]


def test_program_hash_does_not_part_equal_launches() -> None:
    a = table("a", "b").assign(program=["11", "22"])
    assert align(a, table("a", "b")).same


def test_sequence_survives_the_selection_file() -> None:
    run = table(*["a/1", "b/2", "b/2"] * 30, "SYS_exit").assign(program="ff")
    document = launch_sequence(run)
    back = sequence_slices(stored(document), (), "s")
    assert back is not None
    assert back[["kernel", "gx", "program"]].equals(run[["kernel", "gx", "program"]])
    assert back["call"].tolist()[-4:] == [30, 59, 60, 1]
    assert launch_sequence(back) == document
    assert launch_sequence(run.iloc[:-1]).digest != document.digest


def test_first_difference_names_no_internals() -> None:
    """GIVEN two sequences WHEN they differ THEN the first difference is told in the words of the
    tables: no column names, no hashes."""
    run = table("a/1", "b/2")
    assert first_difference(run, table("a/1", "SYS_exit")) == "slice 1: kernel b and program exit"
    assert first_difference(run, table("a/1", "c/2")) == "slice 1: kernel b and kernel c"
    assert first_difference(run, table("a/1")) == "2 and 1 slices"
    grids = "slice 1: kernel b with the grids 2 x 1 x 1 and 4 x 1 x 1"
    assert first_difference(run.assign(gy=1, gz=1), table("a/1", "b/4").assign(gy=1, gz=1)) == grids
    assert first_difference(run.assign(program="ff"), run.assign(program="ee")) == (
        "slice 0: kernel a from device programs whose source or build options differ"
    )
