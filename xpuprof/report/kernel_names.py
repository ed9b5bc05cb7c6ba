# SPDX-License-Identifier: Apache-2.0
"""Kernel names in columns of tables."""

from __future__ import annotations

from contextvars import ContextVar

from xpuprof.trace.kernel_names import brief

FULL_NAMES: ContextVar[bool] = ContextVar("full_names", default=False)
"""Whether tables show kernel names whole (--full-names)."""


def shorten(name: str, width: int = 40) -> str:
    """A kernel's name for a column of a table: brief, and cut where that is still too long."""
    if FULL_NAMES.get():
        return name
    name = brief(name)
    return name if len(name) <= width else name[: width - 3] + "..."
