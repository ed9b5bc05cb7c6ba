# SPDX-License-Identifier: Apache-2.0
"""What engines nvbit and ptx ask of the machine and give to the program, without a GPU."""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path

import pytest

from xpuprof.engines.base import GpuOptions, Probe
from xpuprof.engines.gpu import cuda, nvbit, ptx
from xpuprof.engines.gpu.cuda import Cuda


@pytest.fixture
def kit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine with the tool, a driver and a device; returns its empty folder of programs."""
    programs = tmp_path / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setattr(nvbit, "unbuilt", lambda name: ())
    monkeypatch.setattr(nvbit, "native_file", lambda name: tmp_path / name)
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path / "site"))
    monkeypatch.setattr(Cuda, "probe", lambda self: Probe("cuda", True))
    monkeypatch.setattr(
        nvbit, "probe_with_timer", lambda name, details: Probe(name, True, (), "", details)
    )
    return programs


def install(folder: Path, *names: str) -> None:
    """Executable files of these names."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)


def environment(folder: Path) -> dict[str, str]:
    return nvbit.Nvbit().environment("profile", "async", folder, GpuOptions())


def test_the_programs_that_the_kit_runs_are_probed(kit: Path) -> None:
    """GIVEN neither program, then nvdisasm alone, WHEN probed THEN the missing are named."""
    assert nvbit.Nvbit().probe().missing == ("nvdisasm", "cuobjdump")
    install(kit, "nvdisasm")
    probe = nvbit.Nvbit().probe()
    assert probe.missing == ("cuobjdump",) and "xpuprof[cuda]" in probe.advice


def test_the_kit_prints_nothing_into_the_program(kit: Path, tmp_path: Path) -> None:
    """GIVEN a kit WHEN a program is launched THEN its banner and its warning per context are off,
    and PATH stays the program's own."""
    install(kit, "nvdisasm", "cuobjdump")
    given = environment(tmp_path)
    assert given["NOBANNER"] == given["ACK_CTX_INIT_LIMITATION"] == "1"
    assert "PATH" not in given


def test_cuobjdump_from_pypi_is_put_behind_the_path(kit: Path, tmp_path: Path) -> None:
    """GIVEN cuobjdump as a Python package WHEN a program is launched THEN the kit finds it, and
    the program's own folders come first."""
    site = tmp_path / "site" / "nvidia" / "cu13" / "bin"
    install(site, "nvdisasm", "cuobjdump")
    assert environment(tmp_path)["PATH"] == f"{os.environ['PATH']}:{site}"


@pytest.mark.parametrize(
    ("engine", "page"), [(ptx.Ptx(), "docs/ptx.md"), (cuda.Cuda(), "docs/cuda.md")]
)
def test_without_a_driver_an_engine_names_its_own_page(
    engine: ptx.Ptx | cuda.Cuda, page: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIVEN everything but a driver WHEN an engine is probed THEN its advice ends with the page
    that says how far this engine was tested."""
    for module in (cuda, ptx):
        monkeypatch.setattr(module, "unbuilt", lambda name: ())
    monkeypatch.setattr(cuda, "cupti_library", lambda: Path("libcupti.so.13"))
    monkeypatch.setattr("xpuprof.engines.cuda_driver.driver", lambda: None)
    probe = engine.probe()
    assert probe.missing == ("NVIDIA's driver (libcuda.so.1)",)
    assert probe.advice.endswith(f"({page})")
