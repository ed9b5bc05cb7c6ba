# SPDX-License-Identifier: Apache-2.0
"""Signals that reach xpuprof while the program runs."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from contextlib import nullcontext

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


def _signal_us_soon() -> None:
    time.sleep(0.02)
    os.kill(os.getpid(), signal.SIGTERM)
