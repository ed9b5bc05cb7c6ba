"""Runs xpuprof as a user does: a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def xpuprof(
    *arguments: str | Path,
    stdin: bytes | int | None = None,
    environment: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    timeout: float = 300,
) -> subprocess.CompletedProcess[bytes]:
    """One command; never raises for its exit code."""
    command = [sys.executable, "-m", "xpuprof", *map(str, arguments)]
    given = {"input": stdin} if isinstance(stdin, bytes) else {"stdin": stdin}
    return subprocess.run(
        command,
        capture_output=True,
        env=environment,
        cwd=cwd,
        timeout=timeout,
        check=False,
        **given,  # type: ignore[call-overload]
    )


def last_json(done: subprocess.CompletedProcess[bytes]) -> dict[str, Any]:
    """The object that a command with --json printed behind the program's own output."""
    value = json.loads(done.stdout.splitlines()[-1])
    assert isinstance(value, dict)
    return value


def compile_c(source: str, target: Path, *flags: str) -> Path:
    """A small C program."""
    subprocess.run(
        ["cc", "-O1", "-Wall", "-x", "c", "-", "-o", str(target), *flags],
        input=source.encode(),
        check=True,
    )
    return target
