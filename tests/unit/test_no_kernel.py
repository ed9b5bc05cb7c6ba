# SPDX-License-Identifier: Apache-2.0
"""A run without kernels is no result, and says why."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.support import traces
from xpuprof.cli import cli
from xpuprof.engines.base import GpuEngine
from xpuprof.engines.registry import engines
from xpuprof.trace.records import ExecutionRecord
from xpuprof.trace.run import Run
from xpuprof.units import seconds
from xpuprof.workflow.noise import disturbed
from xpuprof.workflow.unseen import RUNTIMES, no_kernel


def record(tmp_path: Path) -> ExecutionRecord:
    run = Run.open(traces.write_run(tmp_path / "run", None, traces.cpu(1)))
    assert run.profile is not None
    return replace(run.profile.record, gpu_engine="opencl")


def test_the_library_that_nobody_watches_is_named(tmp_path: Path) -> None:
    """GIVEN a program that names libcuda THEN the engines that would see it are named; for HIP,
    which none sees, the import is."""
    seen = record(tmp_path)
    program = tmp_path / "app"
    program.write_bytes(b"\x7fELF libcuda.so.1\0")
    assert "GPU engine nvbit, cuda or ptx would see it" in no_kernel(seen, (), str(program))
    program.write_bytes(b"\x7fELF libOpenCL.so.1\0")
    told = no_kernel(seen, (), str(program))
    assert "the program launched none there" in told and told.endswith("with --gpu none")
    images = ["/opt/rocm/lib/libamdhip64.so.6"]
    assert "no engine sees it" in no_kernel(seen, (), "absent", images)
    driver = ["/usr/lib/x86_64-linux-gnu/libpocl.so.2.10.0"]
    assert "loads the OpenCL driver libpocl.so itself" in no_kernel(seen, (), "absent", driver)
    assert "launched none there" in no_kernel(seen, (), "absent", [*driver, "/lib/libOpenCL.so.1"])
    assert no_kernel(seen, ("the disk was full",), "absent").endswith(": the disk was full")


def test_every_engine_says_what_it_watches() -> None:
    """The libraries of the declarations are those that are looked for."""
    watched = {library for engine in engines(GpuEngine) for library in engine.kind.runtimes}
    assert watched <= set(RUNTIMES) and len(watched) == 4


def test_select_refuses_a_profile_without_kernels(tmp_path: Path) -> None:
    """One slice that represents itself says nothing."""
    path = traces.write_run(tmp_path / "run", None, traces.cpu(1))
    result = CliRunner().invoke(cli, ["select", str(path)])
    assert result.exit_code != 0 and "no kernel was seen" in str(result.exception)
    assert not (path / "selection.json").exists()


@pytest.mark.parametrize(
    ("totals", "said"),
    [([1.7, 2.7, 2.0], True), ([1.0, 1.01, 0.99, 1.02], False), ([1.0], False), ([1.0, 1.2], True)],
)
def test_timer_runs_that_differ_are_told(totals: list[float], said: bool) -> None:
    """GIVEN times from 1.7 s to 2.7 s THEN a sentence names them and the remedy."""
    assert bool(disturbed(totals)) == said
    if said:
        assert f"{seconds(min(totals))} to {seconds(max(totals))}" in disturbed(totals)[0]


def test_the_sentence_has_the_units_of_the_tables() -> None:
    """GIVEN short runs THEN their times are in milliseconds, and no number has an exponent."""
    assert "took 47.5 us to 46.4 ms (standard deviation" in disturbed([4.75e-05, 0.0464])[0]
