# SPDX-License-Identifier: Apache-2.0
"""LRU stack distances of the engine `valgrind` against a naive model, by thread and slice."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from tests.support.cpu_programs import build, profile
from tests.support.probes import needs_valgrind
from xpuprof.engines.base import CpuOptions
from xpuprof.engines.cpu.valgrind import Valgrind
from xpuprof.trace.layout import LDV_BUCKETS
from xpuprof.trace.reader import read_process
from xpuprof.trace.tables import StackDistances

pytestmark = [needs_valgrind, pytest.mark.valgrind]

COLD = LDV_BUCKETS - 1


def distances(argv: list[object], folder: Path) -> StackDistances:
    part = profile(Valgrind(), argv, folder, CpuOptions(memory=True)).only
    found = read_process(part.folder, "profile", True).distances
    assert found is not None
    return found


def naive(lines: list[int]) -> npt.NDArray[np.uint64]:
    """Histogram from a stack searched from its top."""
    stack: list[int] = []
    result = np.zeros(LDV_BUCKETS, np.uint64)
    for line in lines:
        if line in stack:
            distance = stack.index(line)
            stack.pop(distance)
            result[distance.bit_length()] += np.uint64(1)
        else:
            result[COLD] += np.uint64(1)
        stack.insert(0, line)
    return result


def test_every_access_of_a_program(tmp_path: Path) -> None:
    """GIVEN a program with known data accesses THEN the histogram matches the naive model."""
    value, lines = 1, []
    for _ in range(20_000):
        value = (value * 6364136223846793005 + 1442695040888963407) % (1 << 64)
        lines.append(value >> 54)
    for _ in range(3):
        for line in range(700):
            lines += [line, line + 1]
    found = distances([build("cpu_memory", "-nostdlib", "-static", "-no-pie")], tmp_path / "p")
    assert (found.slice.tolist(), found.thread.tolist()) == ([0], [0])
    assert np.array_equal(found.count[0], naive(lines))


def test_by_thread_and_slice(tmp_path: Path) -> None:
    """GIVEN two sweeps of known length per slice THEN their distances lie in the length's bucket,
    and the second slice finds the first one's lines in the stack."""
    found = distances([build("cpu_sweeps")], tmp_path / "p")
    for thread in (0, 1):
        for piece in range(3):
            (row,) = np.flatnonzero((found.slice == piece) & (found.thread == thread))
            length = 1100 * (thread + 1) + 64 * piece
            again = length if piece == 0 else 2 * length - 64  # of these are 64 new
            # The libraries' few lines recur at such distances too; during start-up, many do.
            libraries = int(found.count[row, (length - 1).bit_length()]) - again
            assert 0 <= libraries < (1000 if (piece, thread) == (0, 0) else 60)
            assert found.count[row, COLD] >= (length if piece == 0 else 64)
            # Each line is loaded and then stored.
            assert found.count[row, 0] >= 2 * length


def test_not_recorded_unless_asked_for(tmp_path: Path) -> None:
    """THEN an ordinary profile has no distances."""
    part = profile(Valgrind(), [build("cpu_sweeps")], tmp_path / "p").only
    assert read_process(part.folder, "profile", True).distances is None
