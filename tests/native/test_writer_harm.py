# SPDX-License-Identifier: Apache-2.0
"""Whatever a program does to its descriptors, folders, privileges and limits, its files and exit
code are unaffected, and the trace is complete or says that it is not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cpu_programs import build, command, every_engine, execution, failures
from tests.support.run import run_text
from tests.support.streams import StreamWriter, varints
from xpuprof.engines.base import CpuEngine
from xpuprof.errors import TraceError
from xpuprof.launch.losses import losses
from xpuprof.trace.layout import CPU, EVENTS
from xpuprof.trace.losses import DISK_FULL
from xpuprof.trace.reader import process_folders
from xpuprof.trace.run_writer import create_run
from xpuprof.trace.streams import Stream, read_stream

HARMLESS = ["close-range", "close-each", "dup-over", "chdir", "chroot", "setuid", "file-size"]
HARMLESS += ["memory", "descriptors", "clear", "none"]
LAUNCHES = 20_000
"""Enough for several chunks before and after."""


def needs_rights(how: str) -> None:
    if how.endswith(("chroot", "setuid")) and os.geteuid():
        pytest.skip("only root may change its root folder or its user")


def assert_unharmed(line: list[str], environment: dict[str, str], own: Path, how: str) -> None:
    """The program ends as it does alone, and its file holds what it wrote."""
    done = run_text(line, environment=environment)
    assert (done.returncode, done.stdout, done.stderr) == (5, f"{how}\n", "")
    assert own.read_bytes() == b"m" * (2500 * 4096)


def streams(folder: Path, kind: int, name: str) -> list[Stream]:
    return [read_stream(part / name, kind) for part in process_folders(folder)]


@pytest.mark.parametrize("how", HARMLESS)
def test_runtime_stream_is_whole(tmp_path: Path, how: str) -> None:
    """GIVEN a program that closes, replaces or limits its resources between its launches THEN the
    trace holds all launches, and no other file was written."""
    needs_rights(how)
    folder, own = execution(tmp_path), tmp_path / "own"
    environment = {"XPUPROF_DIR": str(folder), "XPUPROF_MODE": "profile"}
    line = [str(build("writer_harm")), how, str(own), str(LAUNCHES)]
    assert_unharmed(line, environment, own, how)
    (stream,) = streams(folder, EVENTS, "events.xpt")
    assert stream.ended and stream.end == (LAUNCHES, LAUNCHES)
    assert stream["launches"]["launch"].tolist() == list(range(LAUNCHES))
    assert failures(folder) == []


def test_settings_are_read_before_the_program_clears_them(tmp_path: Path) -> None:
    """GIVEN a program that clears its environment before its first launch THEN it is recorded."""
    folder, own = execution(tmp_path), tmp_path / "own"
    assert_unharmed(
        [str(build("writer_harm")), "before-clear", str(own), "10"],
        {"XPUPROF_DIR": str(folder)},
        own,
        "before-clear",
    )
    (stream,) = streams(folder, EVENTS, "events.xpt")
    assert stream.end == (10, 10)


FULL = f"{DISK_FULL}, or the run has ended; make room, or name another folder"
LIMIT = "its trace has reached the limit on file sizes"
LOST = {
    "before-setuid": "the process may not write into the run directory",
    "before-file-size": LIMIT,
    "before-half-size": LIMIT,
    "exec": "it executed another program or loaded our library twice (dlmopen), and the first "
    "trace is kept",
    "full": FULL,
    "full-old-kernel": FULL,
}

WITHOUT_POPULATE = """
import ctypes as c, os, struct, sys
# madvise(.., .., MADV_POPULATE_WRITE) gives EINVAL, as before Linux 5.14
steps = [(0x20, 0, 0, 0), (0x15, 0, 3, 28), (0x20, 0, 0, 32), (0x15, 0, 1, 23),
         (0x06, 0, 0, 0x00050016), (0x06, 0, 0, 0x7FFF0000)]
code = b"".join(struct.pack("HBBI", *step) for step in steps)
class Filter(c.Structure):
    _fields_ = [("length", c.c_ushort), ("code", c.c_char_p)]
libc = c.CDLL(None)
libc.prctl(38, 1, 0, 0, 0)
assert libc.prctl(22, 2, c.byref(Filter(len(steps), code))) == 0
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.mark.parametrize("how", LOST)
def test_lost_streams_are_reported(open_path: Path, how: str) -> None:
    """GIVEN a stream that cannot be opened or extended THEN the program ends as it does alone, the
    stream has no END, and failures/ has the reason."""
    needs_rights(how)
    folder, own, kept = execution(open_path), open_path / "own", open_path / "kept"
    act = "none" if how.startswith("full") else how
    line = [str(build("writer_harm")), act, str(own), str(LAUNCHES)]
    if how == "full-old-kernel":
        line = [sys.executable, "-c", WITHOUT_POPULATE, *line]
    script = f'"$@"; status=$?; cp -r {folder} {kept}; exit $status'
    if act == "none":
        disk = ["unshare", "-rm", "sh", "-c"]
        mount = f"mount -t tmpfs -o size=400k tmpfs {folder}"
        if subprocess.run([*disk, mount], capture_output=True).returncode:
            pytest.skip("no file system can be mounted here (unshare -rm)")
        line = [*disk, f"{mount}; mkdir -m 1777 {folder}/failures; {script}", "sh", *line]
    else:
        line = ["sh", "-c", script, "sh", *line]
    environment = {"PATH": os.environ["PATH"], "XPUPROF_DIR": str(folder)}
    assert_unharmed(line, environment, own, "none" if how == "exec" else act)
    assert failures(kept) == [LOST[how]]
    for stream in streams(kept, EVENTS, "events.xpt"):
        assert not stream.ended
        assert len(stream["launches"]) > (1000 if how != "exec" else 9999)


def test_a_process_without_access_tells_the_launchers_socket(tmp_path: Path) -> None:
    """GIVEN a process in another root folder at its first launch THEN the socket gets the
    reason."""
    needs_rights("chroot")
    folder, own = execution(tmp_path), tmp_path / "own"
    line = [str(build("writer_harm")), "before-chroot", str(own), "10"]
    (tmp_path / "lost").mkdir()
    with losses(tmp_path / "lost") as signs:
        environment = {"XPUPROF_DIR": str(folder)} | signs.environment
        assert_unharmed(line, environment, own, "before-chroot")
        (told,) = signs.sentences()
    assert told.endswith("could not record: the process cannot reach the run directory")


@every_engine
@pytest.mark.parametrize("how", HARMLESS)
def test_cpu_stream_is_whole(tmp_path: Path, engine: CpuEngine, how: str) -> None:
    """As above, for a CPU engine's stream."""
    needs_rights(how)
    folder, own = execution(tmp_path), tmp_path / "own"
    line, environment = command(engine, [build("writer_harm"), how, own, 8000], folder)
    if how == "memory":
        pytest.skip("the engine's own memory is beyond such a limit")
    assert_unharmed(line, environment, own, how)
    (stream,) = streams(folder, CPU, "cpu.xpt")
    assert stream.ended
    assert stream["cuts"]["slice"].tolist() == list(range(8001))
    assert failures(folder) == []


def test_a_killed_writer_leaves_no_hole(tmp_path: Path) -> None:
    """GIVEN a writer that ends without closing THEN its file is truncated at the end of the
    execution, even while the writer lives."""
    run = create_run(tmp_path / "run", argv=["stand-in"])
    folder = run.begin_execution({"name": "profile", "role": "profile"}) / "host-1"
    folder.mkdir()
    writer = StreamWriter(folder / "cpu.xpt", CPU)
    writer.put(4, varints([0, 1]))
    assert (folder / "cpu.xpt").stat().st_size > 1 << 30
    run.end_execution("profile", {"status": "partial"})
    assert (folder / "cpu.xpt").stat().st_size < 1 << 20
    writer.put(4, varints([1, 1]))
    assert len(read_stream(folder / "cpu.xpt", CPU)["threads"]) == 2
    with pytest.raises(TraceError, match="cannot be written"):  # beyond what it has mapped
        for number in range(2, 1 << 20):
            writer.put(4, varints([number, 1]))
