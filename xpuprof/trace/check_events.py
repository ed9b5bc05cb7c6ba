# SPDX-License-Identifier: Apache-2.0
"""The invariants of events.xpt: launches, their grids and completions, and their accesses."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from xpuprof.trace.check_parts import Once, Stamps, group_sums
from xpuprof.trace.findings import Findings
from xpuprof.trace.layout import LAUNCH_FLAGS
from xpuprof.trace.pieces import pieces
from xpuprof.trace.records import ExecutionRecord, process_meta
from xpuprof.trace.streams import Rows, StreamReader


class EventsCheck:
    """Invariants of events.xpt, checked in one walk."""

    def __init__(
        self, events: StreamReader, found: Findings, record: ExecutionRecord, part: str
    ) -> None:
        self._events, self._found = events, found
        self._profile = record.role == "profile"
        self._stamps = Stamps(found, record, part)
        launches, kernels = events.count("launches"), np.min_scalar_type(events.count("kernels"))
        self._kernel = np.zeros(launches, kernels)
        self._counted = np.zeros(launches, bool)
        self._grids_of = np.zeros(launches, np.uint8)
        self._launched = np.zeros(launches, np.uint64)
        self._kernel_of_grid = np.zeros(events.count("grids"), kernels)
        self._of_vector = np.zeros(events.count("vectors"), np.uint64)
        self._done = {"launches": 0, "vectors": 0, "grids": 0}
        self._distances = Once("device_ldvs")

    def check(self) -> None:
        """Walk through the stream."""
        for rows in self._events.chunks(
            *("launches", "completes", "launch_grids", "vectors", "vector_block", "vector_count"),
            *("grids", "run_vector", "run_length", "device_ldvs", "uncounted"),
        ):
            self._launches(rows["launches"])
            self._grids(rows)
            self._counted[rows["uncounted"]["launch"].astype(np.int64)] = False
            self._pairs(rows["launch_grids"])
            self._completes(rows["completes"])
            self._accesses(rows["device_ldvs"])
        self._totals()
        self._distances.check(self._events, self._found, "ldv-slices")

    def _next(self, table: str, rows: npt.NDArray[Any]) -> slice:
        """Where these rows lie in their table."""
        first = self._done[table]
        self._done[table] = first + len(rows)
        return slice(first, self._done[table])

    def _launches(self, rows: npt.NDArray[Any]) -> None:
        span = self._next("launches", rows)
        places, numbers = np.arange(span.start, span.stop), rows["launch"]
        message = "launch {} has number {}"
        self._found.add(
            "launch-numbers", numbers != places, message, places, numbers, slices=places
        )
        self._kernel[span] = rows["kernel"]
        self._counted[span] = (rows["flags"] & LAUNCH_FLAGS["INSTRUMENTED"]) != 0
        self._launched[span] = rows["tsc_run"]
        self._stamps.ascend("launch", rows["tsc_run"], numbers, rows["thread"])
        self._stamps.within(rows["tsc_run"], numbers)

    def _grids(self, rows: Rows) -> None:
        grids, vectors, lengths = rows["grids"], rows["vectors"], rows["run_length"]
        blocks = self._events.stream["gpu_blocks"]["instructions"].astype(np.uint64)
        counts = blocks[rows["vector_block"]] * rows["vector_count"]
        own, span = self._of_vector, self._next("grids", grids)
        own[self._next("vectors", vectors)] = group_sums(counts, vectors["n_pairs"])
        for column, values in (
            ("warps", lengths),
            ("instructions", own[rows["run_vector"]] * lengths),
        ):
            sums = group_sums(values, grids["n_runs"])
            self._found.add(
                f"grid-{column}",
                sums != grids[column],
                f"grid {{}} adds up to {{}} {column}, its record says {{}}",
                range(span.start, span.stop),
                sums,
                grids[column],
            )
        self._kernel_of_grid[span] = grids["kernel"]

    def _pairs(self, pairs: npt.NDArray[Any]) -> None:
        """Grids of launches."""
        if not self._profile:
            return
        launch, grid = pairs["launch"].astype(np.int64), pairs["grid"].astype(np.int64)
        own, times = np.unique(launch, return_counts=True)
        self._grids_of[own] = np.minimum(self._grids_of[own] + times, 255)
        a, b = self._kernel[launch], self._kernel_of_grid[grid]
        message = "the launch has kernel {}, its grid kernel {}"
        self._found.add("launch-counts", a != b, message, a, b, slices=launch)

    def _completes(self, rows: npt.NDArray[Any]) -> None:
        known = rows["launch"] < len(self._launched)
        message = "launch {} completed but was never launched"
        self._found.add("ids-known", ~known, message, rows["launch"])
        rows = rows[known]
        host, start, end = (rows[name] for name in ("tsc_host", "dev_start", "dev_end"))
        self._stamps.within(host[host != 0], rows["launch"][host != 0])
        for wrong, message in (
            ((end != 0) & (end < start), "the launch ends on the device before it starts"),
            (
                (host != 0) & (host < self._launched[rows["launch"].astype(np.int64)]),
                "the launch completes before it was launched",
            ),
        ):
            self._found.add("device-order", wrong, message, slices=rows["launch"])

    def _accesses(self, rows: npt.NDArray[Any]) -> None:
        self._distances.see(rows)
        stray = ~self._counted[rows["launch"].astype(np.int64)]
        message = "a vector without its slice or launch"
        self._found.add("ldv-slices", stray, message, slices=rows["launch"])
        every, recorded = rows["accesses"], rows["recorded"]
        groups, own = rows["groups"], rows["recorded_groups"]
        self._found.add(
            "ldv-accesses",
            np.where(own == groups, recorded != every, recorded > every) | (own > groups),
            "the launch has {} accesses by its block counts, of {} work-groups; {} of {} are "
            "recorded",
            *(every, groups, recorded, own),
            slices=rows["launch"],
        )

    def _totals(self) -> None:
        """What holds for the whole stream."""
        stream = self._events.stream
        for span in pieces(len(self._counted) if self._profile else 0):
            times, counted = self._grids_of[span], self._counted[span]
            wrong = (times > 1) | ((times == 1) & ~counted)
            if stream.ended:
                wrong |= (times == 0) & counted
            kinds = np.where(counted, "an instrumented", "an uninstrumented")
            places = range(span.start, span.stop)
            message = "{} launch has {} grids"
            self._found.add("launch-counts", wrong, message, kinds, times, slices=places)
        uncounted = self._events.count("uncounted")
        totals = (len(self._counted), int(self._counted.sum()) + uncounted)
        if stream.ended and totals != stream.end:
            self._found.one(
                "launch-totals",
                f"{totals[0]} launches are recorded, {totals[1]} of them instrumented; END counted "
                f"{stream.end[0]} and {stream.end[1]}",
            )
        blocks = stream["gpu_blocks"]
        mix = blocks["mix"].sum(axis=1, dtype=np.uint64)
        self._found.add(
            "block-mix",
            mix != blocks["instructions"],
            "block {} of kernel {} has {} instructions, its classes {}",
            *(range(len(blocks)), blocks["kernel"], blocks["instructions"], mix),
        )


def check_lanes(events: StreamReader, found: Findings, part: str) -> None:
    """Between 1 and warp size work-items a warp instruction."""
    warp_size = process_meta(events.stream.meta(), part).warp_size
    if not events.count("lanes") or not warp_size:
        return
    grids, done = events.count("grids"), 0
    grid = np.zeros(events.count("launches"), np.min_scalar_type(grids + 1))  # 1-based, 0: none
    of_grid = np.zeros(grids + 1, np.uint64)
    for rows in events.chunks("launch_grids", "grids"):
        pairs, last = rows["launch_grids"], done + len(rows["grids"])
        of_grid[done + 1 : last + 1] = rows["grids"]["instructions"]
        grid[pairs["launch"].astype(np.int64)] = pairs["grid"] + np.uint64(1)
        done = last
    for rows in events.chunks("lanes"):
        lanes = rows["lanes"][grid[rows["lanes"]["launch"].astype(np.int64)] > 0]
        executed, warp = lanes["instructions"], of_grid[grid[lanes["launch"].astype(np.int64)]]
        found.add(
            "lane-instructions",
            (executed < warp) | (executed > np.uint64(warp_size) * warp),
            "launch {} has {} warp instructions and {} lane instructions, "
            f"with {warp_size} work-items a warp",
            *(lanes["launch"], warp, executed),
        )
