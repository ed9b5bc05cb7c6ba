# SPDX-License-Identifier: Apache-2.0
"""The writer, driven by Python in a real process that is killed while it writes."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from tests.support.streams import StreamWriter, text, u64, varint, varints
from xpuprof.trace.layout import CPU
from xpuprof.trace.streams import read_stream


def write_for_ever(path: Path, told: int) -> None:
    """Slice s: thread 0 executes block b (b + 1) * (s + 1) times; each cut is reported to
    `told`."""
    writer = StreamWriter(path, CPU)
    writer.put(2, varint(0) + text("aa") + text("/bin/x"))
    for b in range(3):
        writer.put(3, varints([b, 0, 16 * b, b + 1]))
    writer.put(4, varints([0, 1]))
    s = 0
    while True:
        counts = [(b + 1) * (s + 1) for b in range(3)]
        total = sum((b + 1) * n for b, n in enumerate(counts))
        pairs = varints([0, counts[0], 1, counts[1], 1, counts[2]])
        writer.put(5, varints([s, 0, 3, total]) + pairs, s)
        writer.put(6, varint(s) + u64(1000 + s) + varint(total), s)
        os.write(told, s.to_bytes(8, "little"))
        s += 1


@pytest.mark.parametrize("attempt", range(6))
def test_every_cut_slice_survives_sigkill(tmp_path: Path, attempt: int) -> None:
    """GIVEN a process that cuts slices WHEN it is killed at a random moment THEN each reported
    slice is complete, and at most one more is there."""
    folder = tmp_path / "h-1"
    folder.mkdir()
    hear, tell = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            write_for_ever(folder / "cpu.xpt", tell)
        finally:
            os._exit(1)
    os.close(tell)
    with os.fdopen(hear, "rb") as pipe:
        heard = pipe.read(8)
        deadline = time.monotonic() + random.Random(attempt).uniform(0, 0.2)
        while time.monotonic() < deadline:
            heard += pipe.read(8)
        os.kill(child, signal.SIGKILL)
        heard += pipe.read()
    os.waitpid(child, 0)
    told = int.from_bytes(heard[-8:], "little") + 1

    stream = read_stream(folder / "cpu.xpt", CPU)
    assert not stream.ended
    cuts = stream["cuts"]
    assert told <= len(cuts) <= told + 1
    assert cuts["slice"].tolist() == list(range(len(cuts)))
    slices = np.arange(len(cuts)) + 1
    assert cuts["instructions"].tolist() == (slices * (1 + 4 + 9)).tolist()
    whole = stream["bbv_count"][: 3 * len(cuts)].reshape(-1, 3)
    assert whole.tolist() == (slices[:, None] * np.array([1, 2, 3])).tolist()
