# SPDX-License-Identifier: Apache-2.0
"""Waits for what another process does."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_for(what: Callable[[], object], seconds: float = 20) -> bool:
    """Whether it becomes true in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if what():
            return True
        time.sleep(0.02)
    return False
