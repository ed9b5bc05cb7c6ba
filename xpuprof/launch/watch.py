# SPDX-License-Identifier: Apache-2.0
"""Who watches executions while they are recorded: the command line's live line."""

from __future__ import annotations

import mmap
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from pathlib import Path

Hidden = Callable[[], AbstractContextManager[None]]
"""Makes a context in which nothing is shown: the shell has the terminal while a job is stopped."""

LAST_ROW = mmap.mmap(-1, 1)
"""Whether the live line has the terminal's last row (1). Shared with the witness, which gives the
row back if we are killed."""


def giving_back(row: int) -> str:
    """The sequence that erases this row of the terminal and lets it scroll; the cursor stays."""
    return f"\x1b7\x1b[{row};1H\x1b[0m\x1b[K\x1b[r\x1b8"


Watch = Callable[[Path, str, bool], AbstractContextManager[Hidden]]
"""Makes the context of one execution: its folder, its role (first, profile, time), and whether the
user's terminal is the program's."""


def _nobody(folder: Path, role: str, user: bool) -> AbstractContextManager[Hidden]:
    return nullcontext(nullcontext)


WATCH: ContextVar[Watch] = ContextVar("watch", default=_nobody)
"""Set by the command line; the API has none."""
