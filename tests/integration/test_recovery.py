"""A program whose slices are known by construction is recovered, CPU and GPU part."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.command import xpuprof
from xpuprof.engines.cpu.valgrind import Valgrind
from xpuprof.engines.gpu.opencl import OpenCl
from xpuprof.selection.file import read_selection

SOURCE = Path(__file__).parent / "programs" / "phases.c"

pytestmark = [
    pytest.mark.opencl,
    pytest.mark.valgrind,
    pytest.mark.skipif(
        not (OpenCl().probe().available and Valgrind().probe().available),
        reason="needs the engines opencl and valgrind; see xpuprof doctor",
    ),
]


@pytest.fixture(scope="module")
def profiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program's profile."""
    folder = tmp_path_factory.mktemp("phases")
    subprocess.run(["cc", "-O1", str(SOURCE), "-o", str(folder / "phases"), "-lOpenCL"], check=True)
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
    labels = read_selection(profiled / "selection.json").labels
    assert len(labels) == 37
    first, second, third = (set(labels[i + 2 : i + 12].tolist()) for i in (0, 12, 24))
    assert len(first) == len(second) == len(third) == 1
    assert first != second
    assert (first == third) == third_is_first
    assert labels[0] not in first and labels[36] not in third, "start and exit stand for themselves"
