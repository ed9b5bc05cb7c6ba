# SPDX-License-Identifier: Apache-2.0
"""Our text on lines of its own: the program may not have ended its last line."""

from __future__ import annotations

import os
import re
import stat

import click

from xpuprof.launch.ending import remembered


def show(text: str, *, err: bool = False) -> None:
    """Prints a text on stdout, or on stderr."""
    first = remembered() and _first(1 + err)
    click.echo((_line_end(1 + err) if first else "") + text, err=err)


_FACT = re.compile(
    r"^(measured|projected|sampling error|slice reduction|time speedup)( +)(.+?)(?=   |$)", re.M
)
_RULE = re.compile(r"^-+(?:  -+)+$", re.M)
_UNRELIABLE = re.compile(r"\bUNRELIABLE\b|^unreliable\b", re.M)


def coloured(text: str) -> str:
    """A report with its figures in bold and what to heed in red; click removes the colours where
    the output is no terminal."""
    if os.environ.get("NO_COLOR"):
        return text
    text = _RULE.sub(lambda rule: click.style(rule[0], dim=True), text)
    text = _FACT.sub(lambda fact: fact[1] + fact[2] + click.style(fact[3], bold=True), text)
    return _UNRELIABLE.sub(lambda mark: click.style(mark[0], fg="red", bold=True), text)


def _first(descriptor: int) -> bool:
    """Whether nothing of ours was printed there since the program ended."""
    ours = {1, 2} if os.path.sameopenfile(1, 2) else {descriptor}
    first = descriptor not in _begun
    _begun.update(ours)
    return first


_begun: set[int] = set()


def _line_end(descriptor: int) -> str:
    """What ends the program's last line on its stdout or stderr."""
    if os.isatty(descriptor):
        width = os.get_terminal_size(descriptor).columns
        # Blanks wrap to the next line, unless the cursor is at the start of a line.
        return " " * (width - 1) + "\r" if width else "\n"
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode):
        return "" if _ends_with_line(descriptor) else "\n"
    # What went through a pipe cannot be read again. Notes alone may share a line.
    same = os.path.sameopenfile(1, 2)
    return "\n" if descriptor == 1 or same else ""


def _ends_with_line(descriptor: int) -> bool:
    try:
        with open(f"/proc/self/fd/{descriptor}", "rb") as file:
            at = os.lseek(descriptor, 0, os.SEEK_CUR)
            return not at or os.pread(file.fileno(), 1, at - 1) == b"\n"
    except OSError:  # not readable by us
        return False
