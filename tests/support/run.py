# SPDX-License-Identifier: Apache-2.0
"""Runs commands; xpuprof as a user does, in a separate process."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

TIMEOUT = 300.0
"""Seconds; what hangs fails."""


def run(
    command: Sequence[object],
    *,
    environment: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    stdin: bytes | int | None = None,
    check: bool = False,
    timeout: float = TIMEOUT,
) -> subprocess.CompletedProcess[bytes]:
    """One command with its output; `stdin` is its input, or a descriptor."""
    given: dict[str, Any] = {"input": stdin} if isinstance(stdin, bytes) else {"stdin": stdin}
    done: subprocess.CompletedProcess[bytes] = subprocess.run(
        list(map(str, command)),
        capture_output=True,
        env=environment,
        cwd=cwd,
        timeout=timeout,
        check=check,
        **given,
    )
    return done


def run_text(
    command: Sequence[object],
    *,
    environment: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    stdin: str | None = None,
    check: bool = False,
    timeout: float | None = TIMEOUT,
) -> subprocess.CompletedProcess[str]:
    """As `run`, with output as text."""
    return subprocess.run(
        list(map(str, command)),
        capture_output=True,
        text=True,
        env=environment,
        cwd=cwd,
        input=stdin,
        timeout=timeout,
        check=check,
    )


def output(command: Sequence[object], **how: Any) -> str:
    """The text that a command prints; it must succeed."""
    return run_text(command, check=True, **how).stdout


def python(code: str, *arguments: object, **how: Any) -> str:
    """The output of a piece of Python in a separate interpreter."""
    return output([sys.executable, "-c", code, *arguments], **how)


def xpuprof_line(*arguments: object) -> list[str]:
    """The command line that starts xpuprof, for tests that need the process itself."""
    return [sys.executable, "-m", "xpuprof", *map(str, arguments)]


def xpuprof(*arguments: str | Path, **how: Any) -> subprocess.CompletedProcess[bytes]:
    """One command; never raises for its exit code. `how`: as `run`."""
    return run(xpuprof_line(*arguments), **how)


def xpuprof_text(*arguments: str | Path, **how: Any) -> subprocess.CompletedProcess[str]:
    """As `xpuprof`, with output as text."""
    return run_text(xpuprof_line(*arguments), **how)


def done_by_xpuprof(*arguments: object, **settings: str) -> str:
    """The text that a command prints, however long it takes; its failure ends ours. `settings`: of
    the environment."""
    environment = {**os.environ, **settings}
    done = run_text(xpuprof_line(*arguments), environment=environment, stdin="", timeout=None)
    if done.returncode:
        raise SystemExit(f"xpuprof {shlex.join(map(str, arguments))}: {done.stderr.strip()}")
    return done.stdout


def last_json(done: subprocess.CompletedProcess[bytes]) -> dict[str, Any]:
    """The object that a command with --json printed after the program's own output."""
    value = json.loads(done.stdout.splitlines()[-1])
    assert isinstance(value, dict)
    return value
