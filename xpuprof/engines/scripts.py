# SPDX-License-Identifier: Apache-2.0
"""Scripts: what the kernel executes in their place."""

from __future__ import annotations

import os
import re

LONGEST_LINE = 256
"""Linux reads no more of a script's first line."""
MOST_SCRIPTS = 5
"""Linux executes a script that is the interpreter of another, up to this depth."""


def interpreter_in(start: bytes) -> list[str]:
    """The interpreter in a file's first line, and its argument if there is one; empty if it is no
    script, or names none."""
    if start[:2] != b"#!":
        return []
    line = start[2:].split(b"\n")[0].strip(b" \t")
    return [os.fsdecode(word) for word in re.split(rb"[ \t]+", line, maxsplit=1) if word]


def interpreter_of(path: str) -> list[str]:
    """The same of a file; empty if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return interpreter_in(file.read(LONGEST_LINE))
    except OSError:
        return []


def executed_for(path: str) -> str:
    """The file that the kernel executes for a path: a script's interpreter."""
    for _ in range(MOST_SCRIPTS):
        words = interpreter_of(path)
        if not words:
            break
        path = words[0]
    return path
