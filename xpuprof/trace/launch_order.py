# SPDX-License-Identifier: Apache-2.0
"""The order of a process's launches as numbers (`tables.LaunchOrder`)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from xpuprof.arrays import U32, U64
from xpuprof.trace.layout import LAUNCH_FLAGS
from xpuprof.trace.streams import Stream
from xpuprof.trace.tables import LaunchOrder

_ODD = np.uint64(0x9E3779B97F4A7C15)
_SIZES = {
    field: np.array([int(_ODD) * factor % 2**64 for factor in factors], np.uint64)
    for field, factors in {"global": (3, 5, 7), "local": (11, 13, 17)}.items()
}
"""Odd factors for the grid and the group size along each axis."""


class OrderReader:
    """Reads chunk by chunk; memory grows with kernels and threads."""

    def __init__(self) -> None:
        self._turns = self._sequence = 0
        self._kernels = np.empty(0, np.uint64)
        self._threads: dict[int, tuple[int, int]] = {}
        """Launches of each thread so far, and their sum."""

    def read(self, stream: Stream, rows: Mapping[str, npt.NDArray[Any]]) -> None:
        """`rows`: a chunk's launches and the kernels that came with it."""
        if len(rows["kernels"]):
            self._kernels = np.append(self._kernels, _kernels(stream, rows["kernels"]))
        launches = rows["launches"]
        self._turns ^= _turns(launches["launch"], launches["thread"])
        kinds = _kinds(launches, self._kernels)
        self._sequence = (self._sequence + _in_turn(kinds, launches["launch"])) % 2**64
        self._add(launches["thread"], kinds)

    @property
    def order(self) -> LaunchOrder:
        """Of the launches so far."""
        sums = np.array([own for _, own in self._threads.values()], np.uint64)
        return LaunchOrder(self._turns, int(_mixed(sums).sum(dtype=np.uint64)), self._sequence)

    def _add(self, threads: U32, kinds: U64) -> None:
        """The nth launch of a thread counts differently from its others."""
        if len(threads) and (threads == threads[0]).all():  # in most programs
            self._add_of(int(threads[0]), kinds)
            return
        order = np.argsort(threads, kind="stable")
        found, starts = np.unique(threads[order], return_index=True)
        for thread, own in zip(found.tolist(), np.split(kinds[order], starts[1:]), strict=False):
            self._add_of(thread, own)

    def _add_of(self, thread: int, kinds: U64) -> None:
        launches, total = self._threads.get(thread, (0, 0))
        nth = np.arange(launches, launches + len(kinds), dtype=np.uint64)
        self._threads[thread] = launches + len(kinds), (total + _in_turn(kinds, nth)) % 2**64


def _in_turn(kinds: U64, places: U64) -> int:
    """A sum that tells the places of the kinds."""
    return int(_mixed(kinds + places * _ODD).sum(dtype=np.uint64))


def _kernels(stream: Stream, kernels: npt.NDArray[Any]) -> U64:
    """A number for each kernel's name: ids differ from run to run, and the hash of a device program
    from engine to engine (the PTX engine sees another form of it than a timer)."""
    digests = [
        hashlib.blake2b(name.encode(), digest_size=8).digest()
        for name in stream.texts(kernels["name"])
    ]
    return np.array([int.from_bytes(own) for own in digests], np.uint64)


def _kinds(launches: npt.NDArray[Any], kernels: U64) -> U64:
    """A number for what each launch shares with those like it."""
    outside = launches["flags"] & np.uint32(LAUNCH_FLAGS["OUTSIDE"])
    kinds = kernels[launches["kernel"]] + outside * _ODD
    for field, factors in _SIZES.items():
        kinds += launches[field] @ factors
    return _mixed(kinds)


def _turns(launches: U64, threads: U32) -> int:
    """Threads are numbered from 1 by their first launch."""
    other = threads > 1
    mixed = _mixed((launches[other] << np.uint64(20) ^ threads[other]) * _ODD)
    return int(np.bitwise_xor.reduce(mixed, initial=0))


def _mixed(values: U64) -> U64:
    """Spreads every bit over all."""
    mixed = (values ^ (values >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    return np.asarray(mixed ^ (mixed >> np.uint64(32)))
