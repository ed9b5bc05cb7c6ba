"""Kineto's Chrome trace (`torch.profiler`, CUDA and ROCm): .json and .json.gz.

The events are decoded one by one from a window of the file, never the file as a whole. Kept are
the kernels (about 100 bytes each), the operators' numbers and names, and the time span. A kernel's
range is the framework's operator that launched it, which is the same on every vendor's device.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from xpuprof.errors import InputError
from xpuprof.formats.importers.timeline import Launches, Timeline
from xpuprof.trace.imported import ImportWriter

WINDOW = 1 << 20
LONGEST_EVENT = 1 << 25
_START = re.compile(r'"traceEvents"\s*:\s*\[')
US = 1e-6


def load(source: Path, writer: ImportWriter) -> None:
    """Import a trace. InputError when it is not JSON, damaged, or holds no kernel.

    `range` of a slice is the operator (cpu_op) that launched its kernel and `range_call` which of
    that operator's calls, which is the same on machines whose kernels have other names.
    """
    kernels: list[str] = []
    times: list[tuple[float, float]] = []
    places: list[tuple[int, int, int]] = []
    shapes: list[tuple[int, ...]] = []
    operators = _Operators()
    first, last = float("inf"), float("-inf")
    for event in events(source):
        if event.get("ph") != "X":
            continue
        start, duration = _number(source, event, "ts"), _number(source, event, "dur")
        first, last = min(first, start), max(last, start + duration)
        kind = str(event.get("cat", "")).lower()
        detail = event.get("args", {})
        if kind in ("cuda_runtime", "cuda_driver", "hip_runtime"):
            operators.launch(_thread(event), start, _integer(detail.get("correlation", -1)))
        elif kind in ("cpu_op", "operator"):
            operators.operator(_thread(event), start, duration, str(event.get("name", "")))
        elif kind == "kernel":
            kernels.append(str(event.get("name", "")))
            times.append((start, duration))
            places.append(
                (
                    _integer(detail.get("device", 0)),
                    _integer(detail.get("stream", 0)),
                    _integer(detail.get("correlation", -1)),
                )
            )
            shapes.append((*_shape(detail.get("grid")), *_shape(detail.get("block"))))
    if not kernels:
        raise InputError(
            f"{source} has no device kernel; record with ProfilerActivity.CUDA in `activities`"
        )
    stamp = np.array(times)
    # A trace's times have an arbitrary origin of 10^12 us; taking it off keeps nanoseconds exact.
    begin = (stamp[:, 0] - first) * US
    order = np.argsort(begin, kind="stable")
    place = np.array(places, dtype=np.int64)[order]
    shape = np.array(shapes, dtype=np.int64)[order]
    around = operators.around(place[:, 2].tolist())
    timeline = Timeline(writer)
    timeline.begin(0.0)
    timeline.add(
        Launches(
            kernel=[kernels[i] for i in order],
            start=begin[order],
            end=(begin + stamp[:, 1] * US)[order],
            device=place[:, 0].astype(np.int32),
            stream=place[:, 1].astype(np.int32),
            grid=shape[:, :3],
            block=shape[:, 3:],
            metrics={"range_call": np.array([call for _, call in around], dtype=np.float64)},
            ranges=[name for name, _ in around],
        )
    )
    timeline.finish((last - first) * US)


class _Operators:
    """The innermost operator around the call that launched each kernel, found by one sweep over
    calls and operators sorted by thread and time."""

    def __init__(self) -> None:
        self._launches: list[tuple[str, float, int]] = []
        self._operators: list[tuple[str, float, float, str]] = []

    def launch(self, thread: str, at: float, correlation: int) -> None:
        """A runtime call."""
        self._launches.append((thread, at, correlation))

    def operator(self, thread: str, start: float, duration: float, name: str) -> None:
        """An operator's extent on its thread."""
        self._operators.append((thread, start, -duration, name))

    def around(self, correlations: list[int]) -> list[tuple[str, int]]:
        """(operator, which of its calls from 1) of each kernel; ("", 0) outside any."""
        found: dict[int, tuple[str, int]] = {}
        # Of operators that start together the longer one is the outer.
        spans = sorted(self._operators)
        by_start = sorted(range(len(spans)), key=lambda i: spans[i][1])
        number, seen = [0] * len(spans), dict[str, int]()
        for i in by_start:
            name = spans[i][3]
            number[i] = seen[name] = seen.get(name, 0) + 1
        at, thread = 0, ""
        stack: list[int] = []
        for own, moment, correlation in sorted(self._launches):
            if own != thread:
                thread, stack = own, []
            while at < len(spans) and spans[at][:2] <= (own, moment):
                if spans[at][0] == own:
                    stack.append(at)
                at += 1
            while stack and spans[stack[-1]][1] - spans[stack[-1]][2] < moment:
                stack.pop()
            if stack:
                found.setdefault(correlation, (spans[stack[-1]][3], number[stack[-1]]))
        return [found.get(correlation, ("", 0)) for correlation in correlations]


def events(source: Path) -> Iterator[dict[str, Any]]:
    """The trace events, one after the other; at most a window and one event are in memory."""
    opener = gzip.open if source.suffix == ".gz" else open
    try:
        with opener(source, "rt", encoding="utf-8", errors="replace") as file:
            yield from _decode(source, file)
    except (OSError, EOFError) as error:
        raise InputError(f"{source} cannot be read: {error}; copy or record it again") from error


def _decode(source: Path, file: IO[str]) -> Iterator[dict[str, Any]]:
    decoder = json.JSONDecoder()
    buffer, at = _skip_head(source, file)
    count = 0
    while True:
        while at < len(buffer) and buffer[at] in " \t\r\n,":
            at += 1
        if at < len(buffer) and buffer[at] == "]":
            return
        try:
            event, at = decoder.raw_decode(buffer, at)
        except ValueError:
            more = file.read(WINDOW)
            buffer, at = buffer[at:] + more, 0
            if not more or len(buffer) > LONGEST_EVENT:
                raise InputError(
                    f"{source} is damaged or cut short: event {count + 1} is not JSON; "
                    "record or copy it again"
                ) from None
            continue
        count += 1
        if isinstance(event, dict):
            yield event


def _skip_head(source: Path, file: IO[str]) -> tuple[str, int]:
    """Buffer and position after the opening bracket of the event list."""
    buffer = file.read(WINDOW)
    if buffer.lstrip()[:1] == "[":
        return buffer, buffer.index("[") + 1
    if buffer.lstrip()[:1] == "{":
        while True:
            found = _START.search(buffer)
            if found:
                return buffer, found.end()
            more = file.read(WINDOW)
            if not more:
                break
            buffer += more
    raise InputError(
        f"{source} is not a Chrome trace: it has no list `traceEvents`; write one with "
        "`profiler.export_chrome_trace(FILE)`"
    )


def _number(source: Path, event: dict[str, Any], key: str) -> float:
    try:
        return float(event[key])
    except (KeyError, TypeError, ValueError):
        raise InputError(
            f"{source}: event {event.get('name')!r} has no number {key!r}; the trace is "
            "damaged: record or copy it again"
        ) from None


def _thread(event: dict[str, Any]) -> str:
    return f"{event.get('pid')}/{event.get('tid')}"


def _shape(value: object) -> tuple[int, int, int]:
    """Grid or block of an event; zeros when not recorded (roctracer leaves it out at times)."""
    if isinstance(value, list) and len(value) == 3:
        return (_integer(value[0]), _integer(value[1]), _integer(value[2]))
    return (0, 0, 0)


def _integer(value: object) -> int:
    try:
        return int(value)  # type: ignore[call-overload, no-any-return]
    except (TypeError, ValueError):
        return -1
