# SPDX-License-Identifier: Apache-2.0
"""Writes the seed inputs of the native fuzzers to one folder per target: `corpus.py FOLDER`.

Streams hold every kind of record; messages are those of the tests."""

from __future__ import annotations

import struct
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.support import traces
from xpuprof.trace.streams import FILES

MAGIC = b"XPI1"


EVENTS: list[traces.Record] = [
    *traces.events(5)[:-1],
    traces.window(0, True, traces.START, "begin"),
    traces.resources(1, 32, 1024, 0, 16),
    traces.lanes(1, 128),
    traces.device_ldv(1, [(0, 7), (63, 2)], 20, 10, (4, 2), 1),
    traces.host(2, 4096, traces.START, traces.END),
    traces.uncounted(2, "it failed"),
    traces.end(5, 5),
]
CPU: list[traces.Record] = [
    *traces.cpu(6)[:-1],
    traces.ldv(2, 0, [(1, 9), (63, 4)]),
    traces.cpu(6)[-1],
]


def streams() -> list[bytes]:
    """Streams of a small run; the leading byte is for the target `stream`."""
    with tempfile.TemporaryDirectory() as folder:
        run = traces.write_run(Path(folder) / "run", EVENTS, CPU)
        return [
            bytes([first]) + path.read_bytes()
            for number, name in enumerate(FILES.values())
            for path in sorted(run.rglob(name))
            for first in (number, 2 + number)
        ]


def empty_chunk() -> bytes:
    """A stream whose only chunk is sealed and holds no record."""
    return struct.pack("<4sHHIIQQQ", b"XPT1", 1, 1, 2, 0, 0, 0, 0)


def text(data: bytes) -> bytes:
    return struct.pack("<Q", len(data)) + data


def request() -> bytes:
    """A request of one program with a header and a constant (clinst_protocol.h)."""
    part = struct.pack("<I", 0) + text(b"kernel void k() {}") + text(b"-DN=7")
    part += struct.pack("<I", 1) + text(b"n.h") + text(b"#define N 3")
    part += struct.pack("<II", 1, 5) + text(b"\0\0\0\0")
    device = struct.pack("<I", 1) + text(b"version") + text(b"120")
    return MAGIC + struct.pack("<II", 0, 0) + device + struct.pack("<I", 1) + part


def response() -> bytes:
    """A response with one kernel: a block, a probe, an expression, an access."""
    kernel = text(b"k") + struct.pack("<II", 2, 1) + struct.pack("<I12H", 9, *range(12))
    kernel += struct.pack("<II", 1, 0) + struct.pack("<IIii", 1, 1, 0, 1)
    kernel += struct.pack("<I5IQ", 1, 0, 32, 0, 0, 0, 7) + struct.pack("<I3I", 1, 0, 0, 32)
    kernel += struct.pack("<IIIII", 1, 3, 0, 1, 0)
    behind = bytes(4) + text(b"said") + bytes(4) + text(b"k:8")
    return MAGIC + text(b"") + text(b"BC") + struct.pack("<I", 1) + kernel + behind


def pairs(*values: float) -> bytes:
    return b"".join(struct.pack("<Bd", number % 7, value) for number, value in enumerate(values))


CORPUS: dict[str, list[bytes]] = {
    "stream": [*streams(), b"\0" + empty_chunk()],
    "writer": [b"\2\3abc\0\0\2\5hello", b"\xff\x40" + bytes(64) + b"\0\0\2\1x"],
    "frequency": [b"T:1:100 :2:1.5 :3:1e6\n# said\nT\nT :7:0\n", b"T:18446744073709551615:1"],
    "clustering": [pairs(*range(64)), pairs(*[1.0, 0.0, float("inf"), -1e308] * 8)],
    # The last took a time that grows exponentially.
    "kernel_spec": [
        b"gemm.*\0gemm",
        b"[\x12[\xff^\xff#\xff\x89-|]++*++++++\xff",
        b"2-8@k{1,2},-4,7-\0k1",
        b"[[:alpha:]]+(a|b)*\0ab",
        b"k{1993991993991993}\0k",
        rb"(\(\622222262222262222622662222662",
    ],
    # The third announces 2^25 blocks that do not follow.
    "request": [request(), response(), response().replace(b"k\2\0\0\0\1", b"k\2\0\0\0\0\0\0\2")],
}


def main(folder: Path) -> None:
    for target, inputs in CORPUS.items():
        (folder / target).mkdir(parents=True, exist_ok=True)
        for number, data in enumerate(inputs):
            (folder / target / f"first-{number}").write_bytes(data)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
