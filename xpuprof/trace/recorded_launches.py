# SPDX-License-Identifier: Apache-2.0
"""The launch table of a recorded process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from xpuprof.arrays import I64
from xpuprof.trace.layout import EVENTS, LAUNCH_FLAGS, TABLES
from xpuprof.trace.name_columns import name_column
from xpuprof.trace.recorded_slices import AXES, SIZES, calls
from xpuprof.trace.recorded_tables import kernel_table
from xpuprof.trace.streams import FILES, Stream, read_stream
from xpuprof.trace.tables import Window
from xpuprof.trace.window import clip_launches

_SIZES = SIZES | {"o": "offset"}
_COMPLETION = {"tsc_complete": "tsc_host", "dev_start": "dev_start", "dev_end": "dev_end"}
_RESOURCES = ("registers", "local_static", "local_dynamic", "private_bytes")
_ROWS = ("launches", "launch_grids", "completes", "resources", "lanes", "uncounted")


def launches_of(part: Path, size: int, window: Window | None, *, profile: bool) -> pd.DataFrame:
    """The first `size` launches of the process in folder `part`, or those in the window. A
    `profile` counts an instrumented launch only if its counts were read back. Raises TraceError."""
    path = part / FILES[EVENTS]
    events = None
    if path.exists():
        events = read_stream(path, EVENTS, ("texts", "programs", "kernels", *_ROWS))
    launches = _table(events, size)
    if profile:
        grid = _column(_of_launches(events, "launch_grids", size), "grid", size, default=-1)
        launches["instrumented"] &= grid >= 0
    return launches if window is None else clip_launches(launches, window)


def _table(events: Stream | None, size: int) -> pd.DataFrame:
    rows = (events["launches"] if events else np.empty(0, TABLES["launches"].dtype))[:size]
    kernels, kernel_id = kernel_table(events), rows["kernel"].astype(np.int64)
    kernel = name_column(kernels["name"].tolist(), kernel_id)
    completes, resources, lanes = (
        _of_launches(events, table, size) for table in ("completes", "resources", "lanes")
    )
    return pd.DataFrame(
        {
            "launch": np.arange(size),
            "kernel": kernel,
            "call": calls(kernel.codes),
            "kernel_id": kernel_id,
            "program": name_column(kernels["program"].tolist(), kernel_id),
            "dimensions": rows["dimensions"].astype(np.int64),
            **{
                prefix + axis: rows[field][:, i].astype(np.int64)
                for prefix, field in _SIZES.items()
                for i, axis in enumerate(AXES)
            },
            **{name: rows[name].astype(np.int64) for name in ("queue", "device", "thread")},
            "tsc_run": rows["tsc_run"].copy(),
            **{
                name: _column(completes[completes[field] != 0], field, size).astype(np.uint64)
                for name, field in _COMPLETION.items()
            },
            **{name: _column(resources, name, size) for name in _RESOURCES},
            "lane_instructions": _column(lanes, "instructions", size).astype(np.uint64),
            "instrumented": (rows["flags"] & LAUNCH_FLAGS["INSTRUMENTED"]) != 0,
            "left_out": (rows["flags"] & LAUNCH_FLAGS["LEFT_OUT"]) != 0,
            "inside": (rows["flags"] & LAUNCH_FLAGS["OUTSIDE"]) == 0,
            "reason": _reasons(events, size),
        },
        copy=False,  # each column is its own
    )


def _reasons(events: Stream | None, size: int) -> pd.Categorical:
    """Why launches were not instrumented, or not counted. Few differ, and most are empty."""
    code, texts = np.zeros(size, np.int64), [""]
    for table in ("launches", "uncounted"):
        rows = _of_launches(events, table, size)
        rows = rows[rows["reason"]["size"] > 0]
        if events is not None and len(rows):
            column = rows["reason"]
            _, where, which = np.unique(column["at"], return_index=True, return_inverse=True)
            code[rows["launch"].astype(np.int64)] = len(texts) + which
            texts += events.texts(column[where])
    return name_column(texts, code)


def _of_launches(events: Stream | None, table: str, size: int) -> npt.NDArray[Any]:
    """The table's rows of the first `size` launches."""
    rows = events[table] if events else np.empty(0, TABLES[table].dtype)
    return rows[rows["launch"] < size]


def _column(rows: npt.NDArray[Any], field: str, size: int, default: int = 0) -> I64:
    """A field by launch; where a launch has several rows, the last one counts."""
    column = np.full(size, default, np.int64)
    column[rows["launch"].astype(np.int64)] = rows[field]
    return column
