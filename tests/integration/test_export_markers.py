# SPDX-License-Identifier: Apache-2.0
"""Exported markers of a real program, located by a debugger."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from tests.support.compile import opencl_program
from tests.support.probes import require_cpu, require_opencl
from tests.support.run import run_text, xpuprof
from xpuprof.engines.cpu.valgrind import Valgrind

pytestmark = [pytest.mark.opencl, pytest.mark.valgrind, pytest.mark.slow]

BASE = 0x555555554000
"""Where Linux loads a position-independent program when addresses are not random, as in gdb."""


@pytest.mark.skipif(not shutil.which("gdb"), reason="needs gdb")
def test_markers_fire_between_the_right_launches(tmp_path: Path) -> None:
    """GIVEN regions by address WHEN the program runs in a debugger THEN each begins after the
    number of launches given by its slice."""
    require_opencl()
    require_cpu(Valgrind())
    opencl_program("steps", tmp_path, "-pie", "-fPIE").rename(tmp_path / "app")
    done = xpuprof("run", "--repeat", "1", "--start-up", "counted", "-q", "-o", "run", "--",
                   "./app", "9", cwd=tmp_path)  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    done = xpuprof("export", "run", "--format", "looppoint", "-o", "points", "--image-base",
                   hex(BASE), cwd=tmp_path)  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    points = json.loads((tmp_path / "points").read_text())
    chosen = json.loads((tmp_path / "run/selection.json").read_text())["representatives"]
    inner = [(r["slice"], points[str(i)]["simulation"]) for i, r in enumerate(chosen, start=1)
             if r["end"]["kernel"] != "SYS_exit" and r["slice"]]  # fmt: skip
    assert inner
    for number, region in inner[:3]:
        for side, launches in (("start", number), ("end", number + 1)):
            pc, count = region[side]["pc"], region[side]["global"]
            assert launches_before(tmp_path, pc, count) == launches


def launches_before(folder: Path, pc: int, count: int) -> int:
    """Launch calls that gdb counted before the `count`-th execution of `pc`."""
    commands = ["set breakpoint pending on", "starti", f"break *{pc:#x}", f"ignore 1 {count - 1}",
                "break clEnqueueNDRangeKernel", "ignore 2 1000000", "continue",
                "info breakpoints", "kill"]  # fmt: skip
    arguments = [word for command in commands for word in ("-ex", command)]
    command = ["gdb", "-q", "-nx", "-batch", *arguments, "--args", "./app", "9"]
    shown = run_text(command, cwd=folder).stdout
    assert "hit Breakpoint 1," in shown, shown
    listed = shown[shown.rindex("Num ") :]
    second = re.search(r"clEnqueueNDRangeKernel[^\n]*\n(?:\s+breakpoint already hit (\d+) time)?",
                       listed)  # fmt: skip
    assert second, listed
    return int(second[1] or 0)
