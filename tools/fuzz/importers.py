# SPDX-License-Identifier: Apache-2.0
"""Fuzzes everything that reads files: importers, results, selections, manifests, streams.

    tools/fuzz/importers.py [TARGET ...] [--seconds 60 | --runs N] [--seed 1] [--keep FOLDER]
                            [--streams RUN]

Small files in the tools' formats are damaged: bytes flipped and cut, numbers and names replaced
by what a reader may not expect (nothing, text, infinity, 400 digits), lines and rows repeated,
databases changed by SQL, half of them packed and damaged again; half of the streams (small ones
made up here, and those of RUN) get correct checksums, so that damage reaches the records. Each file
has to give slices that can be trusted, or one error of ours in one sentence. A traceback, a crash,
more than SLOWEST seconds, or more than 1 GiB of memory beside the libraries' is a finding: the file
is kept and the exit code is 1.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import re
import resource
import shutil
import signal
import sqlite3
import struct
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path

os.environ |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}  # threads reserve memory
sys.path.insert(0, str(Path(__file__).parents[2]))

import numpy as np
from xpuprof._bridge import lib

from tests.support import profiles, traces
from tests.support.paths import DATA
from tests.support.runs_made_up import made_up_run, select_by_kernel
from xpuprof.errors import TraceError, XpuprofError
from xpuprof.formats.registry import all_importers, recognised
from xpuprof.formats.results import read_results
from xpuprof.inputs import Source
from xpuprof.selection.document import _checksum
from xpuprof.selection.selection import Selection
from xpuprof.trace.boundaries import slice_ticks
from xpuprof.trace.check import check_run
from xpuprof.trace.imported import ImportedSlices, ImportWriter
from xpuprof.trace.reader import read_process
from xpuprof.trace.run import Run
from xpuprof.trace.run_writer import create_run
from xpuprof.trace.streams import FILES

MEMORY = 1 << 30
SLOWEST = 30
LARGEST = 1 << 20
"""Bytes of a damaged text before the next change."""
HEADER = struct.Struct("<4sHHIIQQQ")
FAST = Path("/dev/shm")
BATCH = 250
"""Files that a child process reads; a crash costs one child."""
RARE = 0.02
"""Share of files that get a value of thousands of characters, which takes longer to read."""

NASTY = (
    b"", b"-", b"0", b"-1", b"nan", b"inf", b"-inf", b"1e999", b"1e300", b"8589934592", b"x",
    b"9223372036854775808", b"18446744073709551616", b"null", b"[]", b"{}", b"[1]", b'{"a": 1}',
    b'"', b'""', b"true", b"\\ud800", b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b",", b":", b"\n",
    b"1.5", b"0x10", b"1_0", b"\xd9\xa1", b"9" * 400,
)  # fmt: skip
LONG = (
    b"9" * 5000,
    b"[" * 50_000,
    b'{"a":' * 20_000,
    b"\n" * 100_000,
    b" " * 200_000,
    b"1," * 30_000,
)
VALUES: tuple[object, ...] = (
    None, "x", "", b"\xff", 1.5, float("inf"), -1, 0, 1 << 33, (1 << 63) - 1, -(1 << 63), 1 << 31,
)  # fmt: skip
VIEW = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT"
_TOKEN = re.compile(rb'[-+.\w]+|"[^"\n]*"')


# ---- what is read --------------------------------------------------------------------------------


def read_import(form: str, path: Path, folder: Path) -> None:
    """Recognises and imports a file; the stored run must be valid."""
    source = Source(path)
    importer = all_importers()[form] if form else recognised(source)
    run = folder / "run"
    shutil.rmtree(run, ignore_errors=True)
    with ImportWriter(run) as writer:
        importer.load(source, writer)
    slices = ImportedSlices(run)
    table = slices.table()
    for name in ("call", "gx", "gy", "gz", "lx", "ly", "lz"):
        assert name not in table or not len(table) or table[name].min() >= 0, name
    for name in ("time", "gpu_time", "cpu_time", "cycles"):
        if name in slices.metrics:
            values = np.asarray(slices.column(name))
            assert np.isfinite(values).all() and (values >= 0).all(), name
    for side in ("cpu", "gpu"):
        matrix = slices.vectors(side)
        assert matrix is None or np.isfinite(matrix.data).all()


def read_manifest(path: Path) -> None:
    """Opens a run directory whose manifest is `path`."""
    shutil.copy(path, path.parent / "manifest.json")
    Run.open(path.parent)


def read_selected(path: Path, resealed: bool) -> None:
    """Reads a selection; half of them with a corrected checksum."""
    if resealed:
        text = path.read_text(encoding="utf-8", errors="replace")
        try:
            document = json.loads(text)
            document.pop("checksum", None)
        except (ValueError, RecursionError, AttributeError):
            document = None
        if isinstance(document, dict):
            try:
                text = json.dumps(document | {"checksum": _checksum(document)})
            except ValueError:  # not a finite number
                return
        Selection.parse(text, str(path))
    else:
        Selection.read(path)


def read_recorded(path: Path, folder: Path, name: str) -> None:
    """Tables (of a complete and of a partial run), slice times and checker, of one stream."""
    run = folder / "recorded"
    if not run.exists():
        writer = create_run(run, argv=["fuzz"])
        (writer.begin_execution({"name": "profile", "role": "profile"}) / "h-1").mkdir()
        writer.end_execution("profile", {"status": "complete", "tsc_start": 1, "tsc_end": 1 << 60})
        writer.finish("complete")
    part = run / "profile" / "h-1"
    shutil.copy(path, part / name)
    readers: tuple[Callable[[], object], ...] = (
        lambda: read_process(part, "profile", True).tables,
        lambda: read_process(part, "profile", False).tables,
        lambda: slice_ticks(read_process(part, "profile", True), 1, 1 << 60),
        lambda: check_run(run),
    )
    errors = []
    for reader in readers:
        try:
            reader()
        except TraceError as error:
            errors.append(error)
    if errors:
        raise errors[0]


@dataclass(frozen=True)
class Target:
    """Inputs of one reader, and the reader: path, folder to work in, a draw."""

    inputs: tuple[bytes, ...]
    read: Callable[[Path, Path, random.Random], None]
    suffix: str = ""
    packed: bool = False
    database: bool = False
    chunks: bool = False
    """A stream, of chunks with checksums."""


def targets(folder: Path, recorded: Path) -> dict[str, Target]:
    """Every reader with its small real files."""
    selection = select_by_kernel(made_up_run(["a", "b", "a", "b", "a"]))

    def importing(
        form: str, *inputs: bytes, suffix: str = "", packed: bool = True, database: bool = False
    ) -> Target:
        def read(path: Path, work: Path, draw: random.Random) -> None:
            read_import(form if draw.random() < 0.8 else "", path, work)

        return Target(inputs, read, suffix, packed, database)

    trace = json.dumps({"schemaVersion": 1, "traceEvents": profiles.EVENTS}).encode()
    results = profiles.ACCELSIM.format(first=1, name="a").encode()
    dump = profiles.gem5_dump(100, 200, "0.5") + profiles.gem5_dump(50, 50, "0.1")
    rows = b"region,cycles,ipc\n1,100,0.5\n2,200,1.5\n3,1,0\n"
    listed = json.dumps([{"region": i, "cycles": 10 * i} for i in (1, 2, 3)]).encode()
    counters = profiles.COUNTERS
    named = b"kernel,call,x\na,1,2\nb,1,3\nSYS_exit,1,0\n"

    def resulting(path: Path, _: Path, draw: random.Random) -> None:
        read_results([str(path) if draw.random() < 0.8 else f"1={path}"], selection)

    writer = create_run(folder / "made", argv=["./app"])
    writer.begin_execution({"name": "profile", "role": "profile"})
    writer.end_execution("profile", {"status": "complete", "tsc_start": 1, "tsc_end": 1 << 60})
    writer.finish("complete")
    manifest = (folder / "made" / "manifest.json").read_bytes()
    return {
        "nsys": importing("nsys", _database(folder), suffix=".sqlite", packed=False, database=True),
        "rocpd": importing(
            "rocpd",
            profiles.rocpd(folder / "beside.db", False).read_bytes(),
            profiles.rocpd(folder / "apart.db", True).read_bytes(),
            profiles.counted_rocpd(folder / "counted.db", ["a", "b"]).read_bytes(),
            packed=False,
            database=True,
        ),
        "mgpusim": importing(
            "mgpusim",
            profiles.mgpusim(folder / "mgpusim.db").read_bytes(),
            packed=False,
            database=True,
        ),
        "rocprofv3": importing("rocprofv3", profiles.ROCPROF.encode(), profiles.COUNTERS.encode()),
        "rocprof-compute": importing(
            "rocprof-compute", (DATA / "rocprof-compute-pmc_perf.csv").read_bytes()
        ),
        "gpgpusim": importing("gpgpusim", profiles.GPGPUSIM.encode(), results),
        "chakra": importing("chakra", profiles.CHAKRA, suffix=".et"),
        "ncu": importing("ncu", profiles.RAW.encode(), profiles.DETAILS.encode()),
        "nvprof": importing("nvprof", profiles.NVPROF.encode()),
        "kineto": importing("kineto", trace, json.dumps(profiles.EVENTS).encode()),
        "simpoint": importing("simpoint", b"# x\nT:1:5 :2:7\nT:3:1\nT\n", suffix=".bb"),
        "xpupoint": Target(
            (profiles.CPU.encode(), profiles.GPU.encode(), profiles.TIMER.encode()), _in_folder
        ),
        "csv": importing(
            "csv", b"kernel;time_us;gridx;x\na;1.5;3;7\nb;2;1;8\n", b"name,dur_us\na,1\n"
        ),
        "parquet": importing("csv", *_parquet(folder), suffix=".parquet", packed=False),
        "results": Target(
            (results, dump.encode(), rows, named, listed, counters.encode()), resulting, packed=True
        ),
        "selection": Target(
            tuple(_selections(selection)), lambda p, _, d: read_selected(p, d.random() < 0.7)
        ),
        "manifest": Target((manifest,), lambda p, _, __: read_manifest(p)),
        **{
            name: Target(
                tuple(path.read_bytes() for path in sorted(recorded.rglob(name))),
                lambda p, work, _, name=name: read_recorded(p, work, name),  # type: ignore[misc]
                chunks=True,
            )
            for name in FILES.values()
        },
    }


def _selections(selection: Selection) -> list[bytes]:
    data = Path(__file__).parents[2] / "tests" / "unit" / "data"
    kept = [path.read_bytes() for path in sorted(data.glob("selection-v*.json"))]
    return [selection.text().encode(), *kept]


def _database(folder: Path) -> bytes:
    kernels = [(10 * i, 10 * i + 5, 0, 7, i % 2 + 1, profiles.PID) for i in range(1, 9)]
    return profiles.nsight(folder / "nsys.sqlite", kernels).read_bytes()


def _parquet(folder: Path) -> list[bytes]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        return []
    table = pa.table({"kernel": ["a", "b", "a"], "time_ns": [1.0, 2.0, 3.0], "x": [1, None, 3]})
    pq.write_table(table, folder / "t.parquet")
    return [(folder / "t.parquet").read_bytes()]


def _in_folder(path: Path, work: Path, draw: random.Random) -> None:
    """Puts the damaged file into an intact folder."""
    folder = work / "reference"
    shutil.rmtree(folder, ignore_errors=True)
    profiles.reference(folder)
    name = draw.choice(("T.0.bb", "T.1.bb", "thread.bbv", "timer.txt"))
    shutil.copy(path, folder / name)
    read_import("xpupoint", folder, work)


# ---- damage --------------------------------------------------------------------------------------


def damaged_bytes(data: bytes, draw: random.Random) -> bytes:
    """A few flips, cuts and copies."""
    result = bytearray(data)
    for _ in range(draw.choice((1, 1, 2, 4))):
        at = draw.randrange(len(result) + 1)
        kind = draw.randrange(5)
        if kind == 0 and at < len(result):
            result[at] ^= 1 << draw.randrange(8)
        elif kind == 1:
            del result[at : at + draw.randrange(1, 200)]
        elif kind == 2:
            start = draw.randrange(len(result) + 1)
            result[at:at] = result[start : start + draw.randrange(1, 200)]
        elif kind == 3:
            value = draw.choice((b"\x00", b"\x7f", b"\x80", b"\xff" * 8, b"\xff" * 9 + b"\x01"))
            result[at : at + len(value)] = value
        else:
            del result[at:]
    return bytes(result)


def mended(data: bytes) -> bytes:
    """A stream with correct checksums in all chunks that its lengths reach."""
    result, at = bytearray(data), 0
    while at + HEADER.size <= len(result):
        magic, _, _, _, _, length, _, _ = HEADER.unpack_from(result, at)
        payload = bytes(result[at + HEADER.size : at + HEADER.size + length])
        if magic != b"XPT1" or len(payload) != length:
            break
        struct.pack_into("<I", result, at + 12, lib.xp_checksum(payload, length))
        at += (HEADER.size + length + 7) & ~7
    return bytes(result)


def damaged_text(data: bytes, draw: random.Random) -> bytes:
    """Tokens replaced, lines repeated, moved or removed."""
    for _ in range(draw.choice((1, 1, 1, 2, 5))):
        data = data[:LARGEST]
        tokens = list(_TOKEN.finditer(data))
        if tokens and draw.random() < 0.7:
            one = draw.choice(tokens)
            value = draw.choice(LONG if draw.random() < RARE else NASTY)
            if draw.random() < 0.2:
                value = draw.choice(tokens)[0]
            data = data[: one.start()] + value + data[one.end() :]
        else:
            lines = data.splitlines(keepends=True) or [b""]
            at, other = draw.randrange(len(lines)), draw.randrange(len(lines))
            lines[at : at + draw.randrange(2)] = [lines[other]] * draw.choice((0, 1, 1, 2, 50))
            data = b"".join(lines)
    return data


def damaged_database(data: bytes, path: Path, draw: random.Random) -> None:
    """Values, columns and tables changed by SQL."""
    path.write_bytes(data)
    database = sqlite3.connect(path)
    try:
        for _ in range(draw.choice((1, 1, 2, 4))):
            tables = [r[0] for r in database.execute("SELECT name FROM sqlite_master")]
            table = draw.choice(tables)
            columns = [r[1] for r in database.execute(f"PRAGMA table_info({table})")]
            column = draw.choice(columns)
            rows = draw.choice(("1", "rowid = 1", "rowid % 2"))
            kind = draw.randrange(8)
            if kind < 4:
                value = draw.choice(VALUES)
                database.execute(f"UPDATE {table} SET {column} = ? WHERE {rows}", (value,))
            elif kind == 4:
                value = draw.choice((1 << 33, -5, (1 << 62) + 1))
                database.execute(f"UPDATE {table} SET rowid = rowid + {value} WHERE {rows}")
            elif kind == 5:
                database.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
            elif kind == 6:
                database.execute(f"DELETE FROM {table} WHERE {rows}")
            else:
                names = ", ".join(f"i AS {name}" for name in columns)
                database.execute(f"DROP TABLE {table}")
                database.execute(f"CREATE VIEW {table} AS {VIEW} {names} FROM n")
        database.commit()
    except (sqlite3.Error, OverflowError, IndexError):
        pass  # not every change is possible after earlier ones
    finally:
        database.close()


def write_damaged(target: Target, path: Path, draw: random.Random) -> None:
    """One damaged file."""
    data = draw.choice(target.inputs)
    if target.database and draw.random() < 0.7:
        damaged_database(data, path, draw)
        return
    raw = target.database or target.chunks or target.suffix == ".et"
    binary = raw or data[:4] == b"PAR1"
    text = not binary and draw.random() < 0.8
    data = damaged_text(data, draw) if text else damaged_bytes(data, draw)
    if target.chunks and draw.random() < 0.5:
        data = mended(data)
    if target.packed and draw.random() < 0.3:
        data = gzip.compress(data, 1)
        data = damaged_bytes(data, draw) if draw.random() < 0.5 else data
    path.write_bytes(data)


# ---- running -------------------------------------------------------------------------------------


def read_one(target: Target, path: Path, folder: Path, draw: random.Random) -> bool:
    """Reads a file; whether it was refused. Raises whatever is not an error of ours."""
    signal.alarm(SLOWEST)
    try:
        target.read(path, folder, draw)
    except XpuprofError as error:
        assert "\n" not in str(error).replace(str(path), ""), "the message is not one sentence"
        return True
    finally:
        signal.alarm(0)
    return False


def batch(target: Target, name: str, seed: int, size: int, folder: Path) -> int:
    """Reads `size` damaged files, the one under way lies in `folder`; returns how many were
    refused."""
    refused = 0
    for number in range(size):
        draw = random.Random(f"{name} {seed} {number}")
        path = folder / f"input{target.suffix}"
        write_damaged(target, path, draw)
        refused += read_one(target, path, folder, draw)
    return refused


def _mapped() -> int:
    """Bytes of address space taken by the libraries."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * resource.getpagesize()


def survives(run: Callable[[], int]) -> tuple[bool, int]:
    """Runs in a child limited to MEMORY; whether it succeeded, and its counts."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        most = MEMORY + _mapped()
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        try:
            os.write(write_end, str(run()).encode())
        except BaseException:
            sys.excepthook(*sys.exc_info())
            sys.stderr.flush()
            os._exit(1)
        os._exit(0)
    os.close(write_end)
    status = os.waitpid(child, 0)[1]
    said = os.read(read_end, 64)
    os.close(read_end)
    return status == 0, int(said or b"0")


def main() -> int:
    """Fuzzes until the time or the number of files is reached."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("targets", nargs="*", metavar="TARGET")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--runs", type=int, help="files, instead of --seconds")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, default=Path("fuzz-findings"))
    parser.add_argument("--streams", type=Path, metavar="RUN", help="damage this run's streams")
    arguments = parser.parse_args()
    if FAST.is_dir():
        tempfile.tempdir = str(FAST)  # most of the time goes into making files
    with tempfile.TemporaryDirectory() as made:
        recorded = arguments.streams or traces.write_run(
            Path(made) / "streams", traces.events(20), traces.cpu(21)
        )
        known = {n: t for n, t in targets(Path(made), recorded).items() if t.inputs}
        for name, target in known.items():  # loads what they need before children are made
            sound = Path(made) / f"sound-{name}{target.suffix}"
            sound.write_bytes(target.inputs[0])
            read_one(target, sound, Path(made), random.Random(1))
        if unknown := set(arguments.targets) - known.keys():
            parser.error(f"no target {unknown.pop()}; choose from {', '.join(known)}")
        return fuzz({n: known[n] for n in arguments.targets or known}, arguments)


def fuzz(known: dict[str, Target], arguments: argparse.Namespace) -> int:
    """Runs batches of every target in turn; 1 when there is a finding."""
    start, findings = time.monotonic(), 0
    done = dict.fromkeys(known, 0)
    refused = dict.fromkeys(known, 0)
    size = min(BATCH, -(-arguments.runs // len(known))) if arguments.runs else BATCH

    def over() -> bool:
        if arguments.runs:
            return sum(done.values()) >= arguments.runs
        return time.monotonic() - start > arguments.seconds

    order = ((name, seed) for seed in count(arguments.seed) for name in known)
    # Ctrl-C and `timeout` also end with the table.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with suppress(KeyboardInterrupt):
        while not over():
            name, seed = next(order)
            with tempfile.TemporaryDirectory() as folder:
                work = Path(folder)
                ok, number = survives(partial(batch, known[name], name, seed, size, work))
                if not ok:
                    findings += 1
                    print(f"FINDING in {name}, seed {seed}", file=sys.stderr, flush=True)
                    kept = arguments.keep / f"{name}-{seed}"
                    shutil.copytree(folder, kept, dirs_exist_ok=True)
            done[name] += size
            refused[name] += number
    seconds = time.monotonic() - start
    for name in known:
        print(f"{name:10} {done[name]:8} files, {refused[name]:8} refused")
    total = sum(done.values())
    print(f"{total} files in {seconds:.0f} s ({total / seconds:.0f} a second): {findings} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
