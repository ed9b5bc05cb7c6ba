# SPDX-License-Identifier: Apache-2.0
"""The error tree. Every error the user can cause is an `XpuprofError`: one sentence that names what
is wrong and the remedy, and the exit code. `cli.main` is the one place that prints them."""

from __future__ import annotations


class XpuprofError(Exception):
    """One sentence for the user; `exit_code` is what the command ends with."""

    exit_code = 2


class UsageError(XpuprofError):
    """The command line or an argument is not usable."""


class OutputError(XpuprofError):
    """What we write cannot be written: the disk is full, a limit was reached."""


class TraceError(XpuprofError):
    """A run directory is missing, foreign, too new, or damaged."""


class EngineError(XpuprofError):
    """An engine that was asked for cannot be used here."""


class InputError(XpuprofError):
    """An imported profile or a selection file cannot be used."""


class MissingRegionError(XpuprofError):
    """A region of a selection never occurred in the run it was looked for in."""

    exit_code = 3
