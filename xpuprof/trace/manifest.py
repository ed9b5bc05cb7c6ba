# SPDX-License-Identifier: Apache-2.0
"""The manifest of a run directory: what it must hold, and how it is read.

See docs/run-directory.md.
"""

from __future__ import annotations

import json
import os
import platform
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from xpuprof.errors import TraceError, missing_run
from xpuprof.inputs import is_selection
from xpuprof.pids import started
from xpuprof.trace.records import are_texts, is_quantity
from xpuprof.version import __version__

FORMAT = "xpuprof-run"
VERSION = 1
"""Newest manifest version; 1: executions, clock, machine as in docs/run-directory.md."""
OLDEST_VERSION = 1
MANIFEST = "manifest.json"

ENV_REDACT = "XPUPROF_REDACT"
REDACTED = "(redacted)"


def redacted(argv: Sequence[str]) -> list[str]:
    """The command line to store: with XPUPROF_REDACT, without its arguments."""
    if os.environ.get(ENV_REDACT, "") in ("", "0"):
        return list(argv)
    return [*argv[:1], *[REDACTED] * len(argv[1:])]


_OF_SELECTION = "name the run that it was chosen from"


def _not_a_folder(file: Path) -> str:
    """What is wrong with a file in the place of a run directory."""
    if (file.parent / MANIFEST).exists():
        return f"{file} is a file, not a run directory; name its folder, {file.parent}"
    if is_selection(file):
        return f"{file} is a selection, not a run directory; {_OF_SELECTION}"
    return (
        f"{file} is a file, not a run directory; to use another tool's profile: xpuprof import "
        f"{shlex.quote(str(file))} -o RUN"
    )


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a run directory.

    Raises TraceError for a missing directory, one that is not a run, and a damaged or newer one.
    """
    try:
        text = (folder / MANIFEST).read_text(encoding="utf-8")
    except FileNotFoundError:
        if not folder.exists():
            raise missing_run(folder) from None
        if (folder.parent / MANIFEST).exists():
            raise TraceError(
                f"{folder} is a part of a run directory; name the whole, {folder.parent}"
            ) from None
        if is_selection(folder / "selection.json"):
            raise TraceError(f"{folder} holds only a selection; {_OF_SELECTION}") from None
        raise TraceError(
            f"{folder} is not an xpuprof run directory (it has no {MANIFEST}); name the folder "
            "that xpuprof run or profile made"
        ) from None
    except NotADirectoryError:
        raise TraceError(_not_a_folder(folder)) from None
    except OSError as error:
        # A folder above that cannot be entered is what must be changed.
        closed = (p for p in (*reversed(folder.parents), folder) if not os.access(p, os.X_OK))
        at = next(closed, folder / MANIFEST)
        raise TraceError(f"{at} cannot be read: {error.strerror}; check its permissions") from None
    except UnicodeDecodeError:
        raise TraceError(f"{folder}/{MANIFEST} is not text; copy the run directory again") from None
    try:
        manifest = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TraceError(
            f"{folder}/{MANIFEST} is damaged ({error}); copy the run directory again"
        ) from None
    _check(folder, manifest)
    return dict(manifest)


def _check(folder: Path, manifest: object) -> None:
    where = f"{folder}/{MANIFEST}"
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise TraceError(f"{where} was not written by xpuprof; name the folder of a run")
    version = manifest.get("version")
    if not isinstance(version, int) or version < OLDEST_VERSION:
        raise TraceError(f"{where} has the unknown version {version!r}; record the run again")
    if version > VERSION:
        raise TraceError(
            f"{where} has version {version}, this xpuprof {__version__} reads up to {VERSION}; "
            "install a newer xpuprof"
        )
    for key, right in _KEYS.items():
        if not right(manifest.get(key)):
            raise TraceError(
                f"{where} is damaged ({key} is missing or wrong); copy the run directory again"
            )


def _is_clock(clock: object) -> bool:
    return isinstance(clock, dict) and is_quantity(clock.get("tsc_hz")) and clock["tsc_hz"] > 0


def _is_settings(settings: object) -> bool:
    """Strings, numbers, switches, and lists of strings or numbers, by option name."""

    def plain(value: object) -> bool:
        return isinstance(value, (str, int))

    return settings is None or (
        isinstance(settings, dict)
        and all(
            plain(value) or (isinstance(value, list) and all(map(plain, value)))
            for value in settings.values()
        )
        and are_texts(settings.get("processes", []))
    )


def _is_execution(record: object) -> bool:
    """Whether it is an entry of `executions` whose folder lies in the run."""
    return (
        isinstance(record, dict)
        and isinstance(record.get("name"), str)
        and isinstance(record.get("role"), str)
        and record["name"] not in ("", ".", "..")
        and "/" not in record["name"]
    )


_KEYS: dict[str, Callable[[object], bool]] = {
    "status": lambda status: status in ("running", "complete", "partial"),
    "clock": _is_clock,
    "machine": lambda machine: isinstance(machine, dict),
    "argv": are_texts,
    "cwd": lambda folder: folder is None or isinstance(folder, str),
    "environment": lambda names: names is None or isinstance(names, dict),
    "settings": _is_settings,
    "imported": lambda source: source is None or isinstance(source, dict),
    "executions": lambda records: isinstance(records, list) and all(map(_is_execution, records)),
}
"""What the manifest must have, or may have (None: missing); other code relies on it."""


def is_written(manifest: Mapping[str, Any]) -> bool:
    """Whether the run is being written: its supervisor is running. Another process with its number
    does not count."""
    if manifest["status"] != "running":
        return False
    if manifest["machine"].get("host", platform.node()) != platform.node():
        return True  # not visible from this machine
    pid = manifest.get("supervisor")
    return isinstance(pid, int) and started(pid) == manifest.get("supervisor_started", -1)
