# SPDX-License-Identifier: Apache-2.0
"""Which engines carry the CUDA driver, against the stand-in driver (see fake_cuda/fake_cuda.cpp):
one that works, one that crashes under the real Valgrind tool (unknown instruction), one that hangs
there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import xpuprof
from tests.support.cuda_parts import build
from tests.support.paths import BUILT as NATIVE
from tests.support.probes import require_cpu
from tests.support.run import xpuprof_text
from xpuprof.engines.cpu.valgrind import Valgrind
from xpuprof.engines.cuda_driver import Outcome, carries, driver
from xpuprof.engines.gpu.cuda import Cuda

KIT = os.environ.get("DYNAMORIO_HOME")

pytestmark = [pytest.mark.cuda, pytest.mark.valgrind]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stand-in, its program and the cubin."""
    require_cpu(Valgrind())
    place = tmp_path_factory.mktemp("fake_cuda")
    build(place)
    return place


@pytest.fixture
def stand_in(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment with the stand-in as CUDA driver and valgrind as the only CPU engine; nothing
    was probed yet."""
    for kit in ("DYNAMORIO_HOME", "PIN_ROOT"):
        monkeypatch.delenv(kit, raising=False)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(folder))
    monkeypatch.setenv("XPUPROF_CUPTI", str(folder / "libcuda.so.1"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return folder


def probed(cpu: Valgrind | None = None) -> tuple[Outcome, bool]:
    """The outcome, and whether it had to be tried."""
    found = driver()
    said: list[str] = []
    assert found is not None
    return carries(cpu, Cuda(), found, said.append), bool(said)


def profile(folder: Path, out: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """`xpuprof profile` of the stand-in's program, which launches once and ends with 42."""
    program = [str(folder / "program"), str(folder / "k.cubin"), "exit42"]
    return xpuprof_text("profile", "-o", out, *options, "--", *program)


def manifest(out: Path) -> dict[str, Any]:
    """The execution's record."""
    record: dict[str, Any] = json.loads((out / "manifest.json").read_text())["executions"][0]
    return record


def test_a_driver_that_works_is_carried(stand_in: Path, tmp_path: Path) -> None:
    """GIVEN a working driver WHEN auto chooses THEN valgrind is taken, and nothing is marked."""
    done = profile(stand_in, tmp_path / "run", "--gpu", "cuda")
    assert done.returncode == 42
    assert manifest(tmp_path / "run")["cpu_engine"] == "valgrind"
    assert manifest(tmp_path / "run")["fallbacks"] == []


def test_filters_of_an_xpuprof_around_us_are_not_the_probes(
    stand_in: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIVEN the variables of an outer xpuprof's --process and --window THEN the probe is recorded
    all the same."""
    monkeypatch.setenv("XPUPROF_PROCESSES", "some-other-program")
    monkeypatch.setenv("XPUPROF_WINDOW", "100-200")
    assert probed(Valgrind()) == (Outcome("exit", ""), True)


@pytest.mark.parametrize(
    ("fault", "words"), [("illegal", "`context`: ended by SIGILL"), ("hang", "`wait`: no end")]
)
def test_a_driver_that_valgrind_cannot_carry(
    stand_in: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str, words: str
) -> None:
    """GIVEN a driver that dies or hangs under valgrind WHEN auto chooses THEN another engine or
    none is taken, reported and recorded, and the program runs as it does alone; WHEN valgrind is
    named THEN that is an error before anything runs."""
    monkeypatch.setenv("FAKE_CUDA_FAULT", fault)
    monkeypatch.setenv("XPUPROF_PROBE_SECONDS", "5")
    done = profile(stand_in, tmp_path / "run", "--gpu", "cuda")
    assert done.returncode == 42
    record = manifest(tmp_path / "run")
    assert record["cpu_engine"] == "none"
    (sentence,) = record["fallbacks"]
    assert "engine valgrind" in sentence
    assert words in sentence and sentence in done.stderr
    named = profile(stand_in, tmp_path / "named", "--gpu", "cuda", "--cpu", "valgrind")
    assert (named.returncode, named.stdout) == (2, "")
    assert words in named.stderr and not (tmp_path / "named").exists()
    shown = xpuprof_text("info", tmp_path / "run", check=True)
    assert sentence in shown.stdout


def test_another_cpu_engine_takes_over(
    stand_in: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIVEN a driver that dies only under valgrind WHEN dynamorio is available THEN auto takes it,
    and its vectors are cut at the launch."""
    if not KIT:
        pytest.skip("DYNAMORIO_HOME is not set; see docs/dynamorio.md")
    monkeypatch.setenv("DYNAMORIO_HOME", KIT)
    monkeypatch.setenv("FAKE_CUDA_FAULT", "illegal")
    done = profile(stand_in, tmp_path / "run", "--gpu", "cuda", "--start-up", "counted")
    assert done.returncode == 42
    assert manifest(tmp_path / "run")["cpu_engine"] == "dynamorio"
    process = xpuprof.open(tmp_path / "run").profile.processes[0]
    assert process.cpu is not None and set(process.cpu.slice) == {0, 1}


def test_a_gpu_engine_that_sees_nothing_is_passed_over(
    stand_in: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIVEN a CUPTI that cannot be used WHEN engine cuda is named THEN the error says what CUPTI
    lacks; WHEN auto chooses THEN the run continues without it and is marked."""
    monkeypatch.setenv("XPUPROF_CUPTI", str(NATIVE / "libxpuprof_rt.so"))
    named = profile(stand_in, tmp_path / "named", "--gpu", "cuda", "--cpu", "none")
    assert named.returncode == 2 and "CUPTI lacks" in named.stderr
    done = profile(stand_in, tmp_path / "run", "--cpu", "none")
    assert done.returncode == 42
    # The stand-in driver carries neither NVBit's tool, tried first where it is built, nor PTX's.
    passed_over = manifest(tmp_path / "run")["fallbacks"]
    assert "CUPTI lacks" in str(passed_over) or "nvbit does not carry" in str(passed_over)


def test_outcomes_are_remembered_until_the_driver_changes(
    stand_in: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIVEN an outcome WHEN needed again THEN there is no new trial, unless the driver's file
    changed or the outcome is a failure of yesterday."""
    assert probed() == (Outcome("exit", ""), True)
    assert probed() == (Outcome("exit", ""), False)
    assert probed(Valgrind()) == (Outcome("exit", ""), True)
    now = time.time()
    os.utime(stand_in / "libcuda.so.1", (now - 60, now - 60))
    monkeypatch.setenv("FAKE_CUDA_FAULT", "illegal")
    assert probed(Valgrind()) == (Outcome("context", "ended by SIGILL"), True)
    assert probed(Valgrind()) == (Outcome("context", "ended by SIGILL"), False)
    for kept in (tmp_path / "cache").rglob("*.json"):
        os.utime(kept, (now - 25 * 3600, now - 25 * 3600))
    monkeypatch.delenv("FAKE_CUDA_FAULT")
    assert probed(Valgrind()) == (Outcome("exit", ""), True)


def test_a_native_failure_is_not_blamed_on_an_engine(
    stand_in: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIVEN a device that no program can use at present WHEN probed THEN no engine is blamed."""
    monkeypatch.setenv("FAKE_CUDA_FAULT", "busy")
    assert probed(Valgrind())[0] == Outcome("context", "")


def test_doctor_tells_what_carries_the_driver(stand_in: Path) -> None:
    """GIVEN the stand-in WHEN doctor runs THEN it names the driver and each combination."""
    command = [sys.executable, "-m", "xpuprof", "doctor", "--json"]
    found = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    assert found["cuda_driver"]["devices"] == 2
    assert found["cuda_driver"]["path"] == str(stand_in / "libcuda.so.1")
    rows = {(row["cpu"], row["gpu"]): row["fault"] for row in found["carry_the_cuda_driver"]}
    assert rows["none", "cuda"] == rows["valgrind", "cuda"] == ""


def test_an_invalid_time_limit_is_refused(
    stand_in: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIVEN nonsense in XPUPROF_PROBE_SECONDS WHEN probing THEN one sentence says so."""
    monkeypatch.setenv("XPUPROF_PROBE_SECONDS", "soon")
    done = profile(stand_in, tmp_path / "run", "--gpu", "cuda")
    assert done.returncode == 2 and "XPUPROF_PROBE_SECONDS" in done.stderr
