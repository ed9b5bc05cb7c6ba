# SPDX-License-Identifier: Apache-2.0
"""What a selection records of the program for comparison with another run: images, device programs,
arguments, and the sequence of slices (trace/sequence.py)."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from xpuprof.errors import InputError
from xpuprof.trace.elf import build_id
from xpuprof.trace.sequence import launch_sequence, with_kind_columns


def program_identity(
    slices: pd.DataFrame, images: pd.DataFrame, manifest: Mapping[str, Any]
) -> Mapping[str, Any]:
    """`Selection.identity` of a run.

    `slices`, `images`: as in `trace.tables.Process`; `manifest`: the run's (argv, cwd,
    environment).
    """
    named = images[images["path"].astype(bool)] if len(images) else images
    files = {(str(row["path"]), str(row["build_id"])) for row in named.to_dict("records")}
    return {
        "arguments": [str(argument) for argument in manifest.get("argv", [])],
        "directory": str(manifest.get("cwd", "")),
        "environment": dict(manifest.get("environment", {})),
        "images": sorted(files | _program_image(manifest)),
        "programs": sorted({p for p in with_kind_columns(slices)["program"].astype(str) if p}),
        "sequence": launch_sequence(slices).as_json(),
    }


def hash_inputs(paths: Iterable[str | Path]) -> dict[str, str]:
    """SHA-256 (hex) of each input file, and of every file below each folder, by path.

    For `Selection.identity["inputs"]`. Raises InputError for a path that cannot be read.
    """
    digests: dict[str, str] = {}
    for given in map(Path, paths):
        files = sorted(p for p in given.rglob("*") if p.is_file()) if given.is_dir() else [given]
        for file in files:
            try:
                with open(file, "rb") as content:
                    digests[str(file)] = hashlib.file_digest(content, "sha256").hexdigest()
            except OSError as error:
                raise InputError(
                    f"cannot read the input {file}: {error.strerror}; check the path after --input"
                ) from error
    return digests


def _program_image(manifest: Mapping[str, Any]) -> set[tuple[str, str]]:
    """The program's own file, which a run without a CPU engine does not record."""
    argv, folder = manifest.get("argv") or [""], str(manifest.get("cwd", ""))
    name = str(argv[0])
    path = os.path.join(folder, name) if "/" in name else shutil.which(name)
    identity = build_id(os.path.realpath(path)) if path else ""
    return {(os.path.realpath(path), identity)} if path and identity else set()
