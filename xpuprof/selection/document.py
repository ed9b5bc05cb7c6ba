# SPDX-License-Identifier: Apache-2.0
"""The selection file as a document: one versioned, human-readable JSON text that stands alone.

`docs/selection-file.md` describes it. The bytes depend only on the content (key order, number
format and layout are fixed), so equal selections give equal files. A checksum over the content, not
the layout, reveals manual changes.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shlex
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from xpuprof import inputs
from xpuprof.errors import ExistsError, InputError, UsageError, unwritable
from xpuprof.trace.manifest import MANIFEST

VERSIONS = {
    1: "first-light: markers, multipliers, run-length coded labels, SHA-256 of the content",
    2: "design: how slices were chosen is a separate value; version 1 has it among the scores",
}
"""Every version ever written, with its name and a sentence. All can be read."""

CURRENT = max(VERSIONS)
OLDEST_SUPPORTED = min(VERSIONS)

_WIDTH = 120
_LONG = 1_000
LARGEST = 1 << 31
"""Bytes of a selection file; labels of 10^8 slices take about 10^8 bytes."""


def refuse_existing(file: Path, force: bool) -> None:
    """Raises UsageError when a selection's file exists and `force` is false, or is a folder."""
    if file.is_dir():
        raise UsageError(f"{file} is a directory: name a file for the selection")
    if file.exists() and not force:
        raise ExistsError(file)


def write_text(text: str, path: str | Path, force: bool) -> None:
    """Write a selection file atomically.

    Raises UsageError when the file exists and `force` is false or the folder cannot be written.
    """
    target = Path(path)
    refuse_existing(target, force)
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    except OSError as error:
        raise unwritable(target, error) from error
    try:
        with os.fdopen(handle, "wb") as file:
            # A name that is not UTF-8 arrives as lone surrogates; JSON has escapes for them.
            file.write(text.encode("utf-8", "backslashreplace"))
        os.replace(temporary, target)  # for the owner only, as the manifest: both hold arguments
    except OSError as error:
        os.unlink(temporary)
        raise unwritable(target, error) from error


def file_of(path: str | Path) -> Path:
    """The selection file that was named, or the one in the run directory that was named."""
    source = Path(path)
    return source / "selection.json" if source.is_dir() else source


def read_text(source: Path) -> str:
    """The text of a selection file. Raises InputError when it cannot be read."""
    if not source.exists():
        run = _run_of(source)
        raise InputError(f"{source} does not exist; make a selection with `xpuprof select {run}`")
    again = naming_run(inputs.SELECT_AGAIN, source)
    return inputs.read_text(source, f"a selection file, or {again}", LARGEST)


def naming_run(sentence: str, source: Path) -> str:
    """A sentence about a selection file, with the run directory that it lies in for RUN."""
    return sentence.replace("select RUN", f"select {_run_of(source)}")


def _run_of(source: Path) -> str:
    here = (source.parent / MANIFEST).exists()
    return shlex.quote(str(source.parent)) if here else "RUN"


def text_of(content: Mapping[str, object]) -> str:
    """The file's text: format, version and checksum, then `content` in its own order."""
    document = {"format": inputs.SELECTION, "version": CURRENT, **content}
    document["checksum"] = _checksum(document)
    order = ("format", "version", "checksum", *content)
    return _layout({key: document[key] for key in order}, 0) + "\n"


def content_of(text: str, refuse: Callable[[str], NoReturn]) -> dict[str, Any]:
    """The content of a file's text, after checking its version and checksum."""

    document = _parse_json(text, refuse)
    if not isinstance(document, dict) or document.get("format") != inputs.SELECTION:
        refuse(f"is not a selection file: name one, or {inputs.SELECT_AGAIN}")
    version = document.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version < OLDEST_SUPPORTED:
        refuse(f"has no valid format version: {inputs.SELECT_AGAIN}")
    if version > CURRENT:
        refuse(
            f"has selection format {version}, this xpuprof reads up to {CURRENT}: "
            "use a newer xpuprof (pip install -U xpuprof)"
        )
    content = {key: value for key, value in document.items() if key != "checksum"}
    if document.get("checksum") != _checksum(content):
        refuse(
            f"was changed after it was written (its checksum does not match): {inputs.SELECT_AGAIN}"
        )
    return content


# ---- to JSON -----------------------------------------------------------------------------------


def plain(value: Any, where: str) -> Any:
    """JSON values only, mappings sorted by key; numpy scalars and arrays become Python's."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InputError(f"the selection's {where} is {value}: only finite numbers are kept")
        return value + 0.0  # -0.0 and 0.0 are equal and must have the same text
    if isinstance(value, Mapping):
        keyed = {str(key): item for key, item in value.items()}
        return {key: plain(keyed[key], f"{where}.{key}") for key in sorted(keyed)}
    if isinstance(value, Sequence):
        return [plain(item, where) for item in value]
    raise InputError(f"the selection's {where} is a {type(value).__name__}, which JSON cannot hold")


_compact = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


def _layout(value: Any, indent: int) -> str:
    """Put JSON on one line if it fits, else expand it by one level. Entries of a long list take a
    line each: laid out like others, 10,000 representatives took 0.9 s."""
    nested = isinstance(value, dict | list)
    if not nested or 3 * len(value) <= _WIDTH:  # an entry takes three characters at least
        flat = _compact(value)
        if not nested or not value or len(flat) + indent <= _WIDTH:
            return flat
    pad = " " * (indent + 2)
    if isinstance(value, dict):
        items = [f"{_compact(key)}: {_layout(item, indent + 2)}" for key, item in value.items()]
        opening, closing = "{", "}"
    else:
        of = _compact if len(value) > _LONG else partial(_layout, indent=indent + 2)
        items = [of(item) for item in value]
        opening, closing = "[", "]"
    return f"{opening}\n{pad}" + f",\n{pad}".join(items) + f"\n{' ' * indent}{closing}"


def _checksum(content: Mapping[str, Any]) -> str:
    canonical = json.dumps(
        content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    return "sha256:" + hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()


# ---- from JSON ---------------------------------------------------------------------------------


def _parse_json(text: str, refuse: Callable[[str], NoReturn]) -> Any:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        keys = [key for key, _ in pairs]
        if len(keys) != len(set(keys)):
            raise ValueError("a key occurs twice")
        return dict(pairs)

    def no_constant(name: str) -> NoReturn:
        raise ValueError(f"{name} is not a JSON number")

    def finite(digits: str) -> float:
        number = float(digits)
        if not math.isfinite(number):
            raise ValueError(f"{digits} is out of range")
        return number

    try:
        return json.loads(
            text, object_pairs_hook=unique, parse_constant=no_constant, parse_float=finite
        )
    except (ValueError, RecursionError) as error:
        refuse(
            f"is not a selection file: it is not valid JSON ({error}); copy the whole file, or "
            f"{inputs.SELECT_AGAIN}"
        )


def mapping(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"{name} is not an object")
    return value


def integer(value: Any, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} is not an integer")
    return value


def number(value: Any, name: str) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TypeError(f"{name} is not a number")
    return float(value)


def flag(value: Any, name: str) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{name} is neither true nor false")
    return value


def string(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} is not a string")
    return value


def triple(value: Any, name: str) -> tuple[int, int, int]:
    x, y, z = (integer(n, name) for n in value)
    return x, y, z
