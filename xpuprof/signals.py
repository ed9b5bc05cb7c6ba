# SPDX-License-Identifier: Apache-2.0
"""Names of signals."""

from __future__ import annotations

import signal


def signal_name(number: int) -> str:
    """`SIGKILL`; `SIGRTMIN+3` for a real-time signal that Python does not name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIGRTMIN+{number - signal.SIGRTMIN}" if number > signal.SIGRTMIN else str(number)
