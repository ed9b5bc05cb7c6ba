# SPDX-License-Identifier: Apache-2.0
"""How a command ends: by an exit code or a signal, never with a traceback for an error that a user
or a machine can cause."""

from __future__ import annotations

import codecs
import os
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

import click

from xpuprof.cli import usage
from xpuprof.errors import OutputError, XpuprofError
from xpuprof.launch.ending import end_by, end_like, remembered

_interrupted = False


def prepare() -> None:
    """Prepares this process for a command: streams may be closed or unable to show every letter,
    and an interrupt may come at any time."""
    for descriptor in range(3):  # else one of our files would become the program's stream
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    codecs.register_error("xpuprof", _as_given)
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="xpuprof")
    if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
        signal.signal(signal.SIGINT, _interrupt)


def _as_given(error: UnicodeError) -> tuple[str | bytes, int]:
    """Bytes of names that are not text pass unchanged; other letters become `?`."""
    assert isinstance(error, UnicodeEncodeError)
    part = error.object[error.start : error.end]
    shown = b"".join(
        bytes([ord(letter) - 0xDC00]) if "\udc80" <= letter <= "\udcff" else b"?" for letter in part
    )
    return shown, error.end


def _interrupt(number: int, frame: object) -> NoReturn:
    global _interrupted
    _interrupted = True
    raise KeyboardInterrupt


@contextmanager
def guarded() -> Iterator[None]:
    """Turns every error into a sentence and the matching exit code or signal."""
    try:
        yield
    except SystemExit:
        raise
    except BaseException as error:
        if _interrupted or isinstance(error, KeyboardInterrupt | click.exceptions.Abort):
            end_by(signal.SIGINT)
        leave(_explain(error))


def flush() -> None:
    """Raises OSError when what was printed cannot be written."""
    if sys.stdout is not None:
        sys.stdout.flush()


def leave(status: int) -> NoReturn:
    """Ends with this exit code."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):  # else Python tries again, and ends with 120
            with suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    sys.exit(status)


def _explain(error: BaseException) -> int:
    """Prints the error and returns the exit code. Once the user's program has run, its exit code is
    ours, unless it succeeded and our own work failed."""
    ending = remembered()
    if isinstance(error, BrokenPipeError) and not ending:
        end_by(signal.SIGPIPE)  # as in `xpuprof info RUN | head`
    with suppress(OSError, ValueError):  # stderr may be what fails
        if isinstance(error, click.exceptions.NoArgsIsHelpError):
            error.show()
        elif isinstance(error, click.ClickException | XpuprofError | OSError):
            click.echo(f"xpuprof: error: {_sentence(error)}", err=True)
        else:
            traceback.print_exception(error)
    if ending and (isinstance(error, OSError | OutputError) or ending.exit_code != 0):
        return end_like(ending)
    return getattr(error, "exit_code", 2 if isinstance(error, OSError) else 1)


def _sentence(error: click.ClickException | XpuprofError | OSError) -> str:
    if isinstance(error, click.ClickException):
        return usage.sentence(error)
    if isinstance(error, XpuprofError):
        return str(error)
    why = error.strerror or str(error)
    if error.filename is None:
        return f"the output cannot be written: {why}"
    return f"{os.fsdecode(error.filename)}: {why}"
