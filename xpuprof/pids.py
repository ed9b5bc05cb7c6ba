# SPDX-License-Identifier: Apache-2.0
"""Process numbers, and how to distinguish a process from a later one with the same number."""

from __future__ import annotations

import os
from pathlib import Path


def started(pid: int) -> int | None:
    """Start time of a process in clock ticks since boot (proc(5), stat, field 22); None if it does
    not exist."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else int(fields[19])


def namespace() -> str:
    """Names the space in which our process numbers are valid: this boot of this machine, this
    container."""
    import hashlib  # would lengthen the shell's completion of engines

    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()
        return hashlib.sha256((boot + os.readlink("/proc/self/ns/pid")).encode()).hexdigest()[:8]
    except OSError:
        return "unknown"
