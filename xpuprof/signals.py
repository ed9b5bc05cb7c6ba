# SPDX-License-Identifier: Apache-2.0
"""Names of signals."""

from __future__ import annotations

import signal


def signal_name(number: int) -> str:
    """`SIGKILL`; `SIGRTMIN+3` of those real-time signals that Python has no name for."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIGRTMIN+{number - signal.SIGRTMIN}" if number > signal.SIGRTMIN else str(number)
