# SPDX-License-Identifier: Apache-2.0
"""Code that the engine `dynamorio` runs outside its translator."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from tests.support.compile import compile_text, opencl_program
from tests.support.cpu_programs import Profile, build, every_engine, profile
from tests.support.probes import needs_dynamorio, require_intel, require_opencl
from tests.support.run import run_text, xpuprof_text
from xpuprof.engines.base import CpuEngine
from xpuprof.engines.cpu import dynamorio
from xpuprof.engines.cpu.dynamorio import DynamoRio, has_room_for_heap, repeatable_addresses

CASES = (
    *("threads", "translated", "translated-for-good", "heap", "library", "child", "handled"),
    *("ended", "handlers", "fault", "calls-zero", "fault-handled", "fault-restored"),
    *("exits", "forks"),
)


def require_pocl_alone() -> None:
    if not require_opencl().runtime_is_native():
        pytest.skip("the machine's OpenCL driver is not PoCL alone")


@every_engine
@pytest.mark.parametrize("case", CASES)
def test_as_natively(tmp_path: Path, engine: CpuEngine, case: str) -> None:
    """GIVEN native code that allocates, loads a library, starts a program, gets a signal, sets
    handlers, faults, calls address 0, or waits while another thread exits or forks THEN output and
    exit code are the native ones, and what waits is not waited for."""
    program = build("cpu_natively")
    native = run_text([program, case])
    begun = time.monotonic()
    done = profile(engine, [program, case], tmp_path / "p").process
    assert (done.stdout, done.returncode) == (native.stdout, native.returncode)
    assert done.stderr == native.stderr
    assert time.monotonic() - begun < 50


STARTS_THREADS = """
#include <pthread.h>
int start(pthread_t *thread, void *(*work)(void *)) { return pthread_create(thread, 0, work, 0); }
"""


@every_engine
def test_library_that_starts_threads(tmp_path: Path, engine: CpuEngine) -> None:
    """GIVEN native code that loads a library, which starts a thread THEN signals are handled in the
    thread as natively, since the engine knows it."""
    library = compile_text(STARTS_THREADS, tmp_path / "libstart.so", "-shared", "-fPIC")
    command = [build("cpu_natively"), "signal-in-loaded-thread", library]
    native = run_text(command)
    done = profile(engine, command, tmp_path / "p").process
    assert (done.stdout, done.returncode) == (native.stdout, 0) == ("in its thread 1\n", 0)


def require_room_for_heap() -> None:
    if not has_room_for_heap(repeatable_addresses()):
        pytest.skip("the kernel leaves the heap of a program under DynamoRIO no room")


@needs_dynamorio
def test_heap_is_the_native_one(tmp_path: Path) -> None:
    """GIVEN native code that allocates THEN the program's memory lies in one piece, since a program
    may read beyond its own."""
    require_room_for_heap()
    program = build("cpu_natively")
    native = run_text([program, "one-heap"])
    assert native.stdout == "0 outside\n"
    done = profile(DynamoRio(), [program, "one-heap"], tmp_path / "p").process
    assert (done.stdout, done.returncode) == (native.stdout, native.returncode)


@needs_dynamorio
def test_heap_begins_at_a_page(tmp_path: Path) -> None:
    """THEN it does as natively: alignment decides how strings are copied."""
    text = "int main(void) { return (long)sbrk(0) % sysconf(_SC_PAGESIZE) != 0; }\n"
    program = compile_text(f"#define _GNU_SOURCE\n#include <unistd.h>\n{text}", tmp_path / "main")
    assert profile(DynamoRio(), [program], tmp_path / "p").process.returncode == 0


@needs_dynamorio
@pytest.mark.parametrize("case", ["heap", "library", "threads"])
def test_emulated_heap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    """GIVEN a kernel that leaves the heap no room, so that DynamoRIO emulates it THEN output and
    exit code are the native ones."""
    monkeypatch.setattr(dynamorio, "has_room_for_heap", lambda prefix: False)
    program = build("cpu_natively")
    native = run_text([program, case])
    done = profile(DynamoRio(), [program, case], tmp_path / "p").process
    assert (done.stdout, done.returncode) == (native.stdout, native.returncode)


@needs_dynamorio
def test_counts(tmp_path: Path) -> None:
    """THEN native code does not count, and what surrounds it counts as ever."""
    program = build("cpu_natively")
    part = profile(DynamoRio(), [program, "counts"], tmp_path / "p").only
    assert part.executions(program, "spin_loop") == {(0, 0): 10, (1, 0): 20}
    assert part.executions(program, "spin_within") == {}
    assert part.stream.end == (len(part.stream["cuts"]), part.total())


@needs_dynamorio
@pytest.mark.parametrize(
    ("case", "first"),
    [
        ("threads", 10),
        ("translated", 1 + 2 + 3),
        ("translated-for-good", 1 + 100 + 3),
    ],
)
def test_counts_of_what_is_translated(tmp_path: Path, case: str, first: int) -> None:
    """GIVEN native code that starts threads, or calls functions that are translated THEN those
    count alone, and all that follows where nothing may run natively any more."""
    program = build("cpu_natively")
    part = profile(DynamoRio(), [program, case], tmp_path / "p").only
    assert part.executions(program, "spin_loop") == {(0, 0): first, (1, 0): 20}


@needs_dynamorio
def test_pocl_compiles_natively(tmp_path: Path) -> None:
    """GIVEN a program on PoCL THEN its compiler and the kernels' libraries do not count, and the
    libraries that were loaded natively are named as ever."""
    require_pocl_alone()
    program = opencl_program("steps", tmp_path)
    native = run_text([program, "2", "5"])  # PoCL keeps the program's own kernel
    run = ("-q", "--cpu", "dynamorio", "-o", tmp_path / "R")
    done = xpuprof_text("profile", *run, "--", program, "2", "5")
    assert (done.stdout, done.returncode) == (native.stdout, native.returncode), done.stderr
    stream = Profile(done, tmp_path / "R" / "profile").only.stream
    paths = stream.texts(stream["images"]["path"])
    compiler = [i for i, path in enumerate(paths) if "/libclang-cpp" in path]
    assert len(compiler) == 1
    assert stream.texts(stream["images"]["build_id"])[compiler[0]]
    # Its constructors and destructors; building a program executes some 9,000 blocks.
    assert sum(row["image"] == compiler[0] for row in stream["cpu_blocks"]) < 1000
    assert not any("/kcache/" in path for path in paths)


@needs_dynamorio
def test_functions_of_the_program_count(tmp_path: Path) -> None:
    """GIVEN functions that PoCL calls at the end of builds, which run natively THEN they count, as
    the builds in them do not."""
    require_pocl_alone()
    program = opencl_program("calls_back", tmp_path)
    native = run_text([program])
    assert native.stdout == "build -11, called 2\n"
    run = ("-q", "--cpu", "dynamorio", "--start-up", "counted", "-o", tmp_path / "R")
    done = xpuprof_text("profile", *run, "--", program)
    assert (done.stdout, done.returncode) == (native.stdout, native.returncode), done.stderr
    part = Profile(done, tmp_path / "R" / "profile").only
    assert part.executions(program, "spin_loop") == {(0, 0): 1000 + 200}
    paths = part.stream.texts(part.stream["images"]["path"])
    blocks = [paths[row["image"]] for row in part.stream["cpu_blocks"]]
    assert sum("/libLLVM" in path for path in blocks) < 2000


@needs_dynamorio
@pytest.mark.parametrize("has_room", [True, False], ids=["room", "no-room"])
def test_intels_runtime_starts_natively(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_room: bool
) -> None:
    """THEN its device starts natively, unless that would move the program's heap."""
    require_intel(monkeypatch)
    if has_room:
        require_room_for_heap()
    program = opencl_program("steps", tmp_path)
    native = run_text([program, "2", "5"])
    profiling = (
        "from xpuprof.__main__ import main; from xpuprof.engines.cpu import dynamorio\n"
        f"dynamorio.has_room_for_heap = lambda prefix: {has_room}\nmain()"
    )
    options = ("-q", "--cpu", "dynamorio", "--start-up", "counted", "-o", tmp_path / "R")
    line = [sys.executable, "-c", profiling, "profile", *options, "--", program, "2", "5"]
    done = run_text(line)
    assert (done.stdout, done.returncode) == (native.stdout, native.returncode), done.stderr
    stream = Profile(done, tmp_path / "R" / "profile").only.stream
    paths = stream.texts(stream["images"]["path"])
    blocks = [paths[row["image"]] for row in stream["cpu_blocks"]]
    assert (sum("/libhwloc" in path for path in blocks) < 1000) == has_room
