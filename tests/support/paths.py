# SPDX-License-Identifier: Apache-2.0
"""The paths that tests use."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
HEADERS = ROOT / "native" / "include"
OPENCL_PROGRAMS = TESTS / "integration" / "programs"
NATIVE_TESTS = TESTS / "native"
BUILT = Path(str(files("xpuprof") / "_native"))
"""The native parts as installed."""
DATA = TESTS / "unit" / "data"
"""Files that the tools themselves wrote. rocprofv3-*.csv are from ROCm/rocprofiler-sdk
(source/docs/data), rocprof-compute-*.csv from ROCm/rocprofiler-compute (tests/workloads), both (c)
Advanced Micro Devices, Inc., MIT licence."""
PUBLIC_DATA = ROOT.parent / "shared" / "data"
"""Public kernel profiles; tests that read them skip where the folder is absent."""
