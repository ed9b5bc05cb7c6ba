# SPDX-License-Identifier: Apache-2.0
"""The NVBit tool's host side against a stand-in for NVBit and the driver (a mock: see
fake_nvbit/fake_nvbit.cpp). Needs a kit's headers (NVBIT_ROOT), no GPU."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import xpuprof
from tests.support.cuda_parts import cuda_include
from tests.support.grids import vectors
from tests.support.paths import BUILT as NATIVE
from tests.support.paths import ROOT
from tests.support.run import output, run_text
from xpuprof.methods import pka, sieve
from xpuprof.methods.recorded import from_process
from xpuprof.trace.check import check_run
from xpuprof.trace.clock import tsc
from xpuprof.trace.layout import EVENTS
from xpuprof.trace.run_writer import create_run
from xpuprof.trace.streams import Stream, read_stream

pytestmark = [pytest.mark.cuda, pytest.mark.slow]

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tool's own sources, compiled as plain C++ around the stand-in."""
    kit, include = os.environ.get("NVBIT_ROOT"), cuda_include()
    runtime = NATIVE / "libxpuprof_rt.so"
    if not kit or include is None or not runtime.exists():
        pytest.skip("NVBIT_ROOT, CUDA's headers or libxpuprof_rt.so are missing; see docs/nvbit.md")
    out = tmp_path_factory.mktemp("nvbit") / "program"
    tool = ROOT / "native" / "gpu" / "nvbit"
    names = ("functions", "buffers", "calls", "classes", "reader", "sass")
    parts = ["tool.cu", *(f"{name}.cpp" for name in names)]
    sources = [str(HERE / "fake_nvbit" / "fake_nvbit.cpp"), *(str(tool / part) for part in parts)]
    sources.append(str(ROOT / "native" / "gpu" / "cuda" / "cubin.cpp"))
    folders = [f"-I{ROOT}/native/{part}" for part in ("gpu/nvbit", "gpu/cuda", "include")]
    system = ["-isystem", f"{kit}/core", "-isystem", str(include)]
    host = [f"-D__{word}__=" for word in ("device", "noinline", "global")]
    link = ["-x", "none", str(runtime), f"-Wl,-rpath,{NATIVE}", "-lpthread", "-o", str(out)]
    command = ["g++", "-std=c++17", "-O1", "-w", *host, "-x", "c++", *sources, *folders, *system]
    output([*command, *link])
    return out


@dataclass(frozen=True)
class Ran:
    """The counts of the stand-in's device (vectors; lane instructions), and the trace."""

    expected: list[tuple[str, np.ndarray]]
    lanes: list[int]
    stream: Stream
    errors: str


def run(program: Path, out: Path, in_flight: int, **environment: str) -> Ran:
    """Runs it; the last `in_flight` launches complete only when waited for."""
    out.mkdir()
    settings = {**os.environ, "XPUPROF_DIR": str(out), "XPUPROF_MODE": "profile", **environment}
    done = run_text([program, in_flight], environment=settings, check=True)
    expected, lanes = [], []
    for line in done.stdout.splitlines():
        name, warps, lane_instructions, *counts = line.split()
        lanes.append(int(lane_instructions))
        expected.append((name, np.array(counts, np.uint64).reshape(int(warps), -1)))
    (events,) = out.glob("*/events.xpt")
    return Ran(expected, lanes, read_stream(events, EVENTS), done.stderr)


def assert_exact(ran: Ran) -> None:
    """Every launch is there, in order, with the device's vectors."""
    names = ran.stream.texts(ran.stream["kernels"]["name"])
    launches = ran.stream["launches"]
    assert [names[k] for k in launches["kernel"]] == [name for name, _ in ran.expected]
    for launch, (_, counts) in enumerate(ran.expected):
        found = vectors(ran.stream, launch)
        assert found is not None and np.array_equal(found, counts), launch
    assert ran.stream["lanes"]["instructions"].tolist() == ran.lanes
    meta = ran.stream.meta()
    assert meta["counts_without_place"] == meta["launches_not_read"] == "0"


@pytest.mark.parametrize("host_memory", [True, False])
@pytest.mark.parametrize("in_flight", [0, 3, 1000])
def test_every_launch_has_its_own_vectors(
    program: Path, tmp_path: Path, in_flight: int, host_memory: bool
) -> None:
    """GIVEN launches of kernels that share called functions, failed and captured ones, graphs WHEN
    none, some or all are in flight, and small launches are read by the host or like large ones
    (without page-locked memory) THEN each launch's vectors are exact, warp by warp."""
    more = {} if host_memory else {"FAKE_NO_HOST_MEMORY": "1"}
    ran = run(program, tmp_path / "t", in_flight, **more)
    assert len(ran.expected) == LAUNCHES
    assert_exact(ran)


def test_thread_level_counts_are_an_option(program: Path, tmp_path: Path) -> None:
    """GIVEN count unit lane WHEN run THEN a block counts once for each active lane."""
    ran = run(program, tmp_path / "t", 3, XPUPROF_COUNT_UNIT="lane")
    assert ran.stream.meta()["count_unit"] == "lane"
    weights = ran.stream["gpu_blocks"]["instructions"].astype(np.uint64)
    for launch, expected in enumerate(ran.lanes):
        found = vectors(ran.stream, launch)
        assert found is not None
        kernel = ran.stream["kernels"][ran.stream["launches"]["kernel"][launch]]
        own = slice(int(kernel["first_block"]), int(kernel["first_block"] + kernel["n_blocks"]))
        assert int((found * weights[own]).sum()) == expected


def test_a_launch_whose_counts_cannot_be_read_says_so(program: Path, tmp_path: Path) -> None:
    """GIVEN an event that the driver does not record, so that nobody knows when its launch is over
    WHEN run THEN that launch has the reason in place of its counts, and no other."""
    ran = run(program, tmp_path / "t", 3, FAKE_FAILING_EVENT="20")
    told = ran.stream["uncounted"]
    assert ran.stream.texts(told["reason"]) == ["its counts could not be read"]
    counted = ran.stream["launch_grids"]["launch"].tolist()
    assert sorted([*counted, *told["launch"].tolist()]) == list(range(LAUNCHES))
    assert ran.stream.meta()["launches_not_read"] == "1"


def test_a_launch_beyond_the_memory_limit_says_what_it_needs(program: Path, tmp_path: Path) -> None:
    """GIVEN a limit below what one launch needs WHEN it is launched THEN it runs uninstrumented,
    the reason gives bytes and remedy, and the vectors of all others are exact."""
    ran = run(program, tmp_path / "t", 3, XPUPROF_COUNTER_MEMORY="1")
    reasons = ran.stream.texts(ran.stream["launches"]["reason"])
    row = len(ran.expected[1][1][0]) + 1  # branchy's
    needed = 40000 * row * 8
    assert reasons[:-1] == [""] * (LAUNCHES - 1)
    assert re.fullmatch(rf"its counters take {needed + 48} bytes, .*MEMORY.*", reasons[-1])
    for launch, (_, counts) in enumerate(ran.expected[:-1]):
        assert np.array_equal(vectors(ran.stream, launch), counts), launch


def test_kernels_that_are_not_chosen_run_uninstrumented(program: Path, tmp_path: Path) -> None:
    """GIVEN a kernel specification WHEN launched THEN only its launches have vectors, the others
    say why they have none."""
    ran = run(program, tmp_path / "t", 3, XPUPROF_KERNELS="10-12@plain")
    reasons = ran.stream.texts(ran.stream["launches"]["reason"])
    names = [name for name, _ in ran.expected]
    plain = [i for i, name in enumerate(names) if name == "plain"]
    assert [i for i, reason in enumerate(reasons) if not reason] == plain[9:12]
    assert set(reasons) == {"", "left out by --kernels"}
    for launch in plain[9:12]:
        assert np.array_equal(vectors(ran.stream, launch), ran.expected[launch][1])


LAUNCHES = 40 * 3 + 3 * 4 + 10 + 1
STARTED = range(9, 21)
"""Launches of the stand-in between its cuProfilerStart and cuProfilerStop."""


def assert_exact_inside(ran: Ran, inside: range) -> None:
    """Launches of the window have their vectors, the others say that they are outside."""
    reasons = ran.stream.texts(ran.stream["launches"]["reason"])
    for launch, reason in enumerate(reasons):
        found = vectors(ran.stream, launch)
        assert reason == ("" if launch in inside else "outside the window")
        assert (found is not None) == (launch in inside)
        if found is not None:
            assert np.array_equal(found, ran.expected[launch][1]), launch


def test_profiler_start_and_stop_are_markers(program: Path, tmp_path: Path) -> None:
    """GIVEN cuProfilerStart, twice, and cuProfilerStop WHEN the window is cudaProfilerApi THEN the
    launches between have vectors, and no others."""
    ran = run(program, tmp_path / "t", 3, XPUPROF_WINDOW="@cudaProfilerApi")
    assert len(ran.expected) == LAUNCHES
    assert_exact_inside(ran, STARTED)


@pytest.mark.parametrize(
    ("window", "inside"), [("1@cudaProfilerApi", STARTED), ("3-5", range(2, 5))]
)
def test_the_program_ends_after_its_window(
    program: Path, tmp_path: Path, window: str, inside: range
) -> None:
    """GIVEN launches in flight when their window closes and --after-window end THEN the program
    ends with exit code 0, and their vectors are complete."""
    more = {"XPUPROF_WINDOW": window, "XPUPROF_AFTER_WINDOW": "end"}
    ran = run(program, tmp_path / "t", 1000, **more)
    assert ran.stream.ended and ran.stream.meta()["ended"] == "after the window"
    assert "ended by itself" not in ran.errors
    assert len(ran.stream["launches"]) == inside.stop
    assert ran.stream.meta()["launches_not_read"] == "0"
    assert_exact_inside(ran, inside)


# The stand-in's kernels, own blocks first: instructions, and which of them access memory.
BLOCKS = {
    "plain": [(4, "global_loads global_stores atomics")],
    "noded": [(2, "global_loads")],
    "twin": [(2, "global_loads"), (1, ""), (1, "")],
    "branchy": [
        (1, ""),
        (1, ""),
        (1, ""),
        (1, ""),
        (1, ""),
        (4, "shared_loads shared_stores"),
    ],
    "caller": [
        (1, ""),
        (1, ""),
        (2, ""),
        (1, ""),
        (1, ""),
        (4, "shared_loads shared_stores"),
    ],
}


def record_run(program: Path, path: Path, **environment: str) -> tuple[Ran, Path]:
    """A run directory of the tool."""
    writer = create_run(path, force=False, argv=["stand-in"], seed=1)
    record = {"name": "profile", "role": "profile", "cpu_engine": "none", "gpu_engine": "nvbit"}
    folder = writer.begin_execution({**record, "timer": ""})
    folder.rmdir()
    began = {"tsc_start": tsc()}
    ran = run(program, folder, 3, **environment)
    ended = {"status": "complete", "exit_code": 0, "signal": None, "pid": 1, "wall_s": 1.0}
    writer.end_execution("profile", {**ended, **began, "tsc_end": tsc()})
    writer.finish("complete")
    return ran, path


def test_inputs_of_pka_and_sieve_come_from_the_same_run(program: Path, tmp_path: Path) -> None:
    """GIVEN a run of the tool WHEN read THEN instructions, loads, stores, atomics and divergence
    efficiency of each launch follow from counts and code, and both methods select."""
    ran, path = record_run(program, tmp_path / "run")
    assert check_run(path).violations == []

    process = xpuprof.open(tmp_path / "run").profile.processes[0]
    times = np.concatenate([[float(counts.sum()) for _, counts in ran.expected], [0.0]])
    profile = from_process(process, times)
    for launch, ((name, counts), lanes) in enumerate(zip(ran.expected, ran.lanes, strict=True)):
        expected: dict[str, int] = {}
        for (length, accesses), times_executed in zip(
            BLOCKS[name], counts.sum(axis=0).tolist(), strict=True
        ):
            instructions = expected.get("gpu_instructions", 0) + length * times_executed
            expected["gpu_instructions"] = instructions
            for access in accesses.split():
                expected[access] = expected.get(access, 0) + times_executed
        for metric, value in expected.items():
            assert profile.metrics[metric][launch] == value, (launch, name, metric)
        efficiency = lanes / max(32 * expected["gpu_instructions"], 1)
        assert profile.metrics["divergence_efficiency"][launch] == pytest.approx(efficiency)
    chosen = pka.select(profile)
    assert "divergence efficiency" not in chosen.scores.own["missing_metrics"]
    assert "thread global atomics" not in chosen.scores.own["missing_metrics"]
    assert chosen.representatives
    total = sum(r.weight for r in sieve.select(profile).representatives)
    assert total == pytest.approx(1.0)
