# SPDX-License-Identifier: Apache-2.0
"""Remembered outcomes of engines with the CUDA driver."""

from __future__ import annotations

from pathlib import Path

import pytest

from xpuprof.engines.cuda_driver import Outcome, _recall, _remember


def test_an_outcome_is_kept_and_believed_only_when_nobody_else_could_have_written_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIVEN a remembered outcome WHEN its file is writable by others or belongs to another user
    THEN the trial is repeated."""
    path = tmp_path / "cache" / "one.json"
    _remember(path, Outcome("exit", ""))
    assert _recall(path) == Outcome("exit", "")
    assert [file.name for file in path.parent.iterdir()] == ["one.json"]  # no draft remains
    path.chmod(0o646)
    assert _recall(path) is None
    path.chmod(0o600)
    assert _recall(path) == Outcome("exit", "")
    monkeypatch.setattr("os.geteuid", lambda: path.stat().st_uid + 1)
    assert _recall(path) is None


@pytest.mark.parametrize("text", ["", "[]", '{"step": "exit"}', "\0"])
def test_a_damaged_outcome_is_tried_again(tmp_path: Path, text: str) -> None:
    """GIVEN a file without an outcome THEN nothing is remembered."""
    path = tmp_path / "one.json"
    path.write_text(text)
    assert _recall(path) is None
