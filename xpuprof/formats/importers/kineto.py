# SPDX-License-Identifier: Apache-2.0
"""Kineto's Chrome trace (`torch.profiler`, CUDA and ROCm): .json and .json.gz.

Events are decoded one by one from a window of the file, never the whole file. Only the kernels
(about 100 bytes each), the operators' numbers and names, and the time span are kept. A kernel's
range is the framework operator that launched it, which is the same on every vendor's device.
"""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Iterator
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any, NoReturn

from xpuprof.formats.format import Head, Importer, Match
from xpuprof.formats.importers.table import LARGEST
from xpuprof.inputs import Source, finite, whole

if TYPE_CHECKING:
    from xpuprof.trace.imported import ImportWriter

WINDOW = 1 << 20
LONGEST_EVENT = 1 << 23
LONGEST_HEAD = 1 << 25
"""Most characters before the list of events."""
EVENT_COST, CALL_COST = 128, 200
"""Cost in bytes of any event (time, not space), and of a call or operator."""
LATEST = 1e18
"""Microseconds; beyond any clock's origin."""
_START = re.compile(r'"traceEvents"\s*:\s*\[')
_BETWEEN = re.compile(r"[ \t\r\n,]*")
_CALLS = ("cuda_runtime", "cuda_driver", "hip_runtime")
_OPERATORS = ("cpu_op", "operator")
US = 1e-6


def load(source: Source, writer: ImportWriter) -> None:
    """Import a trace. Raises InputError when it is not JSON, damaged, or has no kernel.

    A slice's `range` is the operator (cpu_op) that launched its kernel, and `range_call` the number
    of that operator's call; both are the same on machines whose kernels have other names.
    """
    import numpy as np  # imported late: `--help` lists formats without it

    from xpuprof.formats.importers.timeline import Kernels

    kernels = Kernels(source)
    correlations = array("q")
    operators = _Operators()
    first, last = float("inf"), float("-inf")
    for event in checked_events(source):
        first, last = min(first, event.start), max(last, event.start + event.duration)
        if event.kind in _CALLS:
            source.hold(CALL_COST)
            operators.launch(event.thread, event.start, event.integer("correlation", -1))
        elif event.kind in _OPERATORS:
            source.hold(CALL_COST)
            operators.operator(event.thread, event.start, event.duration, event.name)
        elif event.kind == "kernel":
            correlations.append(event.integer("correlation", -1))
            grid, block = event.shape("grid"), event.shape("block")
            items = (groups * max(size, 1) for groups, size in zip(grid, block, strict=True))
            kernels.add(
                event.name,
                event.start,
                event.duration,
                device=event.integer("device", 0),
                stream=event.integer("stream", 0),
                shape=(*items, *block),
            )
    if not len(kernels):
        source.refuse("has no device kernel; record with ProfilerActivity.CUDA in `activities`")
    around = operators.around(np.array(correlations)[kernels.order()].tolist())
    # Times have an arbitrary origin of 10^12 us; subtracting it keeps nanoseconds exact.
    kernels.write(
        writer,
        first,
        last,
        US,
        metrics={"range_call": np.array([call for _, call in around], dtype=np.float64)},
        ranges=[name for name, _ in around],
    )


class _Operators:
    """The innermost operator around the call that launched each kernel, found in one sweep over
    calls and operators sorted by thread and time."""

    def __init__(self) -> None:
        self._launches: list[tuple[str, float, int]] = []
        self._operators: list[tuple[str, float, float, str]] = []

    def launch(self, thread: str, at: float, correlation: int) -> None:
        """Append a runtime call."""
        self._launches.append((thread, at, correlation))

    def operator(self, thread: str, start: float, duration: float, name: str) -> None:
        """Append an operator's extent on its thread."""
        self._operators.append((thread, start, -duration, name))

    def around(self, correlations: list[int]) -> list[tuple[str, int]]:
        """(operator, 1-based call) of each kernel; ("", 0) outside any."""
        found: dict[int, tuple[str, int]] = {}
        # If operators start together, the longer one is the outer.
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


class Event:
    """A complete event ("ph": "X") with validated values."""

    def __init__(self, source: Source, number: int, names: dict[str, str], raw: dict[str, Any]):
        self._source, self._number = source, number
        self._raw = raw
        self.kind = str(raw["cat"]).lower() if isinstance(raw.get("cat"), str) else ""
        self.start, self.duration = self._time("ts"), self._time("dur")
        self._arguments = raw.get("args", {})
        if self.kind in (*_CALLS, "kernel") and not isinstance(self._arguments, dict):
            self._refuse("args")
        self._names = names

    @property
    def name(self) -> str:
        """The name; equal names are one object."""
        name = self._raw.get("name", "")
        if not isinstance(name, str):
            self._refuse("name")
        if name not in self._names:
            self._source.hold_name(name)
            # A lone surrogate cannot be encoded.
            self._names[name] = name.encode("utf-8", "replace").decode()
        return self._names[name]

    @property
    def thread(self) -> str:
        """Process and thread."""
        found = (self._raw.get("pid"), self._raw.get("tid"))
        if not all(isinstance(part, int | float | str | None) for part in found):
            self._refuse("pid or tid")
        return f"{found[0]}/{found[1]}"

    def integer(self, key: str, default: int) -> int:
        """A number from the event's arguments, -1 if it is not a number."""
        value = self._arguments.get(key, default)
        if not isinstance(value, int | float | str):
            return -1
        largest = (1 << 62) if key == "correlation" else LARGEST
        number = whole(value, -largest, largest)
        if number is None and (isinstance(value, int | float) or value.strip("+-").isdigit()):
            self._refuse(key)
        return -1 if number is None else number

    def shape(self, key: str) -> tuple[int, int, int]:
        """Grid or block; zeros if not recorded (roctracer sometimes omits it)."""
        value = self._arguments.get(key)
        if not isinstance(value, list) or len(value) != 3:
            return (0, 0, 0)
        x, y, z = (whole(size, 0, LARGEST) for size in value)
        if x is None or y is None or z is None:
            self._refuse(key)
        return (x, y, z)

    def _time(self, key: str) -> float:
        value = finite(self._raw.get(key))
        if value is None or abs(value) > LATEST:
            self._refuse(key)
        return value

    def _refuse(self, key: str) -> NoReturn:
        name = self._raw.get("name")
        called = f" ({name[:80]!r})" if isinstance(name, str) else ""
        self._source.refuse(
            f"is damaged: event {self._number}{called} has no valid {key!r}; record or copy it "
            "again"
        )


def checked_events(source: Source) -> Iterator[Event]:
    """Yield the complete events."""
    names: dict[str, str] = {}
    for number, raw in enumerate(events(source), start=1):
        source.hold(EVENT_COST)
        if raw.get("ph") == "X":
            yield Event(source, number, names, raw)


def events(source: Source) -> Iterator[dict[str, Any]]:
    """Yield the raw trace events; at most a window and one event are in memory."""
    with source.text() as file:
        decoder = json.JSONDecoder()
        buffer, at = _skip_head(source, file)
        count = 0
        while True:
            found = _BETWEEN.match(buffer, at)
            at = found.end() if found else at
            if at < len(buffer) and buffer[at] == "]":
                return
            try:
                event, at = decoder.raw_decode(buffer, at)
            except (ValueError, RecursionError) as error:
                more = file.read(WINDOW)
                buffer, at = buffer[at:] + more, 0
                long = len(buffer) > LONGEST_EVENT or isinstance(error, RecursionError)
                if not more or long:
                    source.refuse(
                        f"is damaged or cut short: event {count + 1} is not JSON; "
                        "record or copy it again"
                    )
                continue
            count += 1
            if isinstance(event, dict):
                yield event


def _skip_head(source: Source, file: TextIOWrapper) -> tuple[str, int]:
    """Buffer and position after the opening bracket of the event list."""
    buffer = file.read(WINDOW)
    if buffer.lstrip()[:1] == "[":
        return buffer, buffer.index("[") + 1
    found = _START.search(buffer)
    while not found:
        more = file.read(WINDOW)
        if not more or len(buffer) > LONGEST_HEAD or buffer.lstrip()[:1] != "{":
            source.refuse(
                "is not a Chrome trace: it has no list `traceEvents`; write one with "
                "`profiler.export_chrome_trace(FILE)`"
            )
        buffer += more
        found = _START.search(buffer)
    return buffer, found.end()


def _match(head: Head) -> Match:
    return Match.YES if head.text.startswith(("{", "[")) else Match.NO


FORMAT = Importer(
    name="kineto",
    help="PyTorch profiler, Chrome trace (.json, .json.gz), CUDA and ROCm",
    load=load,
    match=_match,
    aliases=("pytorch",),
)
