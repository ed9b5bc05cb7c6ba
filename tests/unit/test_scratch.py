# SPDX-License-Identifier: Apache-2.0
"""Scratch folders that a killed command left."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from xpuprof.pids import namespace
from xpuprof.scratch import scratch


def test_commands_may_remove_the_same_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIVEN folders that another command removes while we list them THEN ours is made."""
    left = [tmp_path / f"xpuprof-{namespace()}-1-{number}-left" for number in range(3)]
    for folder in left:
        folder.mkdir()
    listed = os.scandir

    @contextmanager
    def slow(path: str) -> Iterator[list[os.DirEntry[str]]]:
        with listed(path) as entries:
            found = list(entries)
        left[1].rmdir()
        yield found

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(os, "scandir", slow)
    with scratch() as made:
        monkeypatch.setattr(os, "scandir", listed)
        assert list(tmp_path.iterdir()) == [Path(made)]
