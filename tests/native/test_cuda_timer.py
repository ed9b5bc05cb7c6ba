# SPDX-License-Identifier: Apache-2.0
"""The CUPTI timer's bookkeeping against a stand-in driver (a mock: see fake_cuda/fake_cuda.cpp).

Every launch call of the driver is issued; the test program prints what it launched, and the trace
must say the same, in the same order, whatever order the device's records come in.
"""

from __future__ import annotations

import json
import os
import re
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

import xpuprof
from tests.support.cuda_parts import SOURCES, Recorded, build, nvcc, record
from tests.support.probes import require_cpu
from tests.support.run import xpuprof_text
from xpuprof.engines.cpu.valgrind import Valgrind
from xpuprof.trace.check import check_run
from xpuprof.trace.streams import Stream

pytestmark = pytest.mark.cuda

ORDERS = [{}, {"FAKE_CUDA_SHUFFLE": "1"}, {"FAKE_CUDA_SHUFFLE": "7"}, {"FAKE_CUDA_EAGER": "1"}]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stand-in, its program and the cubin."""
    place = tmp_path_factory.mktemp("fake_cuda")
    build(place)
    return place


def completions(run: Recorded) -> dict[int, tuple[int, int]]:
    """Launch -> device start and end in TSC ticks; each launch at most once."""
    assert run.stream is not None
    rows = run.stream["completes"]
    assert len(np.unique(rows["launch"])) == len(rows)
    return {int(r["launch"]): (int(r["dev_start"]), int(r["dev_end"])) for r in rows}


def assert_durations(run: Recorded) -> None:
    """The stand-in's kernels take 100 ns a block: a completion matched to the wrong launch has the
    wrong duration."""
    assert run.stream is not None
    times = completions(run)
    launches = run.launches
    assert sorted(times) == list(range(len(launches)))
    blocks = np.array([np.prod(launch.grid) for launch in launches], dtype=float)
    ticks = np.array([times[i][1] - times[i][0] for i in range(len(launches))], dtype=float)
    per_block = ticks / blocks
    assert per_block.max() <= 1.05 * np.median(per_block)
    assert per_block.min() >= 0.95 * np.median(per_block)


@pytest.mark.parametrize("order", ORDERS, ids=["in-order", "shuffled-1", "shuffled-7", "eager"])
@pytest.mark.parametrize("scenario", ["every", "graphs"])
def test_every_launch_call_is_recorded_and_matched(
    folder: Path, tmp_path: Path, scenario: str, order: dict[str, str]
) -> None:
    """GIVEN each launch call once, or graphs of all kinds, WHEN records come in any order THEN
    launches have name, shape and device in call order, and each has its own completion."""
    run = record(folder, tmp_path / "t", scenario, **order)
    assert run.done.returncode == 0, run.done.stderr
    assert run.launches == run.expected
    assert run.stream is not None and run.stream.ended
    assert_durations(run)
    meta = run.stream.meta()
    assert meta["engine"] == "cuda"
    assert meta["kernels_without_launch"] == meta["launches_without_completion"] == "0"


def test_async_mode_adds_no_synchronisation(folder: Path, tmp_path: Path) -> None:
    """GIVEN any launches WHEN timed with async THEN the driver never waits."""
    for scenario in ("every", "graphs"):
        run = record(folder, tmp_path / scenario, scenario)
        assert "synchronised 0" in run.done.stderr


@pytest.mark.parametrize("more", [{}, {"FAKE_CUDA_OLD": "1"}], ids=["our-clock", "cuptis"])
def test_times_are_those_of_the_runs_clock(
    folder: Path, tmp_path: Path, more: dict[str, str]
) -> None:
    """GIVEN a CUPTI that takes our clock, or does not WHEN timed THEN kernels lie between their
    call and the end of the program, each with its own length."""
    run = record(folder, tmp_path / "t", "every", **more)
    assert_durations(run)
    assert run.stream is not None
    starts = run.stream["launches"]["tsc_run"].astype(np.int64)
    ends = int(run.stream.meta()["tsc_exit"])
    error = int(run.stream.meta()["device_clock_early_ticks"])
    for launch, (start, end) in completions(run).items():
        assert starts[launch] - error <= start < end <= ends + error


def test_a_step_of_the_systems_clock_stretches_no_kernel(folder: Path, tmp_path: Path) -> None:
    """GIVEN CUPTI's own clock, which steps by a second during the run WHEN timed THEN kernels have
    the length that they have without it."""
    lengths = []
    for name, more in (("stepping", {"FAKE_CUDA_STEP": "1"}), ("steady", {})):
        run = record(folder, tmp_path / name, "every", **more)
        lengths.append([end - start for start, end in completions(run).values()])
    assert np.allclose(lengths[0], lengths[1], rtol=0.05)


def test_a_capture_survives_sync_mode(folder: Path, tmp_path: Path) -> None:
    """GIVEN a launch in another stream during a capture WHEN timed with sync THEN the capture goes
    on, and all launches are as without us."""
    run = record(folder, tmp_path / "t", "graphs", timer="sync")
    assert run.done.returncode == 0, run.done.stderr
    assert run.launches == run.expected


def test_what_the_driver_does_in_our_own_calls_is_not_the_programs(
    folder: Path, tmp_path: Path
) -> None:
    """GIVEN a module that the driver loads, and starts by a kernel of its own, in the midst of one
    of our calls WHEN timed THEN the program's launches are recorded, and no others."""
    run = record(folder, tmp_path / "t", "every", FAKE_CUDA_LAZY="1")
    assert run.launches == run.expected


def test_kernels_without_time_stamps_are_counted(folder: Path, tmp_path: Path) -> None:
    """GIVEN records without stamps, as CUPTI gives when its memory for them is used up WHEN timed
    THEN these launches have no times, and their number is recorded."""
    run = record(folder, tmp_path / "t", "dense", "300", FAKE_CUDA_TIMELESS="1")
    without = [launch for launch, times in completions(run).items() if times == (0, 0)]
    assert run.stream is not None
    assert len(without) == int(run.stream.meta()["kernels_without_times"]) == 100


def test_a_forked_child_ends_by_itself(folder: Path, tmp_path: Path) -> None:
    """GIVEN a worker process that is forked after the driver started WHEN it ends THEN it calls
    nothing of CUPTI's, whose threads it has not, and leaves no record; its parent's is whole."""
    run = record(folder, tmp_path / "t", "forks")
    assert run.done.returncode == 0, run.done.stderr
    assert run.launches == run.expected
    assert run.stream is not None and run.stream.ended
    assert len(list((tmp_path / "t").glob("*/events.xpt"))) == 1


def test_sync_mode_waits_for_every_launch(folder: Path, tmp_path: Path) -> None:
    """GIVEN each launch call once WHEN timed with sync THEN every completion is seen by the host
    before the next launch."""
    run = record(folder, tmp_path / "t", "every", timer="sync")
    assert run.launches == run.expected
    assert run.stream is not None
    host = {int(r["launch"]): int(r["tsc_host"]) for r in run.stream["completes"]}
    starts = run.stream["launches"]["tsc_run"]
    calls = [i for i in range(1, len(starts)) if starts[i] != starts[i - 1]]
    assert sorted(host) == list(range(len(starts)))
    assert all(host[i - 1] <= int(starts[i]) for i in calls)
    assert int(re.findall(r"synchronised (\d+)", run.done.stderr)[0]) == len(starts)


def test_threads_streams_and_devices(folder: Path, tmp_path: Path) -> None:
    """GIVEN 4 threads on 2 devices and 8 streams WHEN they launch at once THEN numbers are dense,
    each thread's launches keep their order, and every completion finds its launch."""
    run = record(folder, tmp_path / "t", "threads", "300", FAKE_CUDA_SHUFFLE="3")
    launches = run.launches
    assert len(launches) == 1200
    order = defaultdict(list)
    for launch in launches:
        order[launch.grid[0]].append(launch)
    assert run.stream is not None
    for thread, mine in order.items():
        assert [launch.grid[1] for launch in mine] == list(range(1, 301))
        assert {launch.device for launch in mine} == {(thread - 1) % 2}
        assert [launch.kernel.startswith("plain") for launch in mine] == [
            i % 3 != 0 for i in range(1, 301)
        ]
    queues = run.stream["launches"]["queue"]
    by_thread = [set(queues[[n.grid[0] == t for n in launches]].tolist()) for t in range(1, 5)]
    assert all(len(streams) == 2 for streams in by_thread)
    assert len(set.union(*by_thread)) == 8
    assert_durations(run)


def test_dense_launches_start_after_their_call(folder: Path, tmp_path: Path) -> None:
    """GIVEN 20,000 launches in a row WHEN timed THEN none is lost, the largest lead of a start over
    its call is stated, and boundaries ascend in a stream."""
    run = record(folder, tmp_path / "t", "dense", "20000")
    assert run.stream is not None
    rows = run.stream["launches"]
    times = completions(run)
    assert len(rows) == len(times) == 20000
    meta = run.stream.meta()
    ends = np.array([times[i][1] for i in range(20000)], dtype=np.int64)
    starts = np.array([times[i][0] for i in range(20000)], dtype=np.int64)
    assert (np.diff(ends) >= 0).all()
    early = (rows["tsc_run"].astype(np.int64) - starts).max()
    assert max(early, 0) == int(meta["device_clock_early_ticks"])
    assert float(meta["clock_error_ns"]) > 0


def test_kernels_that_the_device_launches_are_noted(folder: Path, tmp_path: Path) -> None:
    """GIVEN a conditional graph node WHEN its body runs a kernel THEN it is counted without a
    number, and launches around it keep theirs."""
    run = record(folder, tmp_path / "t", "conditional")
    assert run.launches == run.expected
    assert run.stream is not None
    assert run.stream.meta()["kernels_without_launch"] == "1"


def test_launch_calls_of_the_future_are_named(folder: Path, tmp_path: Path) -> None:
    """GIVEN a CUPTI with a launch call unknown to us WHEN timed THEN the trace names it."""
    run = record(folder, tmp_path / "t", "every", FAKE_CUDA_NEWER="1")
    assert run.stream is not None
    assert run.stream.meta()["launch_calls_not_understood"] == "cuLaunchTomorrow"
    today = record(folder, tmp_path / "o", "every").stream
    assert today is not None and "launch_calls_not_understood" not in today.meta()


def test_programs_that_launch_by_themselves_are_noted(folder: Path, tmp_path: Path) -> None:
    """GIVEN a real cubin with a kernel that launches another one WHEN loaded THEN it is noted; a
    cubin without one is not."""
    source = tmp_path / "dynamic.cu"
    source.write_text(
        (SOURCES / "kernels.cu").read_text()
        + "__global__ void child(int *p) { *p = 1; }\n"
        + "__global__ void parent(int *p) { child<<<1, 1>>>(p); }\n"
    )
    nvcc("-arch=sm_90", "-rdc=true", "-cubin", str(source), "-o", str(tmp_path / "k.cubin"))
    for name in ("program", "libcuda.so.1"):
        (tmp_path / name).symlink_to(folder / name)
    for place, expected in ((tmp_path, "1"), (folder, "0")):
        run = record(place, tmp_path / expected, "exit42")
        assert run.stream is not None
        assert run.stream.meta()["programs_that_launch"] == expected


def test_a_handle_is_not_trusted_after_its_module_was_unloaded(
    folder: Path, tmp_path: Path
) -> None:
    """GIVEN a function handle that the driver gives to another kernel WHEN launched THEN the
    launch has the new kernel's name."""
    run = record(folder, tmp_path / "t", "reuse")
    assert run.launches == run.expected


def identities(stream: Stream) -> dict[str, bytes]:
    """Hash of each kernel's program, by name."""
    hashes = [bytes(row) for row in stream["programs"]["hash"]]
    names = stream.texts(stream["kernels"]["name"])
    return {
        name: hashes[program]
        for name, program in zip(names, stream["kernels"]["program"], strict=True)
    }


def test_kernels_carry_the_hash_of_their_code(folder: Path, tmp_path: Path) -> None:
    """GIVEN kernels of one cubin WHEN launched THEN each has an identity of its own, the same in
    every run; resources and copies are recorded."""
    first = record(folder, tmp_path / "a", "every").stream
    second = record(folder, tmp_path / "b", "graphs").stream
    assert first is not None and second is not None
    assert identities(first) == identities(second)
    assert len(set(identities(first).values())) == len(identities(first)) == 3
    names = first.texts(first["kernels"]["name"])
    rows = zip(first["launches"], first["resources"], strict=True)
    mangled = {"plain": 5, "void scale<float>(float*, float)": 18}
    for launch, resources in rows:
        name = names[launch["kernel"]]
        if name in mangled:
            assert resources["registers"] == 16 + mangled[name]
        assert resources["local_static"] == 512
        assert resources["private_bytes"] == 8
    assert [(int(c["direction"]), int(c["bytes"])) for c in first["copies"]] == [
        (0, 4096),
        (3, 100),
    ]


def test_exit_code_and_output_are_the_programs(folder: Path, tmp_path: Path) -> None:
    """GIVEN a program that ends with 42 WHEN timed THEN it ends with 42 and the trace is closed."""
    run = record(folder, tmp_path / "t", "exit42")
    assert run.done.returncode == 42
    assert run.launches == run.expected
    assert run.stream is not None and run.stream.ended


def test_a_killed_program_keeps_its_launches(folder: Path, tmp_path: Path) -> None:
    """GIVEN SIGKILL right after a launch WHEN read THEN the launch is there, the stream is open."""
    run = record(folder, tmp_path / "t", "killed")
    assert run.done.returncode == -9
    assert run.launches == run.expected
    assert run.stream is not None and not run.stream.ended


def test_without_cupti_the_program_runs_and_the_trace_says_why(
    folder: Path, tmp_path: Path
) -> None:
    """GIVEN no CUPTI WHEN run THEN the output is the same and the reason is recorded."""
    run = record(folder, tmp_path / "t", "every", XPUPROF_CUPTI="/nonexistent/libcupti.so")
    native = record(folder, tmp_path / "n", "every", CUDA_INJECTION64_PATH="/dev/null")
    assert run.done.returncode == 0
    assert run.done.stdout == record(folder, tmp_path / "o", "every").done.stdout
    assert native.stream is None
    assert run.stream is not None
    assert "/nonexistent/libcupti.so" in run.stream.meta()["gpu_engine_failed"]


def test_without_a_run_directory_nothing_is_recorded(folder: Path, tmp_path: Path) -> None:
    """GIVEN no XPUPROF_DIR WHEN run THEN nothing is recorded."""
    run = record(folder, tmp_path / "t", "every", XPUPROF_DIR="")
    assert run.done.returncode == 0 and run.stream is None


@pytest.mark.valgrind
@pytest.mark.parametrize("cpu", ["none", "valgrind"])
def test_the_engine_in_a_whole_run(folder: Path, tmp_path: Path, cpu: str) -> None:
    """GIVEN the stand-in's two devices WHEN `xpuprof run` uses engine cuda THEN profile and timer
    see the same 50 launches, and CPU vectors are cut at each of them."""
    if cpu == "valgrind":
        require_cpu(Valgrind())
    out = tmp_path / "run"
    options = ["--gpu", "cuda", "--cpu", cpu, "--repeat", "1", "--json", "-o", str(out)]
    program = [str(folder / "program"), str(folder / "k.cubin"), "dense", "50"]
    fake = {"LD_LIBRARY_PATH": str(folder), "XPUPROF_CUPTI": str(folder / "libcuda.so.1")}
    done = xpuprof_text("run", *options, "--", *program, environment=os.environ | fake)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["slices"] == 51
    launches = result["launches"]
    assert (launches["seen"], launches["instrumented"]) == (50, 0)
    assert sum(launches["uninstrumented"].values()) == 50
    run = xpuprof.open(out)
    profile, timed = run.profile.processes[0], run.times[0].processes[0]
    assert list(profile.launches["kernel"]) == list(timed.launches["kernel"]) == ["plain"] * 50
    assert list(profile.launches["program"]) == list(timed.launches["program"])
    assert (profile.launches["registers"] == 21).all()
    assert (timed.launches["dev_end"] > timed.launches["dev_start"]).all()
    if cpu == "valgrind":
        assert profile.cpu is not None
        assert len(np.unique(profile.cpu.slice)) >= 50


XP_LAUNCH_OUTSIDE = 4  # trace_format.h
# Launches of scenario `profiler` between its starts and stops.
STARTED = [2, 3, 4, 5, 6, 8]


def outside(run: Recorded) -> list[bool]:
    """Whether each launch was outside the window."""
    assert run.stream is not None
    return [bool(flags & XP_LAUNCH_OUTSIDE) for flags in run.stream["launches"]["flags"]]


@pytest.mark.parametrize("mode", ["profile", "time"])
def test_profiler_start_and_stop_are_markers(folder: Path, tmp_path: Path, mode: str) -> None:
    """GIVEN starts and stops by the driver's and the runtime's calls, some without effect, WHEN the
    window is cudaProfilerApi THEN it holds the launches between them, in two openings."""
    run = record(folder, tmp_path / "t", "profiler", mode=mode, XPUPROF_WINDOW="@cudaProfilerApi")
    assert run.done.returncode == 0, run.done.stderr
    assert run.launches == run.expected
    assert outside(run) == [i not in STARTED for i in range(9 + 1)]
    assert run.stream is not None
    assert run.stream["windows"]["open"].tolist() == [0, 1, 0, 1, 0]


@pytest.mark.parametrize(
    ("window", "made"), [("1@cudaProfilerApi", 7), ("2@cudaProfilerApi", 9), ("3-4", 4)]
)
@pytest.mark.parametrize("timer", ["async", "sync"])
def test_the_program_ends_after_its_window(
    folder: Path, tmp_path: Path, timer: str, window: str, made: int
) -> None:
    """GIVEN kernels that still run when their window closes and --after-window end THEN the program
    ends with exit code 0, and each of its launches has its end."""
    more = {"XPUPROF_WINDOW": window, "XPUPROF_AFTER_WINDOW": "end", "FAKE_CUDA_LATE": "1"}
    run = record(folder, tmp_path / "t", "profiler", timer=timer, **more)
    assert run.done.returncode == 0 and "came to its end" not in run.done.stderr
    assert len(run.launches) == made
    assert run.launches[: len(run.expected)] == run.expected  # the last one was not yet printed
    assert run.stream is not None and run.stream.ended
    meta = run.stream.meta()
    assert meta["ended"] == "after the window"
    assert meta["launches_without_completion"] == "0"
    assert sorted(run.stream["completes"]["launch"].tolist()) == list(range(made))


@pytest.mark.valgrind
def test_a_run_that_ends_after_its_window(folder: Path, tmp_path: Path) -> None:
    """GIVEN engine cuda and a CPU engine WHEN `xpuprof run` ends the program after its window THEN
    the run is complete and has only the window's slices."""
    require_cpu(Valgrind())
    out = tmp_path / "run"
    options = ["--window", "1@cudaProfilerApi", "--after-window", "end", "--gpu", "cuda"]
    options += ["--cpu", "valgrind", "--repeat", "1", "--json", "-o", str(out)]
    program = [str(folder / "program"), str(folder / "k.cubin"), "profiler"]
    fake = {"LD_LIBRARY_PATH": str(folder), "XPUPROF_CUPTI": str(folder / "libcuda.so.1")}
    done = xpuprof_text("run", *options, "--", *program, environment=os.environ | fake)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["status"] == "complete", done.stderr
    assert result["window"]["ended"] and result["launches"]["seen"] == 5
    assert check_run(out).violations == []
