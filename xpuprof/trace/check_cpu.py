# SPDX-License-Identifier: Apache-2.0
"""The invariants of cpu.xpt: cuts, and the vectors of threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from xpuprof.trace.check_parts import Once, Stamps, group_sums
from xpuprof.trace.findings import Findings
from xpuprof.trace.pieces import pieces
from xpuprof.trace.records import ExecutionRecord
from xpuprof.trace.streams import Rows, StreamReader


class CpuCheck:
    """Invariants of cpu.xpt, checked in one walk."""

    def __init__(
        self, cpu: StreamReader, found: Findings, record: ExecutionRecord, part: str
    ) -> None:
        self._cpu, self._found = cpu, found
        self._stamps = Stamps(found, record, part)
        self._cut = self._instructions = 0
        # The unfinished slice of a stream that was cut short may have vectors.
        self._slices = cpu.count("cuts") + (not cpu.stream.ended)
        self._missing = np.zeros(cpu.count("cuts"), np.int64)
        self._vectors, self._distances = Once("bbvs"), Once("ldvs")

    def check(self, launches: int) -> None:
        """Walk through the stream. `launches`: in events.xpt."""
        for rows in self._cpu.chunks("cuts", "bbvs", "bbv_block", "bbv_count", "ldvs"):
            self._bbvs(rows)
            self._cuts(rows["cuts"])
            self._distances.see(rows["ldvs"])
            of = rows["ldvs"]["slice"]
            message = "a vector without its slice or launch"
            self._found.add("ldv-slices", of >= self._slices, message, slices=of)
        self._totals(launches)
        self._vectors.check(self._cpu, self._found, "slice-vectors")
        self._distances.check(self._cpu, self._found, "ldv-slices")

    def _bbvs(self, rows: Rows) -> None:
        bbvs = rows["bbvs"]
        self._vectors.see(bbvs)
        of, thread = bbvs["slice"], bbvs["thread"]
        beyond, message = of >= self._slices, "the slice was never cut"
        self._found.add("slice-vectors", beyond, message, slices=of, threads=thread)
        weights = self._cpu.stream["cpu_blocks"]["instructions"].astype(np.uint64)
        sums = group_sums(weights[rows["bbv_block"]] * rows["bbv_count"], bbvs["n_pairs"])
        self._found.add(
            "bbv-instructions",
            sums != bbvs["instructions"],
            "the vector adds up to {} instructions, its record says {}",
            *(sums, bbvs["instructions"]),
            slices=of,
            threads=thread,
        )
        cut = of < len(self._missing)
        np.subtract.at(self._missing, of[cut].astype(np.int64), sums[cut].astype(np.int64))

    def _cuts(self, cuts: npt.NDArray[Any]) -> None:
        places, of = np.arange(self._cut, self._cut + len(cuts)), cuts["slice"]
        message = "cut {} has slice number {}"
        self._found.add("slice-ids", of != places, message, places, of, slices=places)
        self._stamps.ascend("cut", cuts["tsc"], of)
        self._stamps.within(cuts["tsc"], of)
        self._missing[places] += cuts["instructions"].astype(np.int64)
        self._instructions += int(cuts["instructions"].sum())
        self._cut += len(cuts)

    def _totals(self, launches: int) -> None:
        """What holds for the whole stream."""
        stream, cuts = self._cpu.stream, len(self._missing)
        if cuts > launches + 1 or (stream.ended and cuts != launches + 1):
            message = f"{launches} launches make {launches + 1} slices, {cuts} were cut"
            self._found.one("slice-ids", message)
        for span in pieces(cuts):
            missing, places = self._missing[span], range(span.start, span.stop)
            message = "the vectors and the cut differ by {} instructions"
            self._found.add("slice-instructions", missing != 0, message, missing, slices=places)
        if stream.ended and (cuts, self._instructions) != stream.end:
            self._found.one(
                "run-instructions",
                f"{cuts} slices add up to {self._instructions} instructions; END counted "
                f"{stream.end[0]} slices and {stream.end[1]} instructions",
            )
