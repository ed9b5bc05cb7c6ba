# SPDX-License-Identifier: Apache-2.0
"""The slice table of a recorded process; its launches are read chunk by chunk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from xpuprof.arrays import I64, U64, Mask
from xpuprof.trace.coordinates import EXIT_KERNEL
from xpuprof.trace.layout import HOST, LAUNCH_FLAGS
from xpuprof.trace.name_columns import name_column
from xpuprof.trace.pieces import pieces
from xpuprof.trace.streams import Stream, StreamReader

AXES = ("x", "y", "z")
SIZES = {"g": "global", "l": "local"}
"""Prefix of the columns, and the launch's field."""
_DIRECTIONS = ("to_device", "to_host", "within")


@dataclass(frozen=True, eq=False)
class SliceColumns:
    """What launches tell of the slices that they end, one entry per slice, and zeros for the
    exit's: `sizes` by column (gx to lz), `grid` int64[launches] (-1: not counted), `run` uint64[
    launches], ticks, a running maximum."""

    kernel: npt.NDArray[np.unsignedinteger[Any]]
    """Number of each launch's kernel; the exit has none."""
    sizes: dict[str, I64]
    lane_instructions: U64
    instrumented: Mask
    left_out: Mask
    grid: I64
    run: U64

    @classmethod
    def read(
        cls, events: StreamReader | None, launches: int, slices: int, *, profile: bool
    ) -> SliceColumns:
        """Those of the first `launches` launches. A `profile` counts an instrumented launch only
        if its counts were read back. Raises TraceError."""
        kernels = events.count("kernels") if events else 0
        own = cls(
            np.zeros(launches, np.min_scalar_type(kernels)),
            {prefix + axis: np.zeros(slices, np.int64) for prefix in SIZES for axis in AXES},
            np.zeros(slices, np.uint64),
            np.ones(slices, bool),
            np.zeros(slices, bool),
            np.full(launches, -1, np.int64),
            np.empty(launches, np.uint64),
        )
        if events:
            own._fill(events)
        if profile:
            own.instrumented[:launches] &= own.grid >= 0
        return own

    def _fill(self, events: StreamReader) -> None:
        done, size = 0, len(self.kernel)
        for rows in events.chunks("launches", "launch_grids", "lanes"):
            launches = rows["launches"][: size - done]
            span = slice(done, done + len(launches))
            done = span.stop
            self.kernel[span] = launches["kernel"]
            for prefix, field in SIZES.items():
                for column, axis in enumerate(AXES):
                    self.sizes[prefix + axis][span] = launches[field][:, column]
            self.instrumented[span] = launches["flags"] & LAUNCH_FLAGS["INSTRUMENTED"] != 0
            self.left_out[span] = launches["flags"] & LAUNCH_FLAGS["LEFT_OUT"] != 0
            self.run[span] = launches["tsc_run"]
            for target, table, field in (
                (self.grid, "launch_grids", "grid"),
                (self.lane_instructions, "lanes", "instructions"),
            ):
                own = rows[table][rows[table]["launch"] < size]
                target[own["launch"].astype(np.int64)] = own[field]
        for piece in pieces(size):
            first = max(piece.start - 1, 0)
            part = self.run[first : piece.stop]
            np.maximum.accumulate(part, out=part)


def slice_table(
    columns: SliceColumns, kernels: pd.DataFrame, events: Stream | None, cpu: Stream | None
) -> pd.DataFrame:
    """One row per slice; row i describes launch i, which ends it, and the last row the exit."""
    finished, n = len(columns.instrumented), len(columns.kernel)
    exits = finished > n  # False if the last slice never ended
    warps, instructions = np.zeros(finished, np.int64), np.zeros(finished, np.int64)
    if events is not None:
        for piece in pieces(n):
            counted = piece.start + np.flatnonzero(columns.grid[piece] >= 0)
            grids = events["grids"][columns.grid[counted]]
            warps[counted], instructions[counted] = grids["warps"], grids["instructions"]
    kernel = name_column(
        kernels["name"].tolist(), columns.kernel, at_exit=EXIT_KERNEL if exits else None
    )
    program = name_column(
        kernels["program"].tolist(), columns.kernel, at_exit="" if exits else None
    )
    return pd.DataFrame(
        {
            "slice": np.arange(finished),
            "kernel": kernel,
            "call": calls(kernel.codes),
            "program": program,
            **columns.sizes,
            "warps": warps,
            "cpu_instructions": _cut_instructions(cpu, finished),
            "gpu_instructions": instructions,
            "lane_instructions": columns.lane_instructions,
            **_host_work(columns.run, finished, events),
            "instrumented": columns.instrumented,
            "left_out": columns.left_out,
        },
        copy=False,  # each column is its own
    )


def calls(codes: npt.NDArray[np.integer[Any]]) -> I64:
    """For each entry, the number of equal entries up to and including it."""
    result = np.empty(len(codes), np.int64)
    seen = np.zeros(int(codes.max(initial=-1)) + 1, np.int64)
    for piece in pieces(len(codes)):
        own = codes[piece]
        order = np.argsort(own, kind="stable")
        number = np.bincount(own, minlength=len(seen))
        before = seen - np.cumsum(number) + number
        result[piece][order] = before[own[order]] + np.arange(1, len(own) + 1)
        seen += number
    return result


def _host_work(run: U64, finished: int, events: Stream | None) -> dict[str, I64]:
    """Builds of device programs, and bytes moved by direction, between the launches of each
    slice."""
    found = {name: np.zeros(finished, np.int64) for name in ("builds", *_DIRECTIONS)}

    def add(name: str, stamps: U64, amounts: U64) -> None:
        owner = np.searchsorted(run, stamps, side="right")
        own = owner < finished
        np.add.at(found[name], owner[own], amounts[own].astype(np.int64))

    if events is None:
        return found
    hosts, copies = events["hosts"], events["copies"]
    builds = hosts["tsc_start"][hosts["kind"] == HOST["BUILD"]]
    add("builds", builds, np.ones(len(builds), np.uint64))
    for direction, name in enumerate(_DIRECTIONS):
        own = copies[copies["direction"] == direction]
        add(name, own["tsc_start"], own["bytes"])
    return found


def _cut_instructions(cpu: Stream | None, finished: int) -> I64:
    result = np.zeros(finished, np.int64)
    if cpu is not None:
        cuts = cpu["cuts"][cpu["cuts"]["slice"] < finished]
        result[cuts["slice"].astype(np.int64)] = cuts["instructions"]
    return result
