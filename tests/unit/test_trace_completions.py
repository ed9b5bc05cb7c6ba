# SPDX-License-Identifier: Apache-2.0
"""Completions that were decoded once are those that decoding again would give."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np
import pytest

from tests.support import traces
from xpuprof.arrays import I64
from xpuprof.trace import completions
from xpuprof.trace.layout import EVENTS
from xpuprof.trace.streams import FILES

EXPECTED = [traces.START + 1_000 * (i + 1) + 200 for i in range(5)]


@pytest.fixture(autouse=True)
def few_are_worth_keeping(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completions, "WORTH_KEEPING", 1)
    completions._kept.clear()


def stream(folder: Path, launches: int = 5, late: int = 0, closed: bool = True) -> Path:
    """The events of a process, written long enough ago to be kept."""
    part = traces.write_process(folder, traces.events(launches, late), None, closed)
    time.sleep(0.15)
    return part / FILES[EVENTS]


def read(path: Path, launches: int = 5) -> list[int]:
    ticks: I64 = np.zeros(launches, np.int64)
    completions.fill_completions(path, ticks)
    return ticks.tolist()


def test_completions_are_decoded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = stream(tmp_path / "p")
    assert read(path, 3) == EXPECTED[:3]
    assert read(path) == EXPECTED
    monkeypatch.delattr(completions, "_decode")
    assert (read(path), read(path, 3)) == (EXPECTED, EXPECTED[:3])


def test_another_stream_in_its_place_is_decoded(tmp_path: Path) -> None:
    """GIVEN a stream whose completions are kept WHEN a file of the same size takes its place THEN
    its own are read."""
    path = stream(tmp_path / "p")
    assert read(path) == EXPECTED
    other = stream(tmp_path / "q", late=7)
    other.replace(path)
    assert read(path) == [*EXPECTED[:4], EXPECTED[4] + 7]


def test_a_stream_still_written_is_not_kept(tmp_path: Path) -> None:
    path = traces.write_process(tmp_path / "p", traces.events(5)[:-1], None, closed=False)
    time.sleep(0.15)
    assert read(path / FILES[EVENTS]) == EXPECTED
    assert not completions._kept


def test_no_room_for_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN no place for temporary files THEN completions are decoded each time."""
    path = stream(tmp_path / "p")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    assert read(path) == read(path) == EXPECTED
    assert not completions._kept


def test_only_so_many_files_are_open(tmp_path: Path) -> None:
    def open_files() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    paths = [stream(tmp_path / f"p{n}") for n in range(completions.MOST_KEPT + 3)]
    before = open_files()
    assert [read(path) for path in paths] == [EXPECTED] * len(paths)
    assert open_files() - before == len(completions._kept) == completions.MOST_KEPT
    assert read(paths[0]) == EXPECTED
