# SPDX-License-Identifier: Apache-2.0
"""The error tree. Every error that the user can cause is an `XpuprofError`: one sentence with the
fault and the remedy, and an exit code. Only `cli.main` prints them."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Sequence
from os import PathLike

NO_RESULT = 3
"""Exit code of a command that did what it was asked to, but has no whole result to show for it."""


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

    exit_code = NO_RESULT


def listed(names: Sequence[str], most: int = 8) -> str:
    """`a, b, c and 70 more`."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def series(names: Sequence[str], last: str) -> str:
    """`a, b and c`, with `and` or another word."""
    return f" {last} ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def closest(name: str, known: Iterable[str]) -> str:
    """The known name that `name` was probably meant to be; empty if none is close. The dashes that
    begin options do not count."""
    from difflib import get_close_matches  # loaded only for a mistake

    bare = {every.lstrip("-"): every for every in known}
    return next((bare[found] for found in get_close_matches(name.lstrip("-"), bare, 1)), "")


def unknown(what: str, name: str, known: Iterable[str], aliases: Iterable[str] = ()) -> str:
    """The sentence for a name that nothing has: the closest one, aliases included, and the known
    ones."""
    every = list(known)
    close = closest(name, [*every, *aliases])
    better = f"did you mean {close}? " if close else ""
    return f"no {what} {name!r}; {better}choose one of: {', '.join(every)}"


def missing_run(folder: str | PathLike[str]) -> TraceError:
    """For a run directory that is to be read."""
    return TraceError(f"{folder} does not exist; check the path of the run")


def unwritable(path: str | PathLike[str], error: OSError) -> UsageError:
    """The error for an output that cannot be written."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    remedy = "free space, or name another path" if full else "name another path"
    return UsageError(f"cannot write {path}: {error.strerror or error}; {remedy}")


class ExistsError(UsageError):
    """An output would replace something. In Python the remedy is an argument, on the command line
    an option."""

    def __init__(self, path: str | PathLike[str]) -> None:
        fault = f"{path} exists; name another path, or replace it with "
        super().__init__(f"{fault}force=True")
        self.on_command_line = f"{fault}--force"
