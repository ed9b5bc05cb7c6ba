# SPDX-License-Identifier: Apache-2.0
"""The error tree. Every error that the user can cause is an `XpuprofError`: one sentence with the
fault and the remedy, and an exit code. Only `cli.main` prints them."""

from __future__ import annotations

from collections.abc import Iterable


class XpuprofError(Exception):
    """One sentence for the user; `exit_code` is the command's."""

    exit_code = 2


class UsageError(XpuprofError):
    """The command line or an argument is not usable."""


class OutputError(XpuprofError):
    """Our output cannot be written: the disk is full, a limit was reached."""


class TraceError(XpuprofError):
    """A run directory is missing, foreign, too new, or damaged."""


class EngineError(XpuprofError):
    """A requested engine cannot be used here."""


class InputError(XpuprofError):
    """An imported profile or a selection file cannot be used."""


class MissingRegionError(XpuprofError):
    """A region of a selection never occurred in the run."""

    exit_code = 3


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """The sentence for a name that nothing has: the closest one, and all of them."""
    from difflib import get_close_matches  # loaded only for a mistake

    every = list(known)
    close = get_close_matches(name, every, 1)
    better = f"did you mean {close[0]}? " if close else ""
    return f"no {what} {name!r}; {better}choose one of: {', '.join(every)}"
