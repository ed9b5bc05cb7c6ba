# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's real CUPTI library without a GPU: it has every function that the timer looks up, and the
timer knows all its launch calls."""

from __future__ import annotations

import ctypes
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.run import run_text
from xpuprof.engines.gpu.cuda import cupti_library

pytestmark = pytest.mark.cuda

DISPATCH = Path(__file__).parents[2] / "native" / "gpu" / "cuda" / "dispatch.h"
INJECTION = DISPATCH.parent / "injection.cpp"


def test_cupti_has_every_function_that_is_looked_up() -> None:
    """GIVEN CUPTI from PyPI or a toolkit WHEN loaded THEN each name of dispatch.h is found."""
    path = cupti_library()
    if path is None:
        pytest.skip("libcupti.so was not found; pip install xpuprof[cuda]")
    library = ctypes.CDLL(str(path))
    names = re.findall(r"X\((cupti\w+)\)", DISPATCH.read_text())
    assert len(names) >= 15
    assert [name for name in names if not hasattr(library, name)] == []


def test_cupti_names_no_launch_call_that_is_not_decoded() -> None:
    """GIVEN CUPTI's names of the driver's calls WHEN asked for those that launch THEN each is in
    the timer's table."""
    path = cupti_library()
    if path is None:
        pytest.skip("libcupti.so was not found; pip install xpuprof[cuda]")
    # Without a driver CUPTI 13.0 answers, 13.2 crashes, 13.3 and later return status 999.
    ask = f"import ctypes as c; exit(c.CDLL('{path}').cuptiGetVersion(c.byref(c.c_uint32())))"
    if run_text([sys.executable, "-c", ask]).returncode:
        pytest.skip("this CUPTI does not answer without a driver; 13.0 does")
    library, name = ctypes.CDLL(str(path)), ctypes.c_char_p()
    found: dict[str, list[Any]] = {"driver": [], "runtime": []}
    for domain, kind in ((1, "driver"), (2, "runtime")):
        for cbid in range(1, 4096):
            if library.cuptiGetCallbackName(domain, cbid, ctypes.byref(name)) == 0:
                text = (name.value or b"").decode()
                if "Launch" in text and "HostFunc" not in text:
                    found[kind].append(text)
    known = re.findall(r"XPU_CBID\((cu\w*Launch\w*)\)", INJECTION.read_text())
    assert len(found["driver"]) >= 12 and set(found["driver"]) <= set(known)
    assert "cudaLaunchKernel_v7000" in found["runtime"]
