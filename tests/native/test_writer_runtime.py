# SPDX-License-Identifier: Apache-2.0
"""The runtime (boundary bus and trace writer) in real processes, read back by the reader."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from tests.support import boundary_abi
from tests.support.run import python
from xpuprof.trace.check import check_run
from xpuprof.trace.clock import tsc, tsc_hz
from xpuprof.trace.reader import process_folders, read_process
from xpuprof.trace.run import Run
from xpuprof.trace.run_writer import create_run
from xpuprof.trace.tables import Process

LIBRARY = str(files("xpuprof") / "_native" / "libxpuprof_rt.so")
pytestmark = pytest.mark.skipif(not Path(LIBRARY).exists(), reason="libxpuprof_rt is not built")


def command(launches: int, ending: str, forks: str) -> list[str]:
    return [sys.executable, boundary_abi.__file__, LIBRARY, str(launches), ending, forks]


def record(path: Path, launches: int, ending: str = "return", forks: str = "none") -> Run:
    """Runs the stand-in program under a new run directory, as the launcher does."""
    writer = create_run(path, argv=["stand-in"])
    folder = writer.begin_execution({"name": "profile", "role": "profile"})
    environment = os.environ | {"XPUPROF_DIR": str(folder), "XPUPROF_MODE": "profile"}
    start = tsc()
    ended = subprocess.run(command(launches, ending, forks), env=environment)
    end = tsc()
    status = "complete" if ended.returncode == 0 else "partial"
    pid = next((p.name.rpartition("-")[2] for p in folder.iterdir()), 0)
    result = {"status": status, "tsc_start": start, "tsc_end": end, "pid": int(pid)}
    writer.end_execution("profile", result)
    writer.finish(status)
    return Run.open(path)


def processes(run: Run) -> list[Process]:
    assert run.profile is not None
    return run.profile.processes


def assert_is_the_program(process: Process, launches: int) -> None:
    """Slices and counts match those from launch_all."""
    slices = process.slices.iloc[:launches]
    even = np.arange(launches) % 2 == 0
    assert slices["kernel"].tolist() == ["even" if e else "odd" for e in even]
    assert slices["call"].tolist() == (np.arange(launches) // 2 + 1).tolist()
    assert slices["gx"].tolist() == (64 + np.arange(launches)).tolist()
    assert slices["warps"].tolist() == np.where(even, 6, 8).tolist()
    wanted = np.where(even, 6 * 2 + 5 * 5 * np.arange(launches), 8 * 9 * 7)
    assert slices["gpu_instructions"].tolist() == wanted.tolist()


@pytest.mark.parametrize("launches", [0, 1, 7, 5000])
def test_what_the_runtime_was_told_comes_back(tmp_path: Path, launches: int) -> None:
    run = record(tmp_path / "run", launches)
    (process,) = processes(run)
    assert process.complete
    assert len(process.slices) == launches + 1
    assert_is_the_program(process, launches)
    assert process.meta["engine"] == "stand-in"
    assert check_run(run.path).violations == []


def test_warps_keep_their_order(tmp_path: Path) -> None:
    (process,) = processes(record(tmp_path / "run", 3))
    gpu = process.gpu
    assert gpu is not None
    grid = int(gpu.launch_grid[2])
    runs = slice(int(gpu.grid_start[grid]), int(gpu.grid_start[grid + 1]))
    warps = np.repeat(gpu.run_vector[runs], gpu.run_length[runs].astype(int))
    vectors = [
        dict(
            zip(
                gpu.block[gpu.vector_start[v] : gpu.vector_start[v + 1]].tolist(),
                gpu.count[gpu.vector_start[v] : gpu.vector_start[v + 1]].tolist(),
                strict=True,
            )
        )
        for v in warps.tolist()
    ]
    assert vectors == [{0: 1, 1: 2}] * 3 + [{0: 1}] + [{0: 1, 1: 2}] * 2


def test_identical_launches_share_their_vectors(tmp_path: Path) -> None:
    """The odd launches of 5,000 are all alike: one vector, one grid."""
    (process,) = processes(record(tmp_path / "run", 5000))
    assert process.gpu is not None
    assert len(set(process.gpu.launch_grid[1::2].tolist())) == 1
    assert len(process.gpu.grid_start) - 1 == 2501


@pytest.mark.parametrize("launches", [1, 200, 5000])
def test_a_program_that_kills_itself_leaves_every_slice(tmp_path: Path, launches: int) -> None:
    run = record(tmp_path / "run", launches, "kill")
    (process,) = processes(run)
    assert run.status == "partial"
    assert not process.complete
    assert len(process.slices) == launches
    assert_is_the_program(process, launches)
    assert check_run(run.path).violations == []


def test_sigkill_at_any_moment(tmp_path: Path) -> None:
    """GIVEN a program that launches in a loop WHEN it is killed at a random moment THEN every
    launch reported before is there and complete, and nothing is invented."""
    random.seed(5)
    for attempt in range(8):
        writer = create_run(tmp_path / str(attempt), argv=["stand-in"])
        folder = writer.begin_execution({"name": "profile", "role": "profile"})
        environment = os.environ | {"XPUPROF_DIR": str(folder), "XPUPROF_MODE": "profile"}
        with subprocess.Popen(
            command(0, "forever", "none"), env=environment, stdout=subprocess.PIPE
        ) as child:
            assert child.stdout is not None
            told = child.stdout.readline()
            time.sleep(random.uniform(0, 0.3))
            child.kill()
            told += child.stdout.read()
        last = int(told[: told.rindex(b"\n")].split()[-1])
        writer.end_execution("profile", {"status": "partial", "signal": 9})
        writer.finish("partial", "killed")
        (process,) = processes(Run.open(writer.path))
        assert last + 1 <= len(process.slices) <= last + 2
        assert_is_the_program(process, len(process.slices))
        assert check_run(writer.path).violations == []


def test_exit_without_clean_up_keeps_everything(tmp_path: Path) -> None:
    (process,) = processes(record(tmp_path / "run", 300, "_exit"))
    assert process.complete  # nothing is outstanding
    assert len(process.slices) == 301
    assert_is_the_program(process, 300)


@pytest.mark.parametrize(("forks", "parts"), [("idle", 1), ("device", 2)])
def test_a_forked_child_has_a_part_of_its_own(tmp_path: Path, forks: str, parts: int) -> None:
    """A child without device work leaves no part; the parent's stream continues."""
    run = record(tmp_path / "run", 4, forks=forks)
    found = processes(run)
    assert len(found) == parts
    parent = max(found, key=lambda p: len(p.launches))
    assert len(parent.launches) == 5
    assert_is_the_program(parent, 4)
    assert parent.complete
    for child in found:
        if child is not parent:
            assert child.meta["ppid"] == parent.meta["pid"]
            assert_is_the_program(child, 2)
    assert check_run(run.path).violations == []


def test_another_clock_can_be_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As without an invariant counter, every stamp is from CLOCK_MONOTONIC_RAW."""
    monkeypatch.setenv("XPUPROF_CLOCK", "monotonic_raw")
    tsc_hz.cache_clear()
    before = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
    run = record(tmp_path / "run", 5)
    after = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
    tsc_hz.cache_clear()
    assert run.manifest["clock"]["source"] == "monotonic_raw"
    assert run.manifest["clock"]["tsc_hz"] == 1e9
    (process,) = processes(run)
    assert process.launches["tsc_run"].between(before, after).all()
    assert check_run(run.path).violations == []


def test_without_a_folder_the_runtime_is_inert(tmp_path: Path) -> None:
    environment = {k: v for k, v in os.environ.items() if k != "XPUPROF_DIR"}
    assert subprocess.run(command(5, "return", "none"), env=environment).returncode == 0


def test_a_folder_that_cannot_be_written_harms_nobody(tmp_path: Path) -> None:
    environment = os.environ | {"XPUPROF_DIR": str(tmp_path / "missing" / "folder")}
    assert subprocess.run(command(5, "return", "none"), env=environment).returncode == 0
    assert list(tmp_path.iterdir()) == []


def test_a_limit_on_file_size_harms_nobody(tmp_path: Path) -> None:
    environment = os.environ | {"XPUPROF_DIR": str(tmp_path)}
    shell = ["sh", "-c", 'ulimit -f 64; exec "$@"', "sh", *command(20_000, "return", "none")]
    ended = subprocess.run(shell, env=environment, capture_output=True)
    assert ended.returncode == 0, ended.stderr


def test_a_full_disk_harms_nobody(tmp_path: Path) -> None:
    """GIVEN a file system of 512 KB WHEN the trace outgrows it THEN the program continues, and the
    part that was written can be read."""
    disk, kept = tmp_path / "disk", tmp_path / "kept"
    disk.mkdir()
    probe = ["unshare", "-rm", "mount", "-t", "tmpfs", "tmpfs", str(disk)]
    if subprocess.run(probe, capture_output=True).returncode:
        pytest.skip("no file system can be mounted here (unshare -rm)")
    script = (
        f'mount -t tmpfs -o size=512k tmpfs {disk}; "$@"; status=$?; cp -r {disk} {kept}; '
        "exit $status"
    )
    environment = os.environ | {"XPUPROF_DIR": str(disk)}
    program = command(40_000, "return", "none")
    shell = ["unshare", "-rm", "sh", "-c", script, "sh", *program]
    assert subprocess.run(shell, env=environment).returncode == 0
    (part,) = process_folders(kept)
    process = read_process(part, "profile", complete=False)
    assert not process.complete
    assert 1000 < len(process.slices) < 40_000
    assert_is_the_program(process, len(process.slices))


FULL = """
import pathlib, sys
from tests.support.boundary_abi import Runtime, launch_all
runtime = Runtime(sys.argv[1])
runtime.init()
launch_all(runtime, 20000)
pathlib.Path(sys.argv[2]).touch()
launch_all(runtime, 20000)
"""


def test_a_full_place_ends_the_stream_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIVEN a program under way WHEN the launcher says that the traces have their size THEN the
    stream ends at a whole chunk, without END and without a failure, and a later process writes
    none."""
    monkeypatch.setenv("XPUPROF_DIR", str(tmp_path))
    monkeypatch.setenv("XPUPROF_MODE", "profile")
    python(FULL, LIBRARY, str(tmp_path / "full"))
    (part,) = process_folders(tmp_path)
    process = read_process(part, "profile", complete=False)
    assert not process.complete and 20_000 <= len(process.slices) < 40_000
    assert_is_the_program(process, 20_000)
    assert subprocess.run(command(5, "return", "none")).returncode == 0
    assert process_folders(tmp_path) == [part] and not (tmp_path / "failures").exists()


RESIDENT = """
import re, sys
from tests.support.boundary_abi import Runtime, launch_all
runtime = Runtime(sys.argv[1])
runtime.init()
for launches in (1, 1000, 20000):
    launch_all(runtime, launches)
    [text] = re.findall(r"events.xpt(?:.*\\n)+?Rss: *(\\d+) kB", open("/proc/self/smaps").read())
    print(text)
"""


def test_the_stream_takes_memory_page_by_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIVEN more and more launches THEN no launch pays for a whole chunk: after the first, only the
    pages that hold records are resident; over many chunks, never more than a chunk's."""
    monkeypatch.setenv("XPUPROF_DIR", str(tmp_path))
    monkeypatch.setenv("XPUPROF_MODE", "profile")
    first, more, most = map(int, python(RESIDENT, LIBRARY).split())
    assert first <= 8 < more <= most <= 264


SHORT = """
import resource, sys
from tests.support.boundary_abi import Runtime, launch_all
runtime = Runtime(sys.argv[1])
runtime.init()
launch_all(runtime, 10)
many = [1] * 600_000

def leave(room):
    [held] = [int(n.split()[1]) for n in open("/proc/self/status") if n.startswith("VmSize")]
    resource.setrlimit(resource.RLIMIT_AS, (held * 1024 + room, resource.RLIM_INFINITY))
"""

KERNEL = """
leave(25_000_000)  # the call needs 17 MB and the blocks that are kept as many
large = runtime.kernel(0, "large", many)
small = runtime.kernel(0, "small", [7])
runtime.counts(runtime.run(large, 64), large, [many], [(0, 2)])
"""


def test_a_kernel_without_memory_ends_the_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIVEN a program that leaves no memory for a kernel's blocks THEN the stream ends and says so:
    the launches that follow are not taken for those of another kernel."""
    process = recorded_short(tmp_path, monkeypatch, KERNEL)
    assert not process.complete
    assert_is_the_program(process, 10)
    assert process.slices["kernel"].tolist() == ["even", "odd"] * 5
    [said] = (tmp_path / "failures").iterdir()
    assert os.readlink(said).endswith(" there is no memory for the blocks of a kernel")


COUNTS = """
single = [[1]] * 600_000
last = runtime.run(1, 64)
leave(17_000_000)  # the call needs 15 MB and keeps 10, the numbers of the vectors need 10
runtime.counts(last, 1, single, [(0, 2)])
runtime.counts(runtime.run(1, 64), 1, [[9]], [(0, 8)])
"""


def test_counts_without_memory_are_missed_in_one_launch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIVEN a program that leaves no memory for a launch's counts THEN that launch says so, and the
    next one is counted."""
    process = recorded_short(tmp_path, monkeypatch, COUNTS)
    assert process.complete
    launches = process.launches.iloc[10:]
    assert launches["reason"].tolist() == ["there is no memory for its counts", ""]
    assert process.slices["gpu_instructions"].tolist()[10:12] == [0, 504]


def recorded_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, then: str) -> Process:
    """What was recorded of a program that launches ten kernels and then is short of memory."""
    (tmp_path / "failures").mkdir()
    monkeypatch.setenv("XPUPROF_DIR", str(tmp_path))
    monkeypatch.setenv("XPUPROF_MODE", "profile")
    python(SHORT + then, LIBRARY)
    (part,) = process_folders(tmp_path)
    return read_process(part, "profile", complete=False)


REGISTERED = """
import ctypes, sys
from tests.support.boundary_abi import Runtime, launch_all
runtime = Runtime(sys.argv[1])
kind = ctypes.CFUNCTYPE(None, ctypes.c_uint64, ctypes.c_void_p)
callback = kind(lambda slice, user: print(slice, user))
runtime.lib.xpu_register_cut(callback, ctypes.c_void_p(7))
runtime.init()
launch_all(runtime, 3)
"""


def test_a_tool_may_register_for_cuts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN a callback of a CPU tool in the process THEN each launch calls it once, with the slice
    that ends and the tool's own pointer."""
    monkeypatch.setenv("XPUPROF_DIR", str(tmp_path))
    assert python(REGISTERED, LIBRARY).split("\n")[:3] == ["0 7", "1 7", "2 7"]
