# SPDX-License-Identifier: Apache-2.0
"""Columns of names, one for each launch or slice, which hold each distinct name once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from pandas.api.types import union_categoricals


def name_column(
    names: Sequence[str], rows: npt.NDArray[np.integer[Any]], *, at_exit: str | None = None
) -> pd.Categorical:
    """`names[row]` of each of `rows`, and with `at_exit` that name behind them. Categories are the
    distinct names that occur, in order of appearance."""
    of_row, seen = pd.factorize(rows)
    tail = [] if at_exit is None else [at_exit]
    listed = [*(names[i] for i in seen.tolist()), *tail]
    number = {name: code for code, name in enumerate(dict.fromkeys(listed))}
    codes = np.empty(len(rows) + len(tail), np.min_scalar_type(-1 - len(number)))
    codes[len(rows) :] = [number[name] for name in tail]
    codes[: len(rows)] = np.array([number[names[i]] for i in seen.tolist()], codes.dtype)[of_row]
    return pd.Categorical.from_codes(codes, categories=pd.Index(list(number), dtype="str"))


def joined(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """The tables, one below the other; columns of names stay such."""
    named = [name for name in tables[0] if isinstance(tables[0][name].dtype, pd.CategoricalDtype)]
    names = {name: union_categoricals([table[name] for table in tables]).dtype for name in named}
    return pd.concat([table.astype(names) for table in tables], ignore_index=True)
