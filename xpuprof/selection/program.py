# SPDX-License-Identifier: Apache-2.0
"""Identifies the program of a run, and its input files."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from xpuprof.errors import InputError
from xpuprof.selection.identity import Image, Program
from xpuprof.trace.elf import build_id


def program_of(slices: pd.DataFrame, images: pd.DataFrame, manifest: Mapping[str, Any]) -> Program:
    """The program of a run.

    `slices`, `images`: as in `trace.tables.Process`; `manifest`: the run's (argv, cwd,
    environment).
    """
    named = images[images["path"].astype(bool)] if len(images) else images
    files = {Image(str(row["path"]), str(row["build_id"])) for row in named.to_dict("records")}
    programs = slices["program"].unique() if "program" in slices else ()
    return Program(
        tuple(str(argument) for argument in manifest.get("argv", [])),
        str(manifest.get("cwd", "")),
        dict(manifest.get("environment", {})),
        tuple(sorted(files | _program_image(manifest))),
        tuple(sorted(filter(None, map(str, programs)))),
    )


def hash_inputs(paths: Iterable[str | Path]) -> dict[str, str]:
    """SHA-256 (hex) of each input file, and of every file below each folder, by path.

    Raises InputError for a path that cannot be read.
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


def _program_image(manifest: Mapping[str, Any]) -> set[Image]:
    """The program's own file, which a run without a CPU engine does not record."""
    argv, folder = manifest.get("argv") or [""], str(manifest.get("cwd", ""))
    name = str(argv[0])
    path = os.path.join(folder, name) if "/" in name else shutil.which(name)
    identity = build_id(os.path.realpath(path)) if path else ""
    return {Image(os.path.realpath(path), identity)} if path and identity else set()
