# SPDX-License-Identifier: Apache-2.0
"""Analytic counts, and counts by sub-group, against kernels that count for themselves."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from tests.support.layered import layered, natively, warp_atomics
from tests.support.paths import OPENCL_PROGRAMS as PROGRAMS
from tests.support.probes import require_intel
from xpuprof.engines.gpu.opencl import RUNTIME_ENV
from xpuprof.trace.tables import Process

pytestmark = pytest.mark.opencl
PROGRAM: list[str | Path] = [sys.executable, PROGRAMS / "self_counting.py"]
RANDOM: list[str | Path] = [sys.executable, PROGRAMS / "random_counting.py"]


@pytest.fixture(params=["system", pytest.param("intel", marks=pytest.mark.intel)])
def runtime(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each runtime, or skip."""
    pytest.importorskip("pyopencl")
    if request.param == "intel":
        require_intel(monkeypatch)
    monkeypatch.setenv(RUNTIME_ENV, request.param)
    return str(request.param)


def check(program: list[str | Path], counters: str, folder: Path) -> Process:
    """The record of a run in which each launch's counts are those that its kernel recorded."""
    native = natively(program)
    assert native.done.returncode == 0, native.done.stderr
    ran = layered(program, folder / "p", extra={"XPUPROF_OPENCL_COUNTERS": counters})
    assert ran.done.stdout == native.done.stdout
    process = ran.process
    assert process.gpu is not None
    launches = process.launches[process.launches["kernel"] != "fill"]
    recorded = [json.loads(line) for line in ran.done.stdout.splitlines()]
    assert launches["instrumented"].all(), launches["reason"].tolist()
    assert launches["kernel"].tolist() == [name for name, _ in recorded]
    for row, (name, expected) in zip(launches.itertuples(), recorded, strict=True):
        counted = warp_atomics(process.gpu, row.launch).tolist()
        expected += [0] * (len(counted) - len(expected))
        assert counted == expected, f"{name} {row}"
    return process


@pytest.mark.parametrize("counters", ["", "kernel"])
def test_counts_are_those_that_the_kernels_record(
    runtime: str, counters: str, tmp_path: Path
) -> None:
    """GIVEN kernels that count for themselves WHEN counts are analytic or from counters in the
    kernel THEN every warp of every launch is exact, and the program sees no difference."""
    process = check(PROGRAM, counters, tmp_path)
    if runtime == "intel":
        sizes = [int(v) for k, v in process.meta.items() if k.startswith("warp_size:")]
        assert process.meta["warp_size"] == "0" and sizes and set(sizes) <= {4, 8, 16, 32, 64}


@pytest.mark.usefixtures("runtime")
@pytest.mark.parametrize("counters", ["", "kernel"])
def test_random_loops_are_counted_exactly(counters: str, tmp_path: Path) -> None:
    """The same for random kernels with loops of all strides. Intel's compiler itself crashes on one
    of the first ten."""
    first = int(os.environ.get("XPUPROF_RANDOM_SEED", "10"))
    seeds = first, first + int(os.environ.get("XPUPROF_RANDOM_KERNELS", "15"))
    check([*RANDOM, *map(str, seeds)], counters, tmp_path)
