# SPDX-License-Identifier: Apache-2.0
"""How a command ends: by an exit code or a signal, never with a traceback for an error that a user
or a machine can cause."""

from __future__ import annotations

import codecs
import errno
import json
import os
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

import click

from xpuprof.cli import usage
from xpuprof.cli.lines import show
from xpuprof.errors import ExistsError, MissingRegionError, XpuprofError
from xpuprof.launch.ending import end_by, end_like, remembered

_STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_REMEDIES = {
    errno.ENOSPC: "free space there",
    errno.EDQUOT: "free space there",
    errno.EFBIG: "raise the limit on files (ulimit -f)",
}
_OF_MEMORY = "free some, or raise the limit on it (ulimit -v, ulimit -d)"
_stopped: int | None = None
_json = False


def _prepare() -> None:
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
    sys.unraisablehook = _unraisable
    for number in _STOPS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _stop)


def _as_given(error: UnicodeError) -> tuple[str | bytes, int]:
    """Bytes of names that are not text pass unchanged; other letters become `?`."""
    assert isinstance(error, UnicodeEncodeError)
    part = error.object[error.start : error.end]
    shown = b"".join(
        bytes([ord(letter) - 0xDC00]) if "\udc80" <= letter <= "\udcff" else b"?" for letter in part
    )
    return shown, error.end


def _stop(number: int, frame: object) -> NoReturn:
    global _stopped
    _stopped = number
    raise KeyboardInterrupt


def _unraisable(lost: sys.UnraisableHookArgs) -> None:
    """Raises an interrupt again that came in a finalizer or a callback, which only print it."""
    if not _stopped or not isinstance(lost.exc_value, KeyboardInterrupt):
        sys.__unraisablehook__(lost)
        return
    signal.signal(signal.SIGALRM, lambda *_: _stop(_stopped or signal.SIGINT, None))
    signal.setitimer(signal.ITIMER_REAL, 0.001)


def promise_json() -> None:
    """The command prints one JSON object on stdout, also when it fails."""
    global _json
    _json = True


@contextmanager
def guarded() -> Iterator[None]:
    """Prepares this process for a command, and turns every error into a sentence and the matching
    exit code or signal."""
    try:
        _prepare()
        yield
    except SystemExit:
        raise
    except BaseException as error:
        if _stopped or isinstance(error, KeyboardInterrupt | click.exceptions.Abort):
            with suppress(OSError, ValueError):
                if isinstance(error, KeyboardInterrupt) and error.args:
                    click.echo(f"xpuprof: {error.args[0]}", err=True)
            end_by(_stopped or signal.SIGINT)
        leave(_explain(error))


def flush() -> None:
    """Raises OSError when what was printed cannot be written."""
    if sys.stdout is not None:
        sys.stdout.flush()


def leave(status: int) -> NoReturn:
    """Ends with this exit code, or by the signal that stopped us, whose exception may have been
    swallowed by code that only logs it."""
    if _stopped:
        end_by(_stopped)
    for number in _STOPS:  # nothing is left to clean up
        if signal.getsignal(number) is _stop:
            signal.signal(number, signal.SIG_DFL)
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):  # else Python tries again, and ends with 120
            with suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    sys.exit(status)


def _explain(error: BaseException) -> int:
    """Prints the error and returns the exit code: the program's if it failed, else ours. A missing
    region is a result, whatever the program returned."""
    ending = None if isinstance(error, MissingRegionError) else remembered()
    failed = ending is not None and ending.exit_code != 0
    if isinstance(error, BrokenPipeError):  # as in `xpuprof info RUN | head`
        return end_like(ending) if ending and failed else end_by(signal.SIGPIPE)
    with suppress(OSError, ValueError):  # stderr may be what fails
        if isinstance(error, click.exceptions.NoArgsIsHelpError):
            error.show()
        elif isinstance(error, click.ClickException | XpuprofError | OSError | MemoryError):
            click.echo(f"xpuprof: error: {sentence(error)}", err=True)
        else:
            traceback.print_exception(error)
    status = getattr(error, "exit_code", 2 if isinstance(error, OSError | MemoryError) else 1)
    if _json:
        with suppress(OSError, ValueError):
            show(json.dumps({"error": sentence(error), "exit_code": status}))
    return end_like(ending) if ending and failed else int(status)


def sentence(error: BaseException) -> str:
    """What the command line says of an error."""
    if isinstance(error, click.ClickException):
        return usage.sentence(error)
    if isinstance(error, ExistsError):
        return error.on_command_line
    if isinstance(error, MemoryError):
        return f"{str(error) or 'not enough memory'}; {_OF_MEMORY}"
    if not isinstance(error, OSError):
        return str(error)
    why = error.strerror or str(error)
    if error.filename is None and error.errno == errno.ENOENT:
        return "the working directory was deleted; change to another one"
    if error.filename is None:
        return f"the output cannot be written: {why}"
    remedy = _REMEDIES.get(error.errno or 0, "check its path and permissions")
    return f"{os.fsdecode(error.filename)}: {why}; {remedy}"
