# SPDX-License-Identifier: Apache-2.0
"""The slices of a program known by construction are recovered, CPU and GPU part."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.compile import opencl_program
from tests.support.probes import require_cpu, require_opencl
from tests.support.run import xpuprof
from xpuprof.engines.cpu.valgrind import Valgrind
from xpuprof.selection.selection import Selection

pytestmark = [
    pytest.mark.opencl,
    pytest.mark.valgrind,
]


@pytest.fixture(scope="module")
def profiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program's profile."""
    require_opencl()
    require_cpu(Valgrind())
    folder = tmp_path_factory.mktemp("phases")
    opencl_program("phases", folder)
    done = xpuprof("profile", "-q", "-o", folder / "run", "--", folder / "phases")
    assert done.returncode == 0, done.stderr.decode()
    return folder / "run"


@pytest.mark.parametrize(("method", "third_is_first"), [("xpu-point", False), ("gpu-point", True)])
def test_phases_are_the_clusters(profiled: Path, method: str, third_is_first: bool) -> None:
    """GIVEN three phases WHEN clustered THEN each is one; without the CPU the third is the first.

    A phase's first slices may differ: they follow another phase's code.
    """
    done = xpuprof("select", "--force", "--method", method, profiled)
    assert done.returncode == 0, done.stderr.decode()
    labels = Selection.read(profiled / "selection.json").labels
    assert len(labels) == 37
    first, second, third = (set(labels[i + 2 : i + 12].tolist()) for i in (0, 12, 24))
    assert len(first) == len(second) == len(third) == 1
    assert first != second
    assert (first == third) == third_is_first
    assert labels[0] not in first and labels[36] not in third, "start and exit stand for themselves"
