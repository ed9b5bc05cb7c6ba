# SPDX-License-Identifier: Apache-2.0
"""Signals that reach xpuprof while the program runs."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from contextlib import nullcontext

import pytest

from xpuprof.launch.forward import Forwarder


def test_the_second_signal_of_timeout_is_no_new_request() -> None:
    """GIVEN a signal to us alone that ended the program WHEN it comes again at once, as from
    `timeout`, which signals us and then our group THEN nothing of ours is interrupted."""
    own: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: own.append(number))
    try:
        with subprocess.Popen(["sleep", "60"]) as program, Forwarder(nullcontext) as signals:
            os.kill(os.getpid(), signal.SIGTERM)
            status = signals.wait(program.pid)
            program.returncode = -os.WTERMSIG(status)
            again = threading.Thread(target=_signal_us_soon)
            again.start()
        again.join()
    finally:
        signal.signal(signal.SIGTERM, before)
    assert (program.returncode, signals.stop, own) == (-signal.SIGTERM, signal.SIGTERM, [])


def test_a_signal_while_handlers_are_restored_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN a program that has ended WHEN a signal comes after Python has ceased to write to our
    pipe, but before our handlers are gone THEN it is a request to stop that came too late."""
    real = signal.set_wakeup_fd

    def then_signalled(descriptor: int, *, warn_on_full_buffer: bool = True) -> int:
        before = real(descriptor, warn_on_full_buffer=warn_on_full_buffer)
        if descriptor < 0:
            os.kill(os.getpid(), signal.SIGTERM)
        return before

    monkeypatch.setattr(signal, "set_wakeup_fd", then_signalled)
    own: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: own.append(number))
    try:
        with Forwarder(nullcontext) as signals:
            pass
    finally:
        signal.signal(signal.SIGTERM, before)
    assert (signals.stop, signals.late, own) == (signal.SIGTERM, True, [])


def _signal_us_soon() -> None:
    time.sleep(0.02)
    os.kill(os.getpid(), signal.SIGTERM)
