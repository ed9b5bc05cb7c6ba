# SPDX-License-Identifier: Apache-2.0
"""Checked values from text in a run directory: the manifest's entries, a stream's META.

Nothing in a file is trusted. Each value is parsed here once; a wrong one raises a TraceError with
file, place and remedy. The rest of the package trusts parsed values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any, TypeGuard

from xpuprof.errors import TraceError

STREAM_FILES = ("events.xpt", "cpu.xpt")
"""Stream files in a process's folder."""
PROCESS_FOLDER = re.compile(r"(.+?)(?:-rank(\d+))?-(\d+)")
"""Its name (native/include/xpuprof/part.h): host, rank if any, number."""
LARGEST = (1 << 63) - 1
"""Largest number in a manifest or META record: ticks and sizes go into int64 columns."""
_LARGEST_WARP = 1 << 16
_LARGEST_RANK = (1 << 31) - 1


# ---- the manifest --------------------------------------------------------------------------------


@dataclass(frozen=True)
class ExecutionRecord:
    """One execution's entry in the manifest (docs/run-directory.md)."""

    name: str
    role: str = ""
    """profile | first | time."""
    status: str = ""
    """running | complete | partial."""
    reason: str = ""
    """Why it is not complete; empty otherwise."""
    cpu_engine: str = "none"
    gpu_engine: str = "none"
    timer: str = ""
    filters: Mapping[str, object] = field(default_factory=dict)
    gpu_tool: str = ""
    fallbacks: tuple[str, ...] = ()
    """Why better engines were not used, one sentence each."""
    pid: int | None = None
    exit_code: int | None = None
    signal: int | None = None
    tsc_start: int = 0
    """Ticks, 0 if unknown, as is `tsc_end`."""
    tsc_end: int = 0
    wall_s: float | None = None
    tsc_hz: float = 0.0
    """Ticks per second, of the whole run."""

    @property
    def process_name(self) -> str:
        """Name of the program's process if it has no stream."""
        return str(self.pid or "program")


def execution_record(entry: Mapping[str, object], tsc_hz: float, manifest: Path) -> ExecutionRecord:
    """Parse an entry of the manifest's `executions`; null counts as missing. Raises TraceError for
    a wrong value."""
    values: dict[str, Any] = {}
    for key, (right, kind) in _RIGHT.items():
        value = entry.get(key)
        if value is not None and not right(value):
            raise TraceError(
                f"{manifest}: execution {entry.get('name')!r} has {key} {shortened(value)}, which "
                f"is not {kind}; copy the run directory again, or record it again"
            )
        if value not in (None, ""):
            values[key] = tuple(value) if isinstance(value, list) else value
    return ExecutionRecord(**values, tsc_hz=tsc_hz)


def is_natural(value: object) -> TypeGuard[int]:
    """Whether a value is an integer that fits an int64 column; JSON's true and false are not."""
    return type(value) is int and 0 <= value <= LARGEST


def is_quantity(value: object) -> bool:
    """Whether a value is a finite non-negative number."""
    return is_natural(value) or (isinstance(value, float) and value >= 0.0 and isfinite(value))


def are_texts(value: object) -> bool:
    """Whether a value is a list of strings."""
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


def shortened(value: object) -> str:
    """A file's value, shortened for a message."""
    text = repr(value)
    return text if len(text) <= 60 else text[:60] + "..."


_NUMBERS = is_natural, f"an integer from 0 to {LARGEST}"
_RIGHT: dict[str, tuple[Callable[[object], bool], str]] = {
    **dict.fromkeys(
        ("name", "role", "status", "reason", "cpu_engine", "gpu_engine", "timer", "gpu_tool"),
        (lambda value: isinstance(value, str), "text"),
    ),
    **dict.fromkeys(("pid", "signal", "tsc_start", "tsc_end"), _NUMBERS),
    "filters": (lambda value: isinstance(value, dict), "an object"),
    "fallbacks": (are_texts, "a list of strings"),
    # Negative: ended by a signal.
    "exit_code": (lambda value: type(value) is int and -256 < value < 256, "an exit code"),
    "wall_s": (is_quantity, "a number of seconds"),
}
"""What an entry may have: a test and what it tests for."""


# ---- META records --------------------------------------------------------------------------------


@dataclass(frozen=True)
class ProcessMeta(Mapping[str, str]):
    """META of a process: `texts` as recorded, keys of cpu.xpt prefixed with `cpu_`, and the checked
    values of numeric ones. trace_format.h lists the keys."""

    texts: Mapping[str, str] = field(default_factory=dict)
    rank: int | None = None
    """The rank that a launcher (mpirun, srun, torchrun) assigned."""
    ancestry: tuple[tuple[int, int], ...] = ()
    """(start in clock ticks since boot, pid) of the process and its ancestors, nearest first."""
    warp_size: int = 0
    """0 if each kernel has its own, or if unknown."""
    tsc_load: int = 0
    """Ticks, 0 if unknown, as is `tsc_exit`."""
    tsc_exit: int = 0
    age_ns: int = 0
    """Age of the process at `tsc_load`."""

    @property
    def native_start_up(self) -> bool:
        """Whether start-up ran natively, outside the CPU engine, and did not count."""
        return self.texts.get("cpu_start_up") == "native"

    def __getitem__(self, key: str) -> str:
        return self.texts[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.texts)

    def __len__(self) -> int:
        return len(self.texts)


def process_meta(texts: Mapping[str, str], part: str) -> ProcessMeta:
    """Parse the META records of the process in folder `part`. Raises TraceError."""

    def number(key: str, largest: int = LARGEST) -> int:
        text = texts.get(key, "")
        if text and not (_NUMBER.fullmatch(text) and int(text) <= largest):
            raise _wrong_meta(part, key, text, f"a number from 0 to {largest}")
        return int(text or 0)

    rank = next((key for key in ("rank", "cpu_rank") if texts.get(key)), None)
    return ProcessMeta(
        texts,
        None if rank is None else number(rank, _LARGEST_RANK),
        _ancestry(texts.get("ancestry", ""), part),
        number("warp_size", _LARGEST_WARP),
        number("tsc_load"),
        number("tsc_exit"),
        number("age_ns"),
    )


_NUMBER = re.compile(r"[0-9]{1,19}")
_ANCESTOR = re.compile(r"([0-9]{1,19}):([0-9]{1,19})")


def _ancestry(text: str, part: str) -> tuple[tuple[int, int], ...]:
    found = [_ANCESTOR.fullmatch(entry) for entry in text.split()]
    if None in found:
        raise _wrong_meta(part, "ancestry", text, "a list of pid:start")
    return tuple((int(entry[2]), int(entry[1])) for entry in found if entry)


def _wrong_meta(part: str, key: str, text: str, kind: str) -> TraceError:
    return TraceError(
        f"process {part}: META {key} is {shortened(text)}, which is not {kind}; copy the run "
        "directory again, or record it again"
    )
