"""Writing what an export makes: all of its files or none, and never over a file unasked."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from xpuprof.errors import UsageError


def write_files(texts: Mapping[Path, str], force: bool) -> list[Path]:
    """Write every text to its path; the folders are made. Returns the paths.

    Raises UsageError, with nothing written, when a file exists and `force` is false; UsageError
    when a file cannot be written.
    """
    for path in texts:
        refuse_existing(path, force)
    for path, text in texts.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
            with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
                file.write(text)
            os.chmod(temporary, 0o644)
            os.replace(temporary, path)
        except OSError as error:
            raise UsageError(f"cannot write {path}: {error.strerror}") from error
    return list(texts)


def refuse_existing(path: Path, force: bool) -> None:
    """UsageError when `path` is a folder, or a file that is not to be replaced."""
    if path.is_dir():
        raise UsageError(f"{path} is a directory: name a file")
    if path.exists() and not force:
        raise UsageError(f"{path} exists: choose another name, or --force to replace it")
