# SPDX-License-Identifier: Apache-2.0
"""Programs that launch other kernels under the profile than natively, or in each run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.compile import opencl_program
from tests.support.run import last_json, xpuprof

pytestmark = pytest.mark.opencl


def result(tmp_path: Path, script: str) -> dict[str, object]:
    """The JSON object of a run of a shell script that starts $steps."""
    steps = opencl_program("steps", tmp_path)
    line = ["sh", "-c", script.replace("$steps", str(steps))]
    done = xpuprof("run", "--json", "--cpu", "none", "-o", tmp_path / "run", "--", *line)
    assert done.returncode == 0, done.stderr
    return last_json(done)


def test_launches_that_differ_under_the_profile(tmp_path: Path) -> None:
    """GIVEN a program that launches two kernels more under the profile WHEN it is run THEN there is
    a result, with the native time, that is marked and names the first difference and its cause."""
    found = result(tmp_path, '[ "$XPUPROF_MODE" = profile ] && n=14 || n=12; exec $steps $n')
    reasons = str(found["unreliable"])
    assert (
        "launches other kernels under the profile than natively "
        "(slice 16: kernel grow and program exit)" in reasons
    )
    assert "only 17 of the profile's 19 slices" in reasons
    again = last_json(xpuprof("report", "--json", tmp_path / "run"))
    assert again["unreliable"] == found["unreliable"]


def test_launches_that_differ_in_each_run(tmp_path: Path) -> None:
    """GIVEN a program that launches more kernels each time it is run THEN the result says so."""
    count = tmp_path / "count"
    count.write_text("x")
    found = result(tmp_path, f"printf x >>{count}; exec $steps $(wc -c <{count})")
    assert "launches other kernels in each run (" in str(found["unreliable"])


def test_launches_that_only_native_runs_have(tmp_path: Path) -> None:
    """GIVEN a program that launches fewer kernels under the profile THEN the result says whose
    times include those of the others."""
    found = result(tmp_path, '[ "$XPUPROF_MODE" = profile ] && n=12 || n=14; exec $steps $n')
    assert "the native run's times of the profile's slices include 2 slices" in str(
        found["unreliable"]
    )


def test_a_program_that_keeps_its_results(tmp_path: Path) -> None:
    """GIVEN a program that launches kernels only the first time THEN there is no result, the reason
    is named, and the run is partial for `check`."""
    steps, run = opencl_program("steps", tmp_path), tmp_path / "run"
    once = f"[ -e {tmp_path}/kept ] || {steps} 12; touch {tmp_path}/kept"
    done = xpuprof("run", "--cpu", "none", "-o", run, "--", "sh", "-c", once)
    assert done.returncode == 3
    assert b"kernels in first and none in profile" in done.stderr
    assert xpuprof("check", run).returncode == 3
    assert not (run / "time-0").exists()
