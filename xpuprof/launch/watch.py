# SPDX-License-Identifier: Apache-2.0
"""Who watches executions while they are recorded: the command line's live line."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from pathlib import Path

Watch = Callable[[Path, str, bool], AbstractContextManager[None]]
"""Makes the context of one execution: its folder, its role (first, profile, time), and whether the
user's terminal is the program's."""


def _nobody(folder: Path, role: str, user: bool) -> AbstractContextManager[None]:
    return nullcontext()


WATCH: ContextVar[Watch] = ContextVar("watch", default=_nobody)
"""Set by the command line; the API has none."""
