# SPDX-License-Identifier: Apache-2.0
"""Makes small run directories record by record, without an engine.

A stream is a list of records (tag, body, slice); SEAL between two of them ends a chunk.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tests.support.streams import StreamWriter, text, u64, varint, varints
from xpuprof.trace.layout import CPU, EVENTS
from xpuprof.trace.manifest import read_manifest
from xpuprof.trace.run_writer import RunWriter, create_run
from xpuprof.trace.streams import FILES

Record = tuple[int, bytes, int | None]
SEAL: Record = (0, b"", None)
MIX = 12  # XP_MIX_COUNT


def meta(key: str, value: str) -> Record:
    return 1, text(key) + text(value), None


# ---- events.xpt ----------------------------------------------------------------------------------


def program(number: int, hash: bytes = bytes(range(16)), kind: int = 0, origin: str = "") -> Record:
    return 2, varint(number) + hash + bytes([kind]) + text(origin), None


def kernel(number: int, program: int, name: str, blocks: Sequence[int], reason: str = "") -> Record:
    """`blocks`: instructions of each, all of class 0."""
    body = varints([number, program]) + text(name) + varint(len(blocks))
    for instructions in blocks:
        body += varints([instructions, instructions, *[0] * (MIX - 1)])
    return 3, body + text(reason), None


def launch(
    number: int,
    kernel: int,
    tsc: int,
    *,
    sizes: Sequence[int] = (64, 1, 1, 32, 1, 1, 0, 0, 0),
    thread: int = 0,
    reason: str = "",
    flags: int | None = None,
) -> Record:
    body = varints([number, kernel]) + b"\1" + varints([*sizes, 7, 8, thread]) + u64(tsc)
    return 4, body + bytes([not reason if flags is None else flags]) + text(reason), number


def complete(number: int, host: int, start: int = 0, end: int = 0) -> Record:
    return 5, varint(number) + u64(host) + u64(start) + u64(end), number


def stamp(which: int, tsc: int) -> Record:
    return 6, bytes([which]) + u64(tsc), None


def deltas(pairs: Iterable[tuple[int, int]]) -> bytes:
    body, last = b"", 0
    for block, count in pairs:
        body += varints([block - last, count])
        last = block
    return body


def vector(number: int, kernel: int, pairs: Sequence[tuple[int, int]]) -> Record:
    return 7, varints([number, kernel, len(pairs)]) + deltas(pairs), None


def grid(
    number: int, kernel: int, warps: int, runs: Sequence[tuple[int, int]], instructions: int
) -> Record:
    body = varints([number, kernel, warps, len(runs)])
    return 8, body + b"".join(varints(run) for run in runs) + u64(instructions), None


def launch_grid(number: int, grid: int) -> Record:
    return 9, varints([number, grid]), number


def copy(direction: int, size: int, start: int, end: int, queue: int) -> Record:
    return 10, bytes([direction]) + varint(size) + u64(start) + u64(end) + varint(queue), None


def resources(number: int, *values: int) -> Record:
    """Registers, static and dynamic local bytes, private bytes."""
    return 11, varints([number, *values]), number


def uncounted(number: int, reason: str) -> Record:
    return 17, varint(number) + text(reason), number


def host(kind: int, size: int, start: int, end: int) -> Record:
    return 16, bytes([kind]) + varint(size) + u64(start) + u64(end), None


def lanes(number: int, instructions: int) -> Record:
    return 12, varints([number, instructions]), number


def device_ldv(
    number: int,
    pairs: Sequence[tuple[int, int]],
    accesses: int,
    recorded: int,
    groups: Sequence[int] = (2, 2),
    flags: int = 0,
) -> Record:
    """`groups`: all and recorded ones."""
    body = varints([number, flags, accesses, recorded, *groups, len(pairs)])
    return 14, body + deltas(pairs), number


def window(launch: int, is_open: bool, tsc: int, marker: str = "") -> Record:
    return 13, varint(launch) + bytes([is_open]) + u64(tsc) + text(marker), None


# ---- cpu.xpt -------------------------------------------------------------------------------------


def image(number: int, build_id: str, path: str) -> Record:
    return 2, varint(number) + text(build_id) + text(path), None


def block(number: int, image: int, offset: int, instructions: int) -> Record:
    return 3, varints([number, image, offset, instructions]), None


def thread(number: int, system_id: int) -> Record:
    return 4, varints([number, system_id]), None


def bbv(slice: int, thread: int, pairs: Sequence[tuple[int, int]], instructions: int) -> Record:
    return 5, varints([slice, thread, len(pairs), instructions]) + deltas(pairs), slice


def cut(slice: int, tsc: int, instructions: int) -> Record:
    return 6, varint(slice) + u64(tsc) + varint(instructions), slice


def ldv(slice: int, thread: int, pairs: Sequence[tuple[int, int]]) -> Record:
    return 7, varints([slice, thread, len(pairs)]) + deltas(pairs), slice


def end(a: int, b: int) -> Record:
    return 15, varints([a, b]), None


# ---- a small program -----------------------------------------------------------------------------

START, END = 1_000, 100_000
"""Stamps around the made-up program."""


def events(launches: int = 3, late: int = 0) -> list[Record]:
    """A program that launches `a` and `b` in turn: 2 warps; the second diverges in b. The last
    launch comes `late` ticks later."""
    records = [
        meta("engine", "made-up"),
        meta("warp_size", "32"),
        stamp(0, START + 10),
        program(0, origin="a.cl"),
        kernel(0, 0, "a", [5, 7]),
        kernel(1, 0, "b", [3]),
        vector(0, 0, [(0, 1), (1, 4)]),
        vector(1, 1, [(0, 32)]),
        vector(2, 1, [(0, 9)]),
        grid(0, 0, 2, [(0, 2)], 2 * (5 + 28)),
        grid(1, 1, 2, [(1, 1), (2, 1)], 3 * 41),
        SEAL,
    ]
    for i in range(launches):
        tsc = START + 1_000 * (i + 1) + (late if i == launches - 1 else 0)
        records += [
            launch(i, i % 2, tsc),
            complete(i, tsc + 300, tsc + 100, tsc + 200),
            launch_grid(i, i % 2),
        ]
    return [*records, copy(1, 4096, START + 50, START + 60, 7), end(launches, launches)]


def cpu(slices: int = 4) -> list[Record]:
    """Two threads, three blocks; thread 1 runs from slice 1 on."""
    records = [
        meta("engine", "made-up"),
        image(0, "00ff", "/bin/a"),
        thread(0, 500),
        block(0, 0, 16, 3),
        block(1, 0, 32, 10),
        SEAL,
    ]
    whole = 0
    for i in range(slices):
        own = 3 * (i + 1) + 10
        records += [bbv(i, 0, [(0, i + 1), (1, 1)], own)]
        if i == 1:
            records += [thread(1, 501), block(2, 0, 64, 1)]
        if i >= 1:
            records += [bbv(i, 1, [(2, 100)], 100)]
            own += 100
        records += [cut(i, START + 1_000 * (i + 1) + 5, own)]
        whole += own
    return [*records, end(slices, whole)]


def write_stream(path: Path, stream: int, records: Iterable[Record], closed: bool = True) -> Path:
    """`closed` False: as a killed process leaves it."""
    writer = StreamWriter(path, stream)
    for record in records:
        if record is SEAL:
            writer.seal()
        else:
            writer.put(*record)
    (writer.close if closed else writer.abandon)()
    return path


def write_process(
    folder: Path,
    events: Iterable[Record] | None,
    cpu: Iterable[Record] | None,
    closed: bool = True,
) -> Path:
    """A process's part, `folder`, with the streams given."""
    folder.mkdir(parents=True)
    for stream, records in ((EVENTS, events), (CPU, cpu)):
        if records is not None:
            write_stream(folder / FILES[stream], stream, records, closed)
    return folder


RESULT: dict[str, Any] = {
    "status": "complete",
    "pid": 77,
    "exit_code": 0,
    "signal": None,
    "tsc_start": START,
    "tsc_end": END,
    "wall_s": 1.0,
}


def add_execution(
    writer: RunWriter,
    name: str,
    role: str,
    events: Iterable[Record] | None,
    cpu: Iterable[Record] | None,
    **result: Any,
) -> None:
    """One execution of one process, number 77 on host h."""
    record = {"name": name, "role": role, "cpu_engine": "made-up", "gpu_engine": "made-up"}
    folder = writer.begin_execution({**record, "timer": "async" if role == "time" else ""})
    outcome = {**RESULT, **result}
    if events is not None or cpu is not None:
        write_process(folder / "h-77", events, cpu, closed=outcome["status"] == "complete")
    writer.end_execution(name, outcome)


def write_run(
    path: Path,
    events: Iterable[Record] | None,
    cpu: Iterable[Record] | None,
    status: str = "complete",
    role: str = "profile",
    **result: Any,
) -> Path:
    """A run directory with one execution."""
    writer = create_run(path, argv=["./app"])
    add_execution(writer, role, role, events, cpu, **{"status": status, **result})
    writer.finish(status, "" if status == "complete" else "made up")
    return path


def resume(path: Path) -> RunWriter:
    """A writer that adds executions to a finished run."""
    return RunWriter(path, read_manifest(path) | {"status": "running", "reason": ""})
