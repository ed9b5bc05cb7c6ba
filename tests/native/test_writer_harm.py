"""Whatever a program does to its descriptors, folders, rights and limits: its files and its exit
code stay its own, and the trace is whole or says that it is not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.cpu_programs import build, command, every_engine
from tests.support.run import run_text
from xpuprof.engines.base import CpuEngine
from xpuprof.errors import TraceError
from xpuprof.trace.layout import CPU, EVENTS
from xpuprof.trace.reader import process_folders
from xpuprof.trace.run import create_run
from xpuprof.trace.streams import Stream, StreamWriter, read_stream, varints

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


def failures(folder: Path) -> list[str]:
    """The lines of `failures/`, without the process."""
    lines = [line for file in (folder / "failures").iterdir() for line in file.open()]
    return [line.rstrip("\n").partition(" ")[2] for line in lines]


def execution(tmp_path: Path) -> Path:
    """An execution's folder as the launcher makes it."""
    folder = tmp_path / "execution"
    (folder / "failures").mkdir(parents=True)
    (folder / "failures").chmod(0o1777)
    return folder


@pytest.mark.parametrize("how", HARMLESS)
def test_runtime_stream_is_whole(tmp_path: Path, how: str) -> None:
    """GIVEN a program that closes, replaces or limits what it has in the middle of its launches
    THEN the trace holds all of them, and nothing else was written to."""
    needs_rights(how)
    folder, own = execution(tmp_path), tmp_path / "own"
    environment = {"XPUPROF_DIR": str(folder), "XPUPROF_MODE": "profile"}
    line = [str(build("writer_harm")), how, str(own), str(LAUNCHES)]
    assert_unharmed(line, environment, own, how)
    (stream,) = streams(folder, EVENTS, "events.xpt")
    assert stream.ended and stream.end == (LAUNCHES, LAUNCHES)
    assert stream["launches"]["launch"].tolist() == list(range(LAUNCHES))
    assert failures(folder) == []


@every_engine
@pytest.mark.parametrize("how", HARMLESS)
def test_cpu_stream_is_whole(tmp_path: Path, engine: CpuEngine, how: str) -> None:
    """As above, of a CPU engine's stream."""
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
    """GIVEN a writer that ends without closing THEN the end of the execution cuts its file, also
    while the writer lives."""
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
