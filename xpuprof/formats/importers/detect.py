"""Which format a source has: by its first bytes and its name, never by trying every importer."""

from __future__ import annotations

import gzip
from pathlib import Path

from xpuprof.errors import InputError

FORMATS = ("nsys", "ncu", "nvprof", "kineto", "simpoint", "xpupoint", "csv")
HEAD = 1 << 16


def detect(source: Path) -> str:
    """One of FORMATS. InputError when the source is missing, empty or of no format known here."""
    if not source.exists():
        raise InputError(f"{source} does not exist; check its name and folder")
    if source.is_dir():
        if (
            any(source.glob("T.*.bb*"))
            or (source / "thread.bbv").exists()
            or any(source.glob("*.bb"))
        ):
            return "xpupoint"
        raise InputError(
            f"{source} is a directory without vector files (T.<n>.bb, thread.bbv); name a file, or "
            "the folder that the reference implementation wrote"
        )
    head = read_head(source)
    if not head:
        raise InputError(f"{source} is empty; copy it or export it again")
    if head.startswith(b"SQLite format 3\0"):
        return "nsys"
    if head.startswith(b"PAR1"):
        return "csv"
    text = head.decode("utf-8", errors="replace")
    stripped = text.lstrip("\ufeff \t\r\n")
    if stripped.startswith(("{", "[")):
        return "kineto"
    if source.suffix == ".nsys-rep" or source.suffix == ".qdrep":
        raise InputError(
            f"{source} is an Nsight Systems report; export it first: "
            f"`nsys export --type sqlite {source}`"
        )
    if source.suffix == ".ncu-rep":
        raise InputError(
            f"{source} is an Nsight Compute report; export it first: "
            f"`ncu --import {source} --csv --page raw > FILE.csv`"
        )
    if stripped.startswith("T:") or (
        stripped.startswith("#") and any(line.startswith("T:") for line in text.splitlines())
    ):
        return "simpoint"
    if "==PROF==" in text or '"Kernel Name"' in text:
        return "ncu"
    lines = text.splitlines()
    if any(line.startswith("==") and "NVPROF" in line for line in lines[:50]) or any(
        line.startswith(('"Start"', '"Device","')) or '"grid.x"' in line for line in lines[:50]
    ):
        return "nvprof"
    if lines and any(mark in lines[0] for mark in ",;\t"):
        return "csv"
    raise InputError(
        f"{source} is none of the formats known here ({', '.join(FORMATS)}); name one with --format"
    )


def read_head(source: Path) -> bytes:
    """The first bytes, decompressed."""
    try:
        with source.open("rb") as file:
            magic = file.read(2)
        opener = gzip.open if magic == b"\x1f\x8b" else open
        with opener(source, "rb") as file:
            return file.read(HEAD)
    except (OSError, EOFError) as error:
        raise InputError(f"{source} cannot be read: {error}; copy it again") from error
