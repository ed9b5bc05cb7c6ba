# SPDX-License-Identifier: Apache-2.0
"""Write the files of an export: all or none, never over a file without `force`."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from xpuprof.errors import ExistsError, UsageError, unwritable


def write_files(texts: Mapping[Path, str], force: bool) -> list[Path]:
    """Write every text to its path, creating folders. Returns the paths.

    Raises UsageError, before writing, when a file exists and `force` is false, and when a file
    cannot be written.
    """
    for path in texts:
        refuse_existing(path, force)
    with ExitStack() as together:
        for path, text in texts.items():
            new = together.enter_context(replacing(path, force))
            write_text(new, text)
    return list(texts)


def write_text(path: Path, text: str) -> None:
    """Write a text; a name in it that is not UTF-8 with its own bytes, so that a script runs the
    program. Other lone surrogates, which JSON may hold, as escapes."""
    try:
        encoded = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        encoded = text.encode("utf-8", "backslashreplace")
    path.write_bytes(encoded)


@contextmanager
def replacing(path: Path, force: bool) -> Iterator[Path]:
    """A temporary name next to `path`, with the same suffix: it replaces `path` if the block
    succeeds and is removed otherwise. Creates folders as `within` does.

    Raises UsageError when `path` exists and `force` is false, or when it cannot be written.
    """
    refuse_existing(path, force)
    new = path.with_name(f".{os.getpid()}.{path.name}")
    try:
        with within(path.parent), _temporary(new):
            yield new
            os.replace(new, path)
    except OSError as error:
        raise unwritable(path, error) from error


@contextmanager
def _temporary(path: Path) -> Iterator[None]:
    try:
        yield
    finally:
        with suppress(OSError):
            path.unlink(missing_ok=True)


@contextmanager
def within(folder: Path) -> Iterator[None]:
    """Creates the folder and those above it. If the block fails, those that it created go again,
    unless they hold something."""
    absent = [one for one in (folder, *folder.parents) if not one.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        with suppress(OSError):
            for one in absent:
                one.rmdir()
        raise


def refuse_existing(path: Path, force: bool) -> None:
    """Raises UsageError when `path` is not a file, exists without `force`, or lies below a file."""
    above = next(parent for parent in path.absolute().parents if parent.exists())
    if not above.is_dir():
        raise UsageError(f"cannot write {path}: {above} is a file, not a folder; name another path")
    if not os.access(above, os.W_OK | os.X_OK, effective_ids=True):
        raise unwritable(path, PermissionError(errno.EACCES, os.strerror(errno.EACCES)))
    if path.exists() and not (path.is_dir() or path.is_file()):
        raise UsageError(
            f"{path} is a device or a pipe, which an export would replace; name a file"
        )
    if path.is_dir():
        raise UsageError(f"{path} is a directory: name a file")
    if path.exists() and not force:
        raise ExistsError(path)


def made_folder(path: Path) -> Path:
    """Create the folder. Raises UsageError on failure."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(path, error) from error
    return path
