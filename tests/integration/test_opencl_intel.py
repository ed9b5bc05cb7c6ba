# SPDX-License-Identifier: Apache-2.0
"""The OpenCL layer on Intel's CPU runtime: SPIR-V, Khronos's loader, uneven groups."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.test_opencl_layer import (
    EXTRA,
    LAUNCHES,
    MODELLED,
    ON_DEVICE,
    REASONS,
    expect,
    same,
    sub_group_of,
    warps_model,
)
from tests.support.compile import opencl_program
from tests.support.layered import layered, natively, warp_atomics
from tests.support.probes import require_intel

pytestmark = [pytest.mark.opencl, pytest.mark.intel]


@pytest.fixture(autouse=True)
def intel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Intel's runtime, or skip."""
    require_intel(monkeypatch)


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program `opencl_cases`."""
    return opencl_program("opencl_cases", tmp_path_factory.mktemp("cases"))


@pytest.mark.parametrize("case", LAUNCHES)
def test_profile(cases: Path, tmp_path: Path, case: str) -> None:
    """GIVEN a program on Intel's runtime THEN nothing differs and every launch is instrumented."""
    native = natively([cases, case])
    if native.done.stdout.startswith(b"no "):
        pytest.skip(f"the device has {native.done.stdout.decode().strip()}")
    ran = layered([cases, case], tmp_path / "p", extra=EXTRA.get(case))
    same(native, ran)
    launches = ran.process.launches
    assert "Intel" in ran.process.meta["engine_version"]
    if native.done.returncode:
        assert case == "foreign_binary"  # rejected: the runtime detects the changed binary
        return
    assert len(launches) == LAUNCHES[case]
    left_out = launches.loc[~launches["instrumented"], "reason"].tolist()
    assert left_out == REASONS.get(case, [])


TRANSLATED = {"XPUPROF_TRANSLATED": "dynamorio"}
"""The layer's only sign of a CPU engine: programs are then made from binaries that were compiled in
another process (stand_ins.hpp)."""


@pytest.mark.parametrize("case", LAUNCHES)
def test_profile_of_programs_compiled_elsewhere(cases: Path, tmp_path: Path, case: str) -> None:
    """GIVEN a CPU engine THEN nothing differs that the program can see, and every launch counts."""
    native = natively([cases, case])
    ran = layered([cases, case], tmp_path / "p", extra=EXTRA.get(case, {}) | TRANSLATED)
    same(native, ran)
    if native.done.returncode == 0 and not native.done.stdout.startswith(b"no "):
        assert len(ran.process.launches) == LAUNCHES[case]


@pytest.mark.parametrize("case", ["sources", "told", "outlived", "compiled"])
def test_questions_about_programs_compiled_elsewhere(tmp_path: Path, case: str) -> None:
    """GIVEN every question about a program and its kernels THEN the answers are the native ones."""
    questions = opencl_program("opencl_questions", tmp_path)
    same(natively([questions, case]), layered([questions, case], tmp_path / "p", extra=TRANSLATED))


@pytest.mark.parametrize("case", MODELLED)
def test_warps_of_programs_compiled_elsewhere(cases: Path, tmp_path: Path, case: str) -> None:
    """GIVEN a CPU engine and programs built in all ways THEN each warp is exact."""
    expect(layered([cases, case], tmp_path / "p", extra=TRANSLATED))


@pytest.mark.parametrize("case", ["shapes", *MODELLED])
def test_warps_against_the_model(cases: Path, tmp_path: Path, case: str) -> None:
    """GIVEN launches of all shapes and programs built in all ways THEN each warp is exact."""
    expect(layered([cases, case], tmp_path / "p"))


def test_chosen_local_size_is_the_runtimes(cases: Path, tmp_path: Path) -> None:
    """GIVEN no local size THEN counts match some division into groups."""
    process = layered([cases, "null_local"], tmp_path / "p").process
    assert process.gpu is not None
    counted = warp_atomics(process.gpu, 0).tolist()
    warp = sub_group_of(process, int(process.launches["kernel_id"].iloc[0]))
    sizes = [n for n in range(1, 4097) if 4096 % n == 0]
    assert any(counted == warps_model((4096,), (n,), warp).tolist() for n in sizes)


@pytest.mark.parametrize("case", ["shapes", "events", "threads"])
def test_counters_kept_on_the_device(cases: Path, tmp_path: Path, case: str) -> None:
    """GIVEN a device that shares no memory with the host THEN each warp is exact."""
    expect(layered([cases, case], tmp_path / "p", extra=ON_DEVICE))
