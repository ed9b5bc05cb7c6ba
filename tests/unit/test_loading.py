# SPDX-License-Identifier: Apache-2.0
"""Modules loaded during the profile."""

from __future__ import annotations

import sys
import threading

import pytest

from xpuprof.workflow.loading import Loading


def test_a_module_that_cannot_be_loaded_is_told_where_it_is_needed(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """GIVEN such a module THEN nothing is raised or printed."""
    loading = Loading("xpuprof.no_such_module")
    loading.start()
    loading.wait()
    assert capfd.readouterr() == ("", "")


def test_without_a_further_thread_nothing_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN a system that refuses a thread THEN the program goes on without."""

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.delitem(sys.modules, "xpuprof.workflow.timeline", raising=False)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    loading = Loading("xpuprof.workflow.timeline")
    loading.start()
    loading.wait()
    assert "xpuprof.workflow.timeline" not in sys.modules
