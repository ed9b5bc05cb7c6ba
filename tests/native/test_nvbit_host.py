"""The NVBit tool's host side against a stand-in for NVBit and the driver (a mock: see
fake_nvbit/fake_nvbit.cpp). Needs a kit's headers (NVBIT_ROOT), no GPU."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from cuda_parts import NATIVE, cuda_include

from xpuprof.trace.streams import EVENTS, Stream, read_stream

pytestmark = [pytest.mark.cuda, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tool's own sources, compiled as plain C++ around the stand-in."""
    kit, include = os.environ.get("NVBIT_ROOT"), cuda_include()
    runtime = NATIVE / "libxpuprof_rt.so"
    if not kit or include is None or not runtime.exists():
        pytest.skip("NVBIT_ROOT, CUDA's headers or libxpuprof_rt.so are missing; see docs/nvbit.md")
    out = tmp_path_factory.mktemp("nvbit") / "program"
    tool = ROOT / "native" / "nvbit"
    parts = ["tool.cu", "functions.cpp", "buffers.cpp", "classes.cpp", "sass.cpp"]
    sources = [str(HERE / "fake_nvbit" / "fake_nvbit.cpp"), *(str(tool / part) for part in parts)]
    folders = [f"-I{ROOT}/native/{part}" for part in ("nvbit", "cuda", "include")]
    system = ["-isystem", f"{kit}/core", "-isystem", str(include)]
    host = [f"-D__{word}__=" for word in ("device", "noinline", "global")]
    link = ["-x", "none", str(runtime), f"-Wl,-rpath,{NATIVE}", "-lpthread", "-o", str(out)]
    command = ["g++", "-std=c++17", "-O1", "-w", *host, "-x", "c++", *sources, *folders, *system]
    subprocess.run([*command, *link], check=True)
    return out


@dataclass(frozen=True)
class Ran:
    """What the stand-in's device counted, and the trace."""

    expected: list[tuple[str, np.ndarray]]
    stream: Stream
    errors: str


def run(program: Path, out: Path, in_flight: int, **environment: str) -> Ran:
    """Runs it; `in_flight` of the last launches are never over before they are waited for."""
    out.mkdir()
    done = subprocess.run(
        [str(program), str(in_flight)],
        env={**os.environ, "XPUPROF_DIR": str(out), "XPUPROF_MODE": "profile", **environment},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    expected = []
    for line in done.stdout.splitlines():
        name, warps, *counts = line.split()
        expected.append((name, np.array(counts, np.uint64).reshape(int(warps), -1)))
    (events,) = out.glob("*/events.xpt")
    return Ran(expected, read_stream(events, EVENTS), done.stderr)


def vectors(stream: Stream, launch: int) -> np.ndarray | None:
    """Counts of a launch, warps x blocks of its kernel; None when it has none."""
    found = stream["launch_grids"][stream["launch_grids"]["launch"] == launch]
    if not len(found):
        return None
    grid = stream["grids"][found["grid"][0]]
    kernel = stream["kernels"][grid["kernel"]]
    rows = []
    first, n = int(grid["first_run"]), int(grid["n_runs"])
    for vector, length in zip(
        stream["run_vector"][first : first + n],
        stream["run_length"][first : first + n],
        strict=True,
    ):
        row = np.zeros(int(kernel["n_blocks"]), np.uint64)
        at = stream["vectors"][vector]
        pairs = slice(int(at["first_pair"]), int(at["first_pair"] + at["n_pairs"]))
        row[stream["vector_block"][pairs] - kernel["first_block"]] = stream["vector_count"][pairs]
        rows += [row] * int(length)
    return np.array(rows)


def assert_exact(ran: Ran) -> None:
    """Every launch is there, in order, with the vectors that the device counted."""
    names = ran.stream.texts(ran.stream["kernels"]["name"])
    launches = ran.stream["launches"]
    assert [names[k] for k in launches["kernel"]] == [name for name, _ in ran.expected]
    for launch, (_, counts) in enumerate(ran.expected):
        found = vectors(ran.stream, launch)
        assert found is not None and np.array_equal(found, counts), launch
    meta = ran.stream.meta()
    assert meta["counts_without_place"] == meta["launches_not_read"] == "0"


@pytest.mark.parametrize("in_flight", [0, 3, 1000])
def test_every_launch_has_its_own_vectors(program: Path, tmp_path: Path, in_flight: int) -> None:
    """GIVEN launches of kernels that share called functions, failed and captured ones, graphs WHEN
    none, some or all are in flight THEN each launch's vectors are exact, warp by warp."""
    ran = run(program, tmp_path / "t", in_flight)
    assert len(ran.expected) == 40 * 2 + 3 * 3 + 1
    assert_exact(ran)
    assert "managed 0" in ran.errors


def test_beyond_the_memory_limit_counts_stay_exact(program: Path, tmp_path: Path) -> None:
    """GIVEN a limit below what one launch needs WHEN it is launched THEN managed memory is taken
    and the vectors are as exact."""
    ran = run(program, tmp_path / "t", 3, XPUPROF_COUNTER_MEMORY="1")
    assert_exact(ran)
    assert "managed 0" not in ran.errors


def test_kernels_that_are_not_chosen_run_uninstrumented(program: Path, tmp_path: Path) -> None:
    """GIVEN a kernel specification WHEN launched THEN only its launches have vectors, the others
    say why they have none."""
    ran = run(program, tmp_path / "t", 3, XPUPROF_KERNELS="10-12@plain")
    reasons = ran.stream.texts(ran.stream["launches"]["reason"])
    names = [name for name, _ in ran.expected]
    plain = [i for i, name in enumerate(names) if name == "plain"]
    assert [i for i, reason in enumerate(reasons) if not reason] == plain[9:12]
    assert set(reasons) == {"", "not chosen by --kernels"}
    for launch in plain[9:12]:
        assert np.array_equal(vectors(ran.stream, launch), ran.expected[launch][1])
