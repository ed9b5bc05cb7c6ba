# SPDX-License-Identifier: Apache-2.0
"""Fuzzes the reader with damaged copies of real traces.

    tools/fuzz/reader.py [RUN ...] [--seconds 60] [--seed 1] [--keep FOLDER]

Every stream of the runs (or of a small one made up here) is damaged in a random way: bits flipped,
bytes cut out or copied elsewhere, lengths changed, the end cut off; half of the time checksums are
put right again, so that damage reaches the records. Decoder, tables and invariant checker then have
to give a result or one TraceError. Anything else, a crash of the process among them, is a finding:
the file is kept and the exit code is 1.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import struct
import sys
import tempfile
import time
from pathlib import Path

from xpuprof._bridge import lib

from xpuprof.errors import TraceError
from xpuprof.trace.boundaries import slice_ticks
from xpuprof.trace.check import check_run
from xpuprof.trace.layout import CPU
from xpuprof.trace.reader import read_process
from xpuprof.trace.run import create_run
from xpuprof.trace.streams import FILES

HEADER = struct.Struct("<IHHIIQQQ")
BATCH = 200
"""Damaged files per child process; a crash costs one child."""
Corpus = list[tuple[int, bytes]]


def corpus(runs: list[Path]) -> Corpus:
    """(kind, bytes) of every stream of the runs."""
    found = []
    for run in runs:
        for kind, name in FILES.items():
            found += [(kind, path.read_bytes()) for path in sorted(run.rglob(name))]
    if not found:
        raise SystemExit("reader.py: no stream to damage; name a run directory")
    return found


def small_run() -> Corpus:
    """The synthetic streams of the unit tests."""
    sys.path.insert(0, str(Path(__file__).parents[2]))
    from tests.support import traces

    with tempfile.TemporaryDirectory() as folder:
        run = traces.write_run(Path(folder) / "run", traces.events(20), traces.cpu(21))
        return corpus([run])


# ---- damage --------------------------------------------------------------------------------------


def flip(data: bytearray, random: random.Random) -> None:
    """A few bits."""
    for _ in range(random.choice((1, 1, 2, 8))):
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)


def overwrite(data: bytearray, random: random.Random) -> None:
    """Replaces a few bytes by extreme values of a field."""
    value = random.choice((b"\x00", b"\x7f", b"\x80", b"\xff", b"\xff" * 9 + b"\x01", b"\xff" * 8))
    at = random.randrange(len(data))
    data[at : at + len(value)] = value


def cut(data: bytearray, random: random.Random) -> None:
    """Removes some bytes from the middle."""
    at = random.randrange(len(data))
    del data[at : at + random.randrange(1, 64)]


def copy(data: bytearray, random: random.Random) -> None:
    """Copies some bytes to another place."""
    at, size, to = (random.randrange(len(data)) for _ in range(3))
    data[to:to] = data[at : at + min(size, 200)]


def truncate(data: bytearray, random: random.Random) -> None:
    """Cuts off the end."""
    del data[random.randrange(len(data)) :]


def header(data: bytearray, random: random.Random) -> None:
    """Changes one field of the first chunk's header."""
    at, size = random.choice(((0, 4), (4, 2), (6, 2), (8, 4), (12, 4), (16, 8), (24, 8)))
    data[at : at + size] = random.choice((0, 1, 2, 3, 1 << 14, -1)).to_bytes(
        8, "little", signed=True
    )[:size]


DAMAGES = (flip, flip, flip, overwrite, overwrite, cut, copy, truncate, header)


def repair(data: bytearray) -> None:
    """Corrects the checksums of all chunks that their lengths reach."""
    at = 0
    while at + HEADER.size <= len(data):
        magic, _, _, _, _, length, _, _ = HEADER.unpack_from(data, at)
        payload = bytes(data[at + HEADER.size : at + HEADER.size + length])
        if magic != 0x31545058 or len(payload) != length:
            return
        struct.pack_into("<I", data, at + 12, lib.xp_checksum(payload, length))
        at += (HEADER.size + length + 7) & ~7


def damaged(original: bytes, random: random.Random) -> bytes:
    """One damaged copy."""
    data = bytearray(original)
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        if data:
            random.choice(DAMAGES)(data, random)
    if random.random() < 0.5:
        repair(data)
    return bytes(data)


# ---- reading -------------------------------------------------------------------------------------


def read_all(run: Path, file: Path) -> None:
    """Tables (of a complete and of a partial run), slice times and checker."""
    for call in (
        lambda: read_process(file.parent, "profile", True).tables,
        lambda: read_process(file.parent, "profile", False).tables,
        lambda: slice_ticks(read_process(file.parent, "profile", True), 1, 1 << 60),
        lambda: check_run(run),
    ):
        try:
            call()
        except TraceError as error:
            if "\n" in str(error):
                raise AssertionError("the message is not one sentence") from error


def batch(streams: Corpus, seed: int, folder: Path) -> None:
    """Reads BATCH damaged files; the current one stays in `folder`."""
    random_ = random.Random(seed)
    run = folder / "run"
    writer = create_run(run, argv=["fuzz"], force=True)
    part = writer.begin_execution({"name": "profile", "role": "profile"}) / "h-1"
    part.mkdir()
    writer.end_execution("profile", {"status": "complete", "tsc_start": 1, "tsc_end": 1 << 60})
    writer.finish("complete")
    for _ in range(BATCH):
        kind, original = random_.choice(streams)
        for name in FILES.values():
            (part / name).unlink(missing_ok=True)
        file = part / FILES[kind]
        file.write_bytes(damaged(original, random_))
        read_all(run, file)


def survives(streams: Corpus, seed: int, folder: Path) -> bool:
    """Runs a batch in a child; False when it raised or crashed."""
    child = os.fork()
    if child == 0:
        try:
            batch(streams, seed, folder)
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


def main() -> int:
    """Fuzzes until the time is up."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("runs", nargs="*", type=Path)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, default=Path("fuzz-findings"))
    arguments = parser.parse_args()
    streams = corpus(arguments.runs) if arguments.runs else small_run()
    deadline, seed, findings = time.monotonic() + arguments.seconds, arguments.seed, 0
    while time.monotonic() < deadline:
        with tempfile.TemporaryDirectory() as folder:
            if not survives(streams, seed, Path(folder)):
                findings += 1
                shutil.copytree(folder, arguments.keep / f"seed-{seed}", dirs_exist_ok=True)
        seed += 1
    files = (seed - arguments.seed) * BATCH
    kinds = sum(kind == CPU for kind, _ in streams)
    print(f"{files} damaged files from {len(streams)} streams ({kinds} CPU): {findings} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
