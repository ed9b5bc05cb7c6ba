# SPDX-License-Identifier: Apache-2.0
"""Where a selection's regions begin and end in the CPU's instruction stream: by instruction count
and by address.

A region by address lasts from the n-th execution of one instruction to the m-th of another, counted
over all threads from the program's start. The trace records how often each block ran in each slice,
not in which order, so a slice's beginning is marked by the first execution in it of an instruction
that begins a block. Functions of the program itself that are called once per slice are preferred:
they mark the same place in every slice, so a region is as long as its slice. Only function entries
are used, because a later instruction may also lie in the middle of another block, whose executions
would not be counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from types import MappingProxyType

import numpy as np

from xpuprof.arrays import I64
from xpuprof.errors import InputError
from xpuprof.selection.parts import first_region
from xpuprof.selection.selection import Representative, Selection
from xpuprof.trace.elf import entry_offset, fini_offset, function_offsets, lowest_address
from xpuprof.trace.tables import CpuVectors, Process


@dataclass(frozen=True)
class Point:
    """The `count`-th execution (1-based) of the instruction at `offset` of `image`; `pc`: its link
    address."""

    image: str
    offset: int
    pc: int
    count: int


@dataclass(frozen=True)
class Region:
    """A representative. `number`: its 1-based place in the selection; `warmup`: its beginning if
    warm-up slices were requested."""

    number: int
    representative: Representative
    start: Point
    end: Point
    relative: int
    """Executions of the end instruction between start and end."""
    instructions: int
    warmup: Point | None = None


def instruction_starts(process: Process, thread: int | None = None) -> I64:
    """int64[slices + 1]: instructions executed before each slice, by all threads or one.

    Raises InputError when the run has no CPU vectors.
    """
    cpu = _cpu(process)
    weighted = cpu.count.astype(np.int64) * cpu.blocks.instructions[cpu.block].astype(np.int64)
    if thread is not None:
        weighted = np.where(cpu.thread == thread, weighted, 0)
    totals = np.bincount(cpu.slice, weighted, len(process.slices)).astype(np.int64)
    return np.concatenate(([0], np.cumsum(totals)))


def regions(
    selection: Selection,
    process: Process,
    warmup: Mapping[int, int] = MappingProxyType({}),
    image_base: int | None = None,
) -> list[Region]:
    """The representatives as intervals of the CPU's execution, in the selection's order.

    `warmup`: number of warm-up slices before each chosen one. `image_base`: load address of a
    position-independent program. Raises InputError when the run has no CPU vectors or its slices
    differ from the selection's.
    """
    if selection.slices != len(process.slices):
        raise InputError(
            f"the selection has {selection.slices} slices, the run {len(process.slices)}: export "
            "with the run that the selection was made from"
        )
    sites = _Sites(process, image_base)
    starts = instruction_starts(process)
    found = []
    for number, r in enumerate(selection.representatives, first_region(selection)):
        begin, end = sites.pair(r.slice)
        first = max(r.slice - warmup.get(int(r.slice), 0), 0)
        found.append(
            Region(
                number,
                r,
                begin,
                end,
                end.count - begin.count
                if (end.image, end.offset) == (begin.image, begin.offset)
                else sites.executions(end, r.slice),
                int(starts[r.slice + 1] - starts[r.slice]),
                sites.beginning(first) if first < r.slice else None,
            )
        )
    return found


def _cpu(process: Process) -> CpuVectors:
    if process.window is not None:
        raise InputError(
            f"the run covers only the window {process.window.spec}, so execution before it "
            "was not counted; export from a profile of the whole program"
        )
    if process.meta.native_start_up:
        raise InputError(
            "start-up ran natively and was not counted, so nothing can be numbered from the "
            "program's start; export from a profile with --start-up counted"
        )
    if process.cpu is None or not len(process.cpu.block):
        raise InputError(
            "the run has no CPU block vectors; record it with a CPU engine: "
            "xpuprof profile --cpu auto -- ./app args"
        )
    return process.cpu


class _Sites:
    """Block beginnings (sites), their executions per slice, and which may be markers."""

    def __init__(self, process: Process, image_base: int | None) -> None:
        cpu = _cpu(process)
        if cpu.block_image is None or cpu.block_offset is None:
            raise InputError("the run knows its CPU blocks by identity only, not by address")
        self.paths = process.images["path"].astype(str).tolist()
        self.image_base = image_base
        self.last = len(process.slices) - 1
        self.main = self._main_image()
        places = np.stack([cpu.block_image.astype(np.uint64), cpu.block_offset])
        unique, site_of_block = np.unique(places, axis=1, return_inverse=True)
        self.image, self.offset = unique.astype(np.int64)
        self.starts = cpu.slice_start.astype(np.int64)
        self.site = site_of_block.reshape(-1)[cpu.block]
        self.count = cpu.count.astype(np.int64)
        self.total = np.bincount(self.site, self.count, len(self.offset)).astype(np.int64)
        self.regular = self._once_a_slice(cpu.slice.astype(np.int64))
        self.rank = self._ranks()

    def _main_image(self) -> int:
        """The program: the first image file that is neither the loader nor a library."""
        for row, path in enumerate(self.paths):
            name = PurePosixPath(path).name
            if name and not name.startswith(("ld-", "ld.so", "lib")):
                return row
        return 0

    def _once_a_slice(self, slices: I64) -> I64:
        """Number of slices in which each site runs exactly once."""
        size = len(self.offset)
        pairs, inverse = np.unique(slices * size + self.site, return_inverse=True)
        totals = np.bincount(inverse, self.count)
        return np.bincount(pairs[totals == 1] % size, minlength=size)

    def _ranks(self) -> I64:
        """0: function of the program, 1: other program code, 2: function of a library, 3: other
        library code, 4: code without a file."""
        rank = np.full(len(self.offset), 4)
        for row, path in enumerate(self.paths):
            if not path:
                continue
            here = self.image == row
            functions = np.isin(self.offset[here], list(function_offsets(path)))
            rank[here] = np.where(functions, 0, 1) + (0 if row == self.main else 2)
        return rank

    def counts(self, number: int) -> dict[int, int]:
        """Executions of each site in a slice, over all threads."""
        rows = slice(*(int(n) for n in self.starts[number : number + 2]))
        sites, inverse = np.unique(self.site[rows], return_inverse=True)
        totals = np.bincount(inverse, self.count[rows], len(sites)).astype(np.int64)
        return dict(zip(sites.tolist(), totals.tolist(), strict=True))

    def before(self, site: int, number: int) -> int:
        """Executions of a site before a slice."""
        rows = int(self.starts[number])
        return int(self.count[:rows][self.site[:rows] == site].sum())

    def best(self, candidates: dict[int, int], number: int) -> int:
        """The best marker site: by rank, run once in this slice, run once in most slices."""
        usable = [site for site in candidates if self.rank[site] < 4]
        if not usable:
            raise InputError(
                f"slice {number} runs no CPU block of a file, so nothing marks where it begins or "
                "ends"
            )
        return min(
            usable,
            key=lambda s: (
                self.rank[s],
                candidates[s] != 1,
                -self.regular[s],
                candidates[s],
                self.offset[s],
            ),
        )

    def point(self, site: int, count: int) -> Point:
        """The `count`-th execution of a site."""
        return self._address(int(self.image[site]), int(self.offset[site]), count)

    def _address(self, image: int, offset: int, count: int) -> Point:
        own = image == self.main and self.image_base is not None
        base = self.image_base if own else lowest_address(self.paths[image])
        assert base is not None
        return Point(self.paths[image], offset, base + offset, count)

    def beginning(self, number: int) -> Point:
        """Beginning of a slice; the first slice begins at the program's first instruction."""
        if number == 0:
            return self._address(self.main, entry_offset(self.paths[self.main]), 1)
        return self._first_of(number, self.counts(number))

    def _first_of(self, number: int, candidates: dict[int, int]) -> Point:
        site = self.best(candidates, number)
        return self.point(site, self.before(site, number) + 1)

    def pair(self, number: int) -> tuple[Point, Point]:
        """Beginning and end of a slice, by the same site if one marks both well."""
        here = self.counts(number)
        if number == self.last:
            return self._last_pair(number, here)
        after = self.counts(number + 1)
        both = {s: max(n, after[s]) for s, n in here.items() if s in after}
        if number and any(self.rank[s] < 2 for s in both):
            site = self.best(both, number)
            return (
                self.point(site, self.before(site, number) + 1),
                self.point(site, self.before(site, number + 1) + 1),
            )
        return self.beginning(number), self.beginning(number + 1)

    def _last_pair(self, number: int, here: dict[int, int]) -> tuple[Point, Point]:
        """The last slice. It ends with the function that the program's file declares to run last;
        if that was not recorded, with the last execution of its beginning's marker."""
        fini = fini_offset(self.paths[self.main])
        for site in here:
            if self.image[site] == self.main and self.offset[site] == fini:
                others = {s: n for s, n in here.items() if s != site} or here
                begin = self._first_of(number, others) if number else self.beginning(0)
                return begin, self.point(site, int(self.total[site]))
        site = self.best({s: n for s, n in here.items() if n > 1} or here, number)
        begin = self.point(site, self.before(site, number) + 1)
        return begin, self.point(site, int(self.total[site]))

    def executions(self, end: Point, number: int) -> int:
        """Executions of the end instruction in a slice, up to the end."""
        found = np.flatnonzero(self.offset == end.offset)
        site = next(int(s) for s in found if self.paths[int(self.image[s])] == end.image)
        return end.count - self.before(site, number)
