# SPDX-License-Identifier: Apache-2.0
"""Engine `ptx` in front of a stand-in driver that executes PTX by the emulator, so the counts are
real; no GPU."""

from __future__ import annotations

import functools
import json
import os
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from tests.support import ptx
from tests.support.cuda_parts import SOURCES, TIMER, cuda_include, nvcc
from tests.support.grids import vectors
from tests.support.paths import BUILT
from tests.support.run import output, run_text, xpuprof_text
from xpuprof.trace.check import check_run
from xpuprof.trace.layout import EVENTS
from xpuprof.trace.streams import Stream, read_stream

pytestmark = [pytest.mark.cuda, pytest.mark.slow]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stand-in driver, the program, its kernels in three forms, `check`, and the engine's links
    in `front`."""
    include = cuda_include()
    if include is None or not (BUILT / "libxpuprof_ptx.so").exists():
        pytest.skip("CUDA's headers or libxpuprof_ptx.so are missing; see docs/ptx.md")
    made = tmp_path_factory.mktemp("ptx")
    kernels = str(ptx.EMULATOR / "kernels.cu")
    nvcc("-arch=compute_80", "-ptx", kernels, "-o", str(made / "k.ptx"))
    both = "arch=compute_80,code=[sm_80,compute_80]"
    nvcc("-fatbin", "-gencode", both, kernels, "-o", str(made / "k.fatbin"))
    nvcc("-arch=sm_90", "-cubin", kernels, "-o", str(made / "k.cubin"))
    compiler = ["g++", "-std=c++17", "-O1", "-w", "-isystem", str(include), f"-I{ptx.EMULATOR}"]
    parts = [*(str(SOURCES / f"{name}.cpp") for name in ("fake_cuda", "ptx_device"))]
    parts += [*map(str, ptx.PARTS), "-Wl,-soname,libcuda.so.1"]
    driver = str(made / "libcuda.so.1")
    output([*compiler, "-shared", "-fPIC", *parts, "-o", driver])
    output([*compiler, str(SOURCES / "ptx_program.cpp"), driver, "-o", str(made / "program")])
    ptx.build(made, "check")
    front = made / "front"
    front.mkdir()
    (front / "libcuda.so.1").symlink_to(BUILT / "libxpuprof_ptx.so")
    (front / "libxpuprof_driver.so").symlink_to(driver)
    (front / "libxpuprof_rt.so").symlink_to(BUILT / "libxpuprof_rt.so")
    return made


def command(folder: Path, scenario: str) -> list[str]:
    """The program's command line."""
    forms = [str(folder / name) for name in ("program", "k.ptx", "k.fatbin", "k.cubin")]
    return [*forms, scenario]


@dataclass(frozen=True)
class Recorded:
    """What the program printed, and the trace."""

    done: subprocess.CompletedProcess[str]
    stream: Stream

    @property
    def launches(self) -> list[list[str]]:
        """The words of each launch's line: what `check` needs, or name, dash and reason."""
        return [line.split(maxsplit=2) for line in self.done.stdout.splitlines()]

    @property
    def reasons(self) -> list[str]:
        """Why each launch has no vectors; empty: it has."""
        return self.stream.texts(self.stream["launches"]["reason"])


def record(folder: Path, out: Path, scenario: str = "every", **more: str) -> Recorded:
    """Runs a scenario of the program under the engine."""
    environment = {"LD_LIBRARY_PATH": str(folder / "front"), "XPUPROF_DIR": str(out)}
    environment |= {"XPUPROF_MODE": "profile", **more}
    out.mkdir()
    done = run_text(command(folder, scenario), environment=os.environ | environment)
    assert done.returncode == 0, done.stderr
    (events,) = out.glob("*/events.xpt")
    return Recorded(done, read_stream(events, EVENTS))


@functools.cache
def counted_by_emulator(folder: Path, launch: str, unit: str) -> np.ndarray:
    """The counts of each warp and block, as the emulator sees the original kernel execute."""
    kernel, *shape_and_arguments = launch.split()
    done = run_text(
        [folder / "check", folder / "k.ptx", kernel, unit, *shape_and_arguments], check=True
    )
    return np.array([line.split() for line in done.stdout.splitlines()[1:]], np.uint64)


def expected(folder: Path, launch: list[str], unit: str) -> np.ndarray:
    """The same for the words of a launch's line."""
    return counted_by_emulator(folder, " ".join(launch), unit)


def assert_exact(folder: Path, run: Recorded, unit: str = "lane") -> None:
    """Every launch of the program is in the trace: with its counts, warp by warp, or the reason."""
    names = run.stream.texts(run.stream["kernels"]["name"])
    kernels = [names[k] for k in run.stream["launches"]["kernel"]]
    assert kernels == [words[0] for words in run.launches]
    for number, words in enumerate(run.launches):
        found = vectors(run.stream, number)
        if words[1] == "-":
            assert found is None and run.reasons[number] == words[2]
        else:
            assert found is not None, (number, words, run.reasons[number])
            assert np.array_equal(found, expected(folder, words, unit)), (number, words)
    assert run.stream.meta()["launches_not_read"] == "0"


@pytest.mark.parametrize("unit", ["lane", "warp"])
def test_every_way_to_load_and_launch_is_counted(folder: Path, tmp_path: Path, unit: str) -> None:
    """GIVEN PTX, a compressed fat binary and machine code, as modules and libraries, launched by
    each call and by a graph WHEN recorded THEN launches of PTX have exact vectors; machine code's
    say why not."""
    run = record(folder, tmp_path / "t", XPUPROF_COUNT_UNIT=unit)
    assert_exact(folder, run, unit)
    assert run.stream.meta()["count_unit"] == unit


def test_a_kernel_is_the_same_however_it_was_loaded(folder: Path, tmp_path: Path) -> None:
    """GIVEN a kernel from PTX, from a fat binary as library and as module, and from machine code
    WHEN recorded THEN the first three are one kernel."""
    run = record(folder, tmp_path / "t")
    kernels = run.stream["launches"]["kernel"].tolist()
    loops = [k for k, w in zip(kernels, run.launches, strict=True) if w[0] == "loops"]
    assert len(set(loops[:-1])) == 1 and loops[-1] != loops[0]


@pytest.mark.parametrize("unit", ["lane", "warp"])
def test_kernels_of_graphs_are_counted(folder: Path, tmp_path: Path, unit: str) -> None:
    """GIVEN graphs with one function in several nodes, functions that share another, branches and
    child graphs, launched again and again in two streams, their nodes changed and switched off in
    between WHEN recorded THEN each kernel of each launch has its own exact vectors."""
    assert_exact(folder, record(folder, tmp_path / "t", "chains", XPUPROF_COUNT_UNIT=unit), unit)


def test_graphs_that_cannot_be_told_apart_say_so(folder: Path, tmp_path: Path) -> None:
    """GIVEN graphs that may run a function twice at once, or in which the device decides WHEN
    recorded THEN these kernels have the reason, and all others their vectors."""
    assert_exact(folder, record(folder, tmp_path / "t", "unclear"))


def test_graphs_are_counted_however_they_are_made_and_changed(folder: Path, tmp_path: Path) -> None:
    """GIVEN graphs made and changed by each call of each CUDA version, in one stream, and launches
    of the same module in another WHEN recorded THEN all are exact, although graphs may still run
    when others are launched."""
    assert_exact(folder, record(folder, tmp_path / "t", "graphs"))


@pytest.mark.parametrize("scenario", ["every", "chains"])
@pytest.mark.parametrize(
    ("setting", "value", "reason"),
    [
        ("XPUPROF_KERNELS", "2-4@loops,cases", "left out by --kernels"),
        ("XPUPROF_WINDOW", "2-5", "outside the window"),
    ],
)
def test_filters_and_windows_are_honoured(
    folder: Path, tmp_path: Path, scenario: str, setting: str, value: str, reason: str
) -> None:
    """GIVEN a filter or a window, which may begin and end inside of a graph WHEN recorded THEN the
    launches that it chooses have exact vectors, and the others say why not."""
    run = record(folder, tmp_path / "t", scenario, **{setting: value})
    calls: Counter[str] = Counter()
    counted = 0
    for number, words in enumerate(run.launches):
        calls[words[0]] += 1
        chosen = 1 <= number <= 4
        if setting == "XPUPROF_KERNELS":
            chosen = words[0] == "cases" or (words[0] == "loops" and 2 <= calls["loops"] <= 4)
        found = vectors(run.stream, number)
        if chosen and words[1] != "-":
            assert found is not None, (number, words, run.reasons[number])
            assert np.array_equal(found, expected(folder, words, "lane")), (number, words)
            counted += 1
        else:
            assert found is None and run.reasons[number] in (reason, words[2])
    assert counted > 2 and run.stream.meta()["launches_not_read"] == "0"


@pytest.mark.parametrize("scenario", ["link", "link a file"])
def test_linked_ptx_is_counted(folder: Path, tmp_path: Path, scenario: str) -> None:
    """GIVEN PTX that goes through cuLinkAddData or cuLinkAddFile WHEN recorded THEN its launches
    have exact vectors."""
    assert_exact(folder, record(folder, tmp_path / "t", scenario))


@pytest.mark.parametrize("scenario", ["reset", "unload and reset"])
def test_a_reset_takes_our_memory_with_it(folder: Path, tmp_path: Path, scenario: str) -> None:
    """GIVEN launches before and after a reset of the primary context, before which their module was
    unloaded or not WHEN recorded THEN all have exact vectors, and memory that the driver may have
    given to others is not touched."""
    run = record(folder, tmp_path / "t", scenario)
    assert run.reasons == [""] * 4
    for number, launch in enumerate(run.launches):
        found = vectors(run.stream, number)
        assert found is not None and np.array_equal(found, expected(folder, launch, "lane"))
    assert run.done.stderr == "changed 0\n"


def test_code_that_comes_and_goes_is_counted(folder: Path, tmp_path: Path) -> None:
    """GIVEN 60 modules, one after the other at the same place, with little memory for counters, and
    libraries that are unloaded without a context WHEN recorded THEN all launches are exact."""
    little = {"XPUPROF_COUNTER_MEMORY": "1"}
    assert_exact(folder, record(folder, tmp_path / "m", "modules", **little))
    assert_exact(folder, record(folder, tmp_path / "l", "libraries"))


def test_the_program_computes_the_same(folder: Path, tmp_path: Path) -> None:
    """GIVEN the engine, recording or inert WHEN the program runs THEN its results are its own."""
    native = os.environ | {"LD_LIBRARY_PATH": str(folder)}
    inert = os.environ | {"LD_LIBRARY_PATH": str(folder / "front")}
    recording = inert | {"XPUPROF_DIR": str(tmp_path), "XPUPROF_MODE": "profile"}
    results = [
        run_text(command(folder, "results"), environment=e, check=True).stdout
        for e in (native, inert, recording)
    ]
    assert len(results[0].splitlines()) == 400
    assert results[0] == results[1] == results[2]


def test_a_profile_by_the_command_line(folder: Path, tmp_path: Path) -> None:
    """GIVEN --gpu ptx WHEN a program is profiled THEN the run is complete and consistent, and its
    kernels are counted."""
    if not TIMER.exists():
        pytest.skip("libxpuprof_cuda.so was not built; see docs/cuda.md")
    fake = {"LD_LIBRARY_PATH": str(folder), "XPUPROF_CUPTI": str(folder / "libcuda.so.1")}
    fake["XDG_CACHE_HOME"] = str(tmp_path / "cache")
    options = ["--gpu", "ptx", "--cpu", "none", "--json", "-o", str(tmp_path / "run")]
    done = xpuprof_text(
        "profile", *options, "--", *command(folder, "every"), environment=os.environ | fake
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["status"] == "complete", done.stderr
    assert check_run(tmp_path / "run").violations == []
