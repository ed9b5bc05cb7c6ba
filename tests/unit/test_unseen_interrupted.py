# SPDX-License-Identifier: Apache-2.0
"""A signal while the watch for processes without our library starts."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from xpuprof.engines.base import Footprint
from xpuprof.launch import unseen
from xpuprof.launch.streams import in_thread


def test_a_signal_just_after_the_start_prints_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIVEN a signal when the thread has started, and nobody waits for it yet THEN it ends without
    a traceback."""
    started, raised, left = list[threading.Thread](), list[object](), threading.Event()

    def interrupted(work: Callable[..., None], *arguments: object) -> threading.Thread:
        def begins_late(*arguments: object) -> None:
            left.wait(10)
            work(*arguments)

        started.append(in_thread(begins_late, *arguments))
        raise KeyboardInterrupt

    monkeypatch.setattr(unseen, "in_thread", interrupted)
    monkeypatch.setattr(threading, "excepthook", raised.append)
    with (
        pytest.raises(KeyboardInterrupt),
        unseen.unseen(Footprint("opencl", (str(tmp_path),), "", (), "library", tmp_path)),
    ):
        pass
    left.set()
    started[0].join(10)
    assert not started[0].is_alive()
    assert not raised
