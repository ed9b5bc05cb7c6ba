# SPDX-License-Identifier: Apache-2.0
"""Runs of millions of launches, made by numpy: no record is written one by one.

Every number that differs between records is a varint of five bytes, so that records are rows of one
dtype.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from xpuprof._bridge import lib

from tests.support import traces
from tests.support.run import python
from tests.support.streams import text, varint, varints
from xpuprof.selection.selection import Marker, Representative, Selection
from xpuprof.trace.coordinates import JobRow
from xpuprof.trace.layout import CPU, EVENTS, TAGS
from xpuprof.trace.run_writer import create_run
from xpuprof.trace.streams import FILES

KERNELS = 5
WARPS, INSTRUCTIONS = 2, 22
"""Per launch."""
CHUNK = 4096
"""Launches a chunk."""

_EVENT, _CPU = TAGS[EVENTS], TAGS[CPU]


def _numbers(values: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
    """Varints of five bytes."""
    digits = (values[:, None] >> (7 * np.arange(5))) & 0x7F
    encoded: npt.NDArray[np.uint8] = (digits | np.array([128, 128, 128, 128, 0])).astype(np.uint8)
    return encoded


def _rows(size: int, tag: int, fields: str, **columns: Any) -> bytes:
    """Records of one kind; `fields`: name:format, by default a varint of five bytes."""
    pairs = [field.partition(":") for field in f"tag:u1 length:u1 {fields}".split()]
    dtype = np.dtype([(name, kind or "5u1") for name, _, kind in pairs])
    rows = np.zeros(size, dtype)
    rows["tag"], rows["length"] = tag, dtype.itemsize - 2
    for name, values in columns.items():
        rows[name] = values
    return rows.tobytes()


class _Chunks:
    def __init__(self, path: Path, stream: int) -> None:
        self._file = path.open("wb")
        self._stream = stream

    def put(self, payload: bytes) -> None:
        """A sealed chunk."""
        head = (b"XPT1", self._stream, 1, 2, lib.xp_checksum(payload, len(payload)))
        self._file.write(struct.pack("<4sHHIIQQQ", *head, len(payload), 0, 0))
        self._file.write(payload + bytes(-len(payload) % 8))

    def close(self, *end: int) -> None:
        """Writes END and completes the file."""
        body = varints(end)
        self.put(bytes([_EVENT["END"]]) + varint(len(body)) + body)
        self._file.close()


def _one(record: traces.Record) -> bytes:
    tag, body, _ = record
    return bytes([tag]) + varint(len(body)) + body


def _events(path: Path, launches: int, grids: bool, device: bool) -> None:
    out = _Chunks(path, EVENTS)
    head = [traces.program(0)]
    for k in range(KERNELS):
        head += [traces.kernel(k, 0, f"kernel{k}", [3, 4]), traces.vector(k, k, [(0, 1), (1, 2)])]
    out.put(b"".join(map(_one, head)))
    sizes = np.frombuffer(varints([64, 1, 1, 32, 1, 1, 0, 0, 0, 0, 0, 0]), "u1")
    for first in range(0, launches, CHUNK):
        number = np.arange(first, min(first + CHUNK, launches))
        size, kernel, name = len(number), number % KERNELS, _numbers(number)
        out.put(
            _rows(
                size,
                _EVENT["LAUNCH"],
                "n kernel:u1 dimensions:u1 sizes:12u1 tsc:<u8 flags:u1 reason:u1",
                n=name,
                kernel=kernel,
                dimensions=1,
                sizes=sizes,
                tsc=2 * number + traces.START,
                flags=int(grids),
            )
            + _rows(
                size,
                _EVENT["COMPLETE"],
                "n host:<u8 start:<u8 end:<u8",
                n=name,
                host=2 * number + traces.START + 1,
                start=device * (2 * number + traces.START),
                end=device * (2 * number + traces.START + 1),
            )
            + (_grids(size, name, kernel) if grids else b"")
        )
    out.close(launches, launches * grids)


def _grids(size: int, name: npt.NDArray[np.uint8], kernel: npt.NDArray[np.int64]) -> bytes:
    return _rows(
        size,
        _EVENT["GRID_VECTOR"],
        "n kernel:u1 warps:u1 runs:u1 vector:u1 run:u1 instructions:<u8",
        n=name,
        kernel=kernel,
        warps=WARPS,
        runs=1,
        vector=kernel,
        run=WARPS,
        instructions=INSTRUCTIONS,
    ) + _rows(size, _EVENT["LAUNCH_GRID"], "n grid", n=name, grid=name)


def _cpu(path: Path, slices: int) -> None:
    out = _Chunks(path, CPU)
    image = varint(0) + text("00") + text("/bin/made-up")
    head = [(_CPU["IMAGE"], image, None), (_CPU["BLOCK"], varints([0, 0, 16, 3]), None)]
    out.put(b"".join(map(_one, [*head, (_CPU["THREAD"], varints([0, 0]), None)])))
    pair = np.frombuffer(varints([0, 2]), "u1")
    for first in range(0, slices, CHUNK):
        number = np.arange(first, min(first + CHUNK, slices))
        size, name = len(number), _numbers(number)
        out.put(
            _rows(
                size,
                _CPU["BBV"],
                "n thread:u1 pairs:u1 sum:u1 pair:2u1",
                n=name,
                pairs=1,
                sum=6,
                pair=pair,
            )
            + _rows(
                size,
                _CPU["CUT"],
                "n tsc:<u8 sum:u1",
                n=name,
                tsc=2 * number + traces.START + 1,
                sum=6,
            )
        )
    out.close(slices, 6 * slices)


def write_long_run(
    path: Path, launches: int, roles: Sequence[str] = ("profile",), *, cpu: bool = True
) -> Path:
    """A run directory with an execution for each role. Every launch of a profile has its own grid
    and, with `cpu`, its own CPU vector; in the others it has neither. Without `cpu` the device
    stamped every launch."""
    writer = create_run(path, argv=["./app"])
    for number, role in enumerate(roles):
        name = role if role == "profile" else f"{role}-{number}"
        with_cpu = cpu and role == "profile"
        engine = "made-up" if with_cpu else "none"
        record = {"name": name, "role": role, "cpu_engine": engine, "gpu_engine": "made-up"}
        part = writer.begin_execution(record) / "h-77"
        part.mkdir()
        _events(part / FILES[EVENTS], launches, role == "profile", device=not cpu)
        if with_cpu:
            _cpu(part / FILES[CPU], launches + 1)
        end = traces.START + 2 * launches + 10
        writer.end_execution(name, {**traces.RESULT, "tsc_start": traces.START - 1, "tsc_end": end})
    writer.finish("complete")
    return path


def write_long_selection(path: Path, launches: int) -> Path:
    """A selection of two slices from such a run, in whose labels no two neighbours are equal."""
    labels = (np.arange(launches + 1) % 2).astype(np.int32)
    chosen = [
        Representative(JobRow(i), Marker(f"kernel{i}", 1), None, i, (launches + 1) / 2, 0.5)
        for i in (0, 1)
    ]
    Selection("made-up", {}, 1, tuple(chosen), labels).write(path)
    return path


COMMAND = "from xpuprof.__main__ import main; main()"
_PEAK = """
import atexit, sys
def tell():
    with open("/proc/self/status") as status:  # ru_maxrss is inherited from the parent process
        sys.stdout.write("\\n" + next(line.split()[1] for line in status if "VmHWM" in line))
atexit.register(tell)
sys.argv[0] = "xpuprof"
"""


def peak_memory(code: str, *arguments: object) -> tuple[list[str], int]:
    """The words that a piece of Python prints, and the memory in bytes that it took at most."""
    *words, peak = python(_PEAK + code, *arguments, timeout=7200.0).split()
    return words, 1024 * int(peak)
