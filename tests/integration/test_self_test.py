# SPDX-License-Identifier: Apache-2.0
"""`xpuprof doctor --self-test`: it passes here, and its counts tell right from wrong."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.support.compile import opencl_program
from tests.support.probes import require_cpu, require_opencl
from tests.support.run import xpuprof_text
from xpuprof.engines.cpu.valgrind import Valgrind
from xpuprof.engines.native import native_file
from xpuprof.workflow import self_test

pytestmark = pytest.mark.opencl


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The profile of the example that the self-test records, without CPU vectors."""
    require_opencl()
    folder = tmp_path_factory.mktemp("self-test") / "run"
    done = xpuprof_text(
        "profile", "-o", folder, "--cpu", "none", "--", native_file(self_test.PROGRAM),
        str(self_test.STEPS), str(self_test.PARTICLES),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.slow
@pytest.mark.valgrind
def test_every_step_passes() -> None:
    """GIVEN engines that work THEN each step passes and the exit code is 0."""
    require_opencl()
    require_cpu(Valgrind())
    done = xpuprof_text("doctor", "--self-test", "--json")
    assert done.returncode == 0, done.stdout
    steps = json.loads(done.stdout)["steps"]
    names = {step["name"] for step in steps if not step["fault"]}
    assert len(names) == len(steps)
    assert names >= {"counts of valgrind and opencl"} | {
        f"{command} with valgrind and opencl"
        for command in ("run", "check", "select", "validate", "report")
    }


def test_without_a_gpu_engine_it_fails(tmp_path: Path) -> None:
    """GIVEN no OpenCL platform THEN it says so and the exit code is 1."""
    hidden = {**os.environ, "OCL_ICD_VENDORS": str(tmp_path), "XPUPROF_OPENCL_RUNTIME": "system"}
    done = xpuprof_text("doctor", "--self-test", environment=hidden)
    assert done.returncode == 1 and "no GPU engine is usable" in done.stdout


def test_a_device_whose_kernels_are_not_counted(tmp_path: Path) -> None:
    """GIVEN a device that takes no SPIR-V THEN `doctor` says that it is timed only; of others it
    gives the name alone."""
    opencl_program("opencl_no_spirv", tmp_path, "-shared", "-fPIC").rename(
        tmp_path / "libOpenCL.so.1"
    )
    without = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path), "XPUPROF_OPENCL_RUNTIME": "system"}
    said = xpuprof_text("doctor", environment=without).stdout
    assert "rusticl, OpenCL 3.0 : llvmpipe (launches and times only: it takes no SPIR-V)" in said
    assert "launches and times only" not in xpuprof_text("doctor").stdout


def test_exact_counts_pass(example: Path) -> None:
    """GIVEN the profile THEN all known counts are in it."""
    assert self_test.miscount(example) == ""


def test_another_count_is_found(example: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN counts of a longer loop, or of one launch less, THEN the difference is named."""
    turns = (self_test.HALVINGS + 2) * self_test.ITEMS
    monkeypatch.setattr(self_test, "COUNTS", {**self_test.COUNTS, "energy": (turns,)})
    assert f"no block of energy ran {2 * turns:,} times" in self_test.miscount(example)
    monkeypatch.setattr(self_test, "CALLS", {**self_test.CALLS, "forces": self_test.STEPS})
    assert "launches are" in self_test.miscount(example)
