# SPDX-License-Identifier: Apache-2.0
"""Made-up runs and selections whose right answers are known by construction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from xpuprof.selection.identity import Identity, Program
from xpuprof.selection.selection import Marker, Representative, Selection
from xpuprof.trace.coordinates import EXIT_KERNEL, JobRow
from xpuprof.trace.sequence import launch_sequence
from xpuprof.validation.timed import Timed


def slice_table(launches: Sequence[str], program: str = "aa") -> pd.DataFrame:
    """`k/64` is a launch of kernel k over 64 work-items; program exit is added."""
    rows: list[dict[str, object]] = []
    calls: dict[str, int] = {}
    for launch in [*launches, EXIT_KERNEL]:
        kernel, _, grid = launch.partition("/")
        calls[kernel] = calls.get(kernel, 0) + 1
        size = int(grid or 0)
        rows.append(
            {
                "slice": len(rows),
                "kernel": kernel,
                "call": calls[kernel],
                "program": program if kernel != EXIT_KERNEL else "",
                "gx": size,
                "gy": int(size > 0),
                "gz": int(size > 0),
                "lx": 0,
                "ly": 0,
                "lz": 0,
            }
        )
    return pd.DataFrame(rows)


def made_up_run(
    launches: Sequence[str], seconds: Sequence[float] | None = None, name: str = "run", **more: str
) -> Timed:
    """Slice times default to 1 s."""
    slices = slice_table(launches, **more)
    times = np.ones(len(slices)) if seconds is None else np.array(seconds, dtype=float)
    assert len(times) == len(slices)
    return Timed(name, slices, times[None, :])


def select_by_kernel(run: Timed, **fields: Any) -> Selection:
    """One cluster per kernel name, represented by its first slice; the multiplier is its size."""
    names = run.slices["kernel"].to_numpy()
    _, codes = np.unique(names, return_inverse=True)
    labels = codes.astype(np.int32)
    representatives = []
    for cluster in range(labels.max() + 1):
        row = int(np.flatnonzero(labels == cluster)[0])
        size = int((labels == cluster).sum())
        representatives.append(
            Representative(
                JobRow(row),
                marker(run.slices, row),
                None if row == 0 else marker(run.slices, row - 1),
                cluster,
                float(size),
                size / len(labels),
            )
        )
    selection: dict[str, Any] = {
        "method": "by-kernel",
        "parameters": {},
        "seed": 1,
        "representatives": tuple(sorted(representatives, key=lambda r: r.slice)),
        "labels": labels,
        "identity": Identity(Program(("./app",)), launch_sequence(run.slices)),
        **fields,
    }
    return Selection(**selection)


def marker(slices: pd.DataFrame, row: int) -> Marker:
    """The marker that ends a slice."""
    r = slices.iloc[row]
    return Marker(
        str(r["kernel"]),
        int(r["call"]),
        str(r["program"]),
        (int(r["gx"]), int(r["gy"]), int(r["gz"])),
    )
