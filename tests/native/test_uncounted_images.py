# SPDX-License-Identifier: Apache-2.0
"""Libraries of NVIDIA's driver under a CPU engine: their code is not the program's."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.probes import require_cpu
from tests.support.run import output, xpuprof
from xpuprof.engines.cpu.valgrind import Valgrind
from xpuprof.trace.run import Run
from xpuprof.trace.slice_times import main_process

pytestmark = pytest.mark.valgrind

DRIVER = ["libcuda.so.580.1", "libcudart.so.13", "libcupti.so.13", "libnvidia-ml.so.1"]


def test_code_of_nvidias_libraries_is_not_counted(tmp_path: Path) -> None:
    """GIVEN a program that works in its own library and in some named as NVIDIA's WHEN profiled
    THEN its own code and its library's are counted, and none of NVIDIA's."""
    require_cpu(Valgrind())
    names = [*DRIVER, "libcudaless.so"]
    (tmp_path / "work.c").write_text("int NAME(int n) { return n ? 1 + NAME(n / 2) : 0; }")
    libraries = []
    for i, name in enumerate(names):
        libraries.append(tmp_path / name)
        made = ["-shared", "-fPIC", f"-DNAME=work{i}", "-o", libraries[-1]]
        output(["cc", *made, f"-Wl,-soname,{name}", tmp_path / "work.c"])
    declared = "".join(f"int work{i}(int);" for i in range(len(names)))
    calls = " + ".join(f"work{i}(9)" for i in range(len(names)))
    (tmp_path / "main.c").write_text(f"{declared} int main(void) {{ return {calls} != 20; }}")
    program = tmp_path / "program"
    found = f"-Wl,-rpath,{tmp_path}"
    output(["cc", "-o", program, tmp_path / "main.c", *libraries, found])
    options = ["--cpu", "valgrind", "--gpu", "none", "-q", "-o", tmp_path / "run"]
    xpuprof("profile", *options, "--", program, check=True)
    profile = Run.open(tmp_path / "run").profile
    assert profile is not None
    counted = {Path(path).name for path in main_process(profile).images["path"]}
    assert {"program", "libcudaless.so"} <= counted
    assert counted.isdisjoint(DRIVER)
