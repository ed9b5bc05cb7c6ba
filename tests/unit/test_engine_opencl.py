# SPDX-License-Identifier: Apache-2.0
"""Messages of the engine `opencl` when it cannot do what was asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from xpuprof.engines import native
from xpuprof.engines.base import GpuOptions
from xpuprof.engines.choose import choose
from xpuprof.engines.filters import EVERYTHING
from xpuprof.engines.gpu import opencl
from xpuprof.errors import EngineError


def test_unknown_runtime(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """GIVEN an unknown runtime THEN probe and launch name it and the choices, and no run goes on
    without the engine."""
    monkeypatch.setenv(opencl.RUNTIME_ENV, "amd")
    probe = opencl.OpenCl().probe()
    assert not probe.available
    assert "is 'amd'; choose system or intel" in probe.mistake
    with pytest.raises(EngineError, match="is 'amd'"):
        choose("none", "auto", EVERYTHING, lambda _: None)


def test_no_platform(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """GIVEN a machine without a driver THEN the probe names the packages."""
    monkeypatch.setenv("OCL_ICD_VENDORS", str(tmp_path))
    monkeypatch.setattr(opencl, "_files", lambda package: [])  # nor the extra `cpu`
    probe = opencl.OpenCl().probe()
    assert not probe.available
    assert any("OpenCL" in missing for missing in probe.missing)
    assert "pocl-opencl-icd" in probe.advice


def test_the_extra_serves_a_machine_without_a_driver(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """GIVEN the extra `cpu` THEN its runtime is chosen if and only if the machine names no driver,
    and its folder, which holds a loader, comes last in the search path."""
    library = tmp_path / "lib\udcff" / "libintelocl.so"  # paths need not be UTF-8
    monkeypatch.delenv(opencl.RUNTIME_ENV, raising=False)
    monkeypatch.setenv("LD_LIBRARY_PATH", "/own")
    monkeypatch.setattr(opencl, "_files", lambda package: [library])
    monkeypatch.setattr(opencl, "_intel_runtime", lambda: library)
    monkeypatch.delenv("OCL_ICD_VENDORS", raising=False)
    monkeypatch.setattr(opencl, "VENDORS", str(tmp_path / "vendors"))
    chosen = opencl.runtime_environment(tmp_path)
    assert chosen["LD_LIBRARY_PATH"] == f"/own:{library.parent}"
    assert opencl.drivers(chosen) == [str(library)]
    (tmp_path / "vendors").mkdir()
    (tmp_path / "vendors" / "own.icd").write_text("libown.so\n")
    assert opencl.runtime_environment(tmp_path) == {}
    (tmp_path / "vendors" / "own.icd").unlink()
    monkeypatch.setenv("OCL_ICD_VENDORS", "libown.so")
    assert opencl.runtime_environment(tmp_path) == {}


def test_missing_parts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """GIVEN an installation without native parts THEN profile and time refuse, with the remedy."""
    monkeypatch.setattr(native, "native_file", lambda name: tmp_path / name)
    with pytest.raises(EngineError, match="opencl-headers"):
        opencl.OpenCl().environment("time", "async", tmp_path, GpuOptions())


def test_instrumenter_that_does_not_start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """GIVEN an instrumenter that ends at once THEN the program continues and its last message is
    kept."""
    broken = tmp_path / opencl.INSTRUMENTER
    broken.write_text("#!/bin/sh\necho no LLVM here\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr(opencl, "native_file", lambda name: tmp_path / name)
    services = opencl.OpenCl().start_services("profile", tmp_path, GpuOptions())
    with services as environment:
        assert not Path(environment["XPUPROF_CLINST"]).exists()
    assert (tmp_path / "clinst.log").read_text() == "no LLVM here\n"
