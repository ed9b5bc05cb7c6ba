"""NVIDIA's real CUPTI library, as far as it goes without a GPU: it has every function that the
timer looks up."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

import pytest

from xpuprof.engines.cuda import cupti_library

pytestmark = pytest.mark.cuda

DISPATCH = Path(__file__).parents[2] / "native" / "cuda" / "dispatch.h"


def test_cupti_has_every_function_that_is_looked_up() -> None:
    """GIVEN CUPTI from PyPI or a toolkit WHEN loaded THEN each name of dispatch.h is found."""
    path = cupti_library()
    if path is None:
        pytest.skip("libcupti.so was not found; pip install xpuprof[cuda]")
    library = ctypes.CDLL(str(path))
    names = re.findall(r"X\((cupti\w+)\)", DISPATCH.read_text())
    assert len(names) >= 15
    assert [name for name in names if not hasattr(library, name)] == []
