# SPDX-License-Identifier: Apache-2.0
"""What an execution could not record: lines `pid reason` that libraries in the program's processes
wrote to `failures/`, and streams that are empty or missing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from xpuprof.trace.records import PROCESS_FOLDER, STREAM_FILES

FOLDER = "failures"
DISK_FULL = "the disk of the run directory is full"
"""writer.c: how the reason begins when a stream cannot grow."""
LINE_MAX = 256
_LINES_MAX = 16
"""Most lines read from a file."""


def losses_of(execution: Path) -> tuple[str, ...]:
    """The losses, one sentence each, in file order."""
    return (*map(sentence, dict.fromkeys(written(execution))), *_emptied(execution))


def sentence(line: str) -> str:
    """The sentence for a line."""
    pid, _, reason = line.partition(" ")
    return f"process {pid} could not record: {reason}"


def written(execution: Path) -> Iterator[str]:
    """The lines in the folder `failures`: targets of links (made without a descriptor), and plain
    files. Any process may write there, so only short lines are accepted."""
    folder = execution / FOLDER
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        try:
            if path.is_symlink():
                line = printable(os.fsencode(os.readlink(path)))
                if line.partition(" ")[0].isdigit():
                    yield line
                continue
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            continue
        with open(descriptor, "rb") as file:
            yield from map(printable, file.read(_LINES_MAX * LINE_MAX).splitlines()[:_LINES_MAX])


def printable(line: bytes) -> str:
    """A line for a sentence."""
    text = line[:LINE_MAX].decode("ascii", "replace").strip()
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def _emptied(execution: Path) -> Iterator[str]:
    """Processes that left a stream of length 0, or a folder without one."""
    advice = "so what it recorded is lost; record the run again, unless this is an incomplete copy"
    for part in sorted(execution.iterdir()) if execution.is_dir() else []:
        if not PROCESS_FOLDER.fullmatch(part.name) or not part.is_dir():
            continue
        sizes = {name: _size(part / name) for name in STREAM_FILES}
        for name in [name for name, size in sizes.items() if size == 0]:
            yield f"{execution.name}/{part.name}/{name} is empty, {advice}"
        if all(size is None for size in sizes.values()):
            yield f"{execution.name}/{part.name} has no stream, {advice}"


def _size(path: Path) -> int | None:
    """None for a file that is not there."""
    try:
        return path.stat().st_size
    except OSError:
        return None
