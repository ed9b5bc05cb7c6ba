# SPDX-License-Identifier: Apache-2.0
"""The GTPin tool around stand-ins for GTPin, OpenCL and Level Zero (fake_gtpin), compiled against
declarations of GTPin's documented interface. This does not prove that it compiles with a kit."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from tests.support.compile import compile_files
from tests.support.grids import vectors
from tests.support.paths import BUILT, ROOT
from tests.support.run import run_text
from xpuprof.trace.layout import EVENTS
from xpuprof.trace.streams import Stream, read_stream

HERE = Path(__file__).parent
FAKE = HERE / "fake_gtpin"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tool and what stands around it."""
    out = tmp_path_factory.mktemp("gtpin")
    runtime = BUILT / "libxpuprof_rt.so"
    includes = [f"-I{ROOT}/native/{p}" for p in ("include", "gpu/cuda")]
    includes.append(f"-I{HERE}/gtpin_interface")
    shared = ["-shared", "-fPIC", *includes, f"-Wl,-rpath,{out}:{BUILT}"]

    def library(name: str, *sources: Path, uses: tuple[Path, ...] = (), needs: str = "") -> Path:
        soname = [f"-Wl,-soname,{name}", "-Wl,--no-as-needed", *uses, *needs.split()]
        return compile_files(sources, out / name, *shared, *soname, compiler="g++")

    gtpin = library("libgtpin.so", FAKE / "gtpin.cpp", needs="-lpthread")
    opencl = library("libOpenCL.so.1", FAKE / "opencl.cpp", uses=(gtpin,))
    zero = library("libze_loader.so.1", FAKE / "level_zero.cpp", uses=(gtpin,))
    library("libadapter.so", FAKE / "adapter.cpp", uses=(zero,))
    tool = ROOT / "native" / "gpu" / "gtpin"
    parts = [tool / "tool.cpp", tool / "geometry.cpp"]
    library("libxpuprof_gtpin.so", *parts, uses=(gtpin, runtime), needs="-ldl")
    links = [f"-Wl,-rpath,{out}", "-lpthread", "-ldl"]
    compile_files([FAKE / "program.cpp", opencl], out / "program", *links, compiler="g++")
    return out


def run(folder: Path, out: Path, mode: str) -> Stream:
    """The events of the program, preloaded as the engine does it."""
    out.mkdir()
    settings = {**os.environ, "XPUPROF_DIR": str(out), "XPUPROF_MODE": mode}
    settings["LD_PRELOAD"] = str(folder / "libxpuprof_gtpin.so")
    done = run_text([folder / "program", folder / "libadapter.so"], environment=settings)
    assert done.returncode == 0, done.stderr
    (events,) = out.glob("*/events.xpt")
    return read_stream(events, EVENTS)


SIZES = [
    (2, [640, 6, 1], [64, 2, 0], [16, 0, 0]),
    (1, [640, 1, 1], [0, 0, 0], [0, 0, 0]),
    (3, [160, 8, 1], [32, 4, 1], [0, 0, 0]),
    (3, [24, 1, 1], [8, 1, 1], [0, 0, 0]),
    (3, [96, 4, 1], [32, 4, 1], [0, 0, 0]),
    (0, [0, 0, 0], [0, 0, 0], [0, 0, 0]),
    (0, [0, 0, 0], [0, 0, 0], [0, 0, 0]),
]
"""Dimensions, global and local size and offset of the program's launches. The device knows the
size of the last but one; the last was made by a function that the program looked up for itself."""


@pytest.mark.parametrize("mode", ["profile", "time"])
def test_launches_have_the_grid_of_their_call(folder: Path, tmp_path: Path, mode: str) -> None:
    """GIVEN launches by OpenCL and by Level Zero, from the program, another thread and a library
    THEN each has the sizes of its call; where the call does not tell them, none."""
    launches = run(folder, tmp_path / "run", mode)["launches"]
    found = [
        (int(row["dimensions"]), *(row[size].tolist() for size in ("global", "local", "offset")))
        for row in launches
    ]
    assert found == SIZES


def test_counts_are_those_of_the_buckets(folder: Path, tmp_path: Path) -> None:
    """GIVEN launches of two kernels WHEN profiled THEN each has its own counts, bucket by bucket,
    and kernels are told apart by their assembly."""
    stream = run(folder, tmp_path / "run", "profile")
    for launch in range(len(SIZES)):
        expected = np.zeros((32, 3), np.uint64)
        expected[:2] = [launch + 10 * block for block in range(3)]
        assert np.array_equal(vectors(stream, launch), expected)
    assert stream.texts(stream["kernels"]["name"]) == ["first", "second"]
    assert len({bytes(row["hash"]) for row in stream["programs"]}) == 2
