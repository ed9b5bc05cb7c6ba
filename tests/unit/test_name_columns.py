# SPDX-License-Identifier: Apache-2.0
"""Columns of names hold what a list of strings would."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xpuprof.trace.name_columns import joined, name_column
from xpuprof.trace.recorded_slices import calls

NAMES = ["a", "b", "a", "", "SYS_exit", "never"]


@given(rows=st.lists(st.integers(0, 4)), at_exit=st.none() | st.sampled_from(["SYS_exit", "z", ""]))
def test_a_column_has_each_row_s_name(rows: list[int], at_exit: str | None) -> None:
    """GIVEN names of which some are equal and some not used THEN the column has every row's name,
    and categories only for those that occur, in order of appearance."""
    column = name_column(NAMES, np.array(rows, np.uint8), at_exit=at_exit)
    expected = [NAMES[row] for row in rows] + ([] if at_exit is None else [at_exit])
    assert column.tolist() == expected
    assert column.categories.tolist() == list(dict.fromkeys(expected))


def test_more_names_than_a_byte_can_number() -> None:
    names = [f"kernel {i}" for i in range(300)]
    rows = np.arange(300)[::-1]
    assert name_column(names, rows, at_exit="SYS_exit").tolist() == [*names[::-1], "SYS_exit"]


def test_joined_tables_keep_their_columns_of_names() -> None:
    """GIVEN tables with other names THEN one below the other they have all of them."""
    tables = [
        pd.DataFrame({"kernel": name_column(names, np.arange(len(names))), "gx": len(names)})
        for names in (["a", "b"], ["c"], [], ["b"])
    ]
    whole = joined(tables)
    assert whole["kernel"].tolist() == ["a", "b", "c", "b"]
    assert isinstance(whole["kernel"].dtype, pd.CategoricalDtype)
    assert whole["gx"].tolist() == [2, 2, 1, 1]


@pytest.mark.parametrize("length", [0, 1, 1 << 16, (1 << 16) + 1, 200_000])
def test_calls_count_on_through_a_long_run(length: int) -> None:
    codes = np.random.default_rng(length).integers(0, 5, length).astype(np.int8)
    expected = pd.Series(codes).groupby(codes).cumcount() + 1
    assert np.array_equal(calls(codes), expected.to_numpy(np.int64))
