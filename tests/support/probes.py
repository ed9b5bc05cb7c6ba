# SPDX-License-Identifier: Apache-2.0
"""This machine's abilities: marks and checks that skip a test, with the reason."""

from __future__ import annotations

import os
import shutil
from functools import cache
from pathlib import Path

import pytest

from tests.support.paths import PUBLIC_DATA
from xpuprof.engines.base import CpuEngine, Probe
from xpuprof.engines.cpu.dynamorio import DynamoRio
from xpuprof.engines.cpu.valgrind import Valgrind
from xpuprof.engines.gpu.opencl import RUNTIME_ENV, OpenCl, _intel_runtime
from xpuprof.errors import EngineError


@cache
def _opencl(runtime: str) -> Probe:
    return OpenCl().probe()


@cache
def _cpu(name: str) -> Probe:
    engines: dict[str, CpuEngine] = {"valgrind": Valgrind(), "dynamorio": DynamoRio()}
    return engines[name].probe()


def require_opencl() -> OpenCl:
    """The engine, or skip."""
    found = _opencl(os.environ.get(RUNTIME_ENV, ""))
    if not found.available:
        pytest.skip(f"engine opencl: {', '.join(found.missing)}")
    return OpenCl()


def require_intel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chooses Intel's runtime, or skips."""
    try:
        _intel_runtime()
    except EngineError:
        pytest.skip("Intel's runtime is not installed (extra cpu)")
    monkeypatch.setenv(RUNTIME_ENV, "intel")


def require_cpu(engine: CpuEngine) -> None:
    """Skips where the CPU engine cannot be used."""
    probe = _cpu(engine.name)
    if not probe.available:
        pytest.skip(f"engine {engine.name}: {', '.join(probe.missing)}")


def require_processor(*flags: str) -> None:
    """Skips on a processor that lacks one of these flags of /proc/cpuinfo."""
    missing = set(flags) - set(Path("/proc/cpuinfo").read_text().split())
    if missing:
        pytest.skip(f"this processor has no {', '.join(sorted(missing))}")


def require_programs(*names: str, package: str) -> None:
    """Skips where a program is not on PATH."""
    for name in names:
        if not shutil.which(name):
            pytest.skip(f"needs {name} (Debian: {package})")


def _needs(name: str) -> pytest.MarkDecorator:
    probe = _cpu(name)
    reason = f"engine {name}: {', '.join(probe.missing)}"
    return pytest.mark.skipif(not probe.available, reason=reason)


needs_valgrind, needs_dynamorio = _needs("valgrind"), _needs("dynamorio")
needs_public_data = pytest.mark.skipif(
    not PUBLIC_DATA.is_dir(), reason=f"no public profiles at {PUBLIC_DATA}"
)
