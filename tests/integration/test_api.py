# SPDX-License-Identifier: Apache-2.0
"""The Python API as a user writes it: a real program, its run, selections and estimates."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import xpuprof
from tests.support.compile import opencl_program
from tests.support.probes import require_opencl
from tests.support.run import python
from tests.support.run import xpuprof as xpuprof_command

pytestmark = pytest.mark.opencl
STEPS = 30


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`run`: a complete run of the program `steps` without a CPU engine."""
    require_opencl()
    made = tmp_path_factory.mktemp("api")
    app = opencl_program("steps", made)
    code = (
        "import xpuprof, sys\n"
        "done = xpuprof.run(sys.argv[2:], output=sys.argv[1], cpu='none', repeat=3)\n"
        "assert done.result is not None, done.unfinished\n"
        "print(done.ending.exit_code)"
    )
    assert python(code, made / "run", app, STEPS).splitlines()[-1] == "0"
    return made


@pytest.fixture(scope="module")
def run(folder: Path) -> xpuprof.Run:
    return xpuprof.open(folder / "run")


def test_slices_and_kernels_are_tables_with_times(run: xpuprof.Run) -> None:
    """GIVEN a run with timer runs THEN slices and kernels add up to the measured time, and a
    kernel's share is of the device's time: start-up is no kernel's."""
    assert run.status == "complete" and not run.imported
    assert run.slice_times is not None
    total = float(np.median(run.slice_times.sum(axis=1)))
    assert run.slices["time"].sum() == pytest.approx(total)
    assert run.kernels["time"].sum() == pytest.approx(total)
    assert run.kernels["calls"].sum() == len(run.slices)
    assert run.kernels["share"].is_monotonic_decreasing
    device = run.kernels["device_time"]
    assert 0.0 < device.sum() < total and device["SYS_exit"] == 0.0
    assert np.allclose(run.kernels["share"], device / device.sum())


def test_a_selection_is_made_written_read_and_estimated(run: xpuprof.Run, tmp_path: Path) -> None:
    """GIVEN a method WHEN selected, written and read THEN it projects the same time."""
    chosen = run.select("stem-root", seed=3, epsilon=0.02)
    assert chosen.method == "stem-root" and chosen.seed == 3
    chosen.write(tmp_path / "chosen.json")
    again = xpuprof.Selection.read(tmp_path / "chosen.json")
    assert again.representatives == chosen.representatives
    estimate = run.estimate(again)
    assert estimate.low is not None and estimate.high is not None
    assert estimate.low <= estimate.value <= estimate.high
    assert estimate == run.estimate(chosen)


def test_without_arguments_a_run_uses_its_own_selection(run: xpuprof.Run) -> None:
    """GIVEN the selection that `run` wrote by measured times THEN the default method makes it
    again."""
    assert run.selection is not None
    again = run.select(expected_error=0.01)
    assert again.representatives == run.selection.representatives
    assert run.estimate() == run.estimate(again)


def test_methods_are_compared_in_a_table(run: xpuprof.Run) -> None:
    """GIVEN two methods THEN the table has a row for each with its error."""
    table = xpuprof.compare(run, methods=["random", "stem-root"], repeats=3).table
    assert list(table.index) == ["random", "stem-root"]
    assert (table["error_mean"] >= 0.0).all()


def test_objects_say_what_they_are(run: xpuprof.Run) -> None:
    """GIVEN a notebook THEN a run and a selection show what matters, escaped."""
    assert "complete" in repr(run) and str(run.path) in repr(run)
    assert "<table" in run._repr_html_() and "&lt;xpuprof.Run" in run._repr_html_()
    chosen = run.select("random", n=5)
    assert "random" in repr(chosen) and "5 of" in repr(chosen)
    assert "<table" in chosen._repr_html_() and "SYS_exit" not in chosen._repr_html_()


def test_an_import_is_a_run(tmp_path: Path) -> None:
    """GIVEN a table from another tool THEN its run has slices, kernels, selections and
    estimates."""
    rows = "".join(f"k{i % 3},{10 + i % 3 + i % 7}\n" for i in range(200))
    (tmp_path / "t.csv").write_text("NAME,DURATION\n" + rows)
    columns = ["kernel=NAME", "time=DURATION:us"]
    made = xpuprof.import_(tmp_path / "t.csv", tmp_path / "imported", columns=columns)
    assert made.slices == 200
    run = xpuprof.open(tmp_path / "imported")
    assert run.imported and set(run.kernels.index) == {"k0", "k1", "k2"}
    chosen = run.select("stem-root")
    estimate = run.estimate(chosen)
    assert estimate.value == pytest.approx(run.slices[run.metric].sum(), rel=0.05)


def test_errors_are_one_sentence(run: xpuprof.Run, tmp_path: Path) -> None:
    """GIVEN wrong input THEN an XpuprofError says what is wrong."""
    with pytest.raises(xpuprof.XpuprofError, match="does not exist"):
        xpuprof.open(tmp_path / "nothing")
    with pytest.raises(xpuprof.XpuprofError, match="no method 'best'"):
        run.select("best")
    with pytest.raises(xpuprof.XpuprofError, match="has no option 'speed'"):
        run.select("stem-root", speed=11)


def test_importing_the_package_is_light() -> None:
    """GIVEN a program that only marks windows THEN no table library is loaded."""
    code = "import sys, xpuprof\nwith xpuprof.window('w'): pass\nprint('numpy' in sys.modules)"
    assert python(code).strip() == "False"


def test_every_name_resolves_and_is_typed(tmp_path: Path) -> None:
    """GIVEN a user's script THEN mypy sees the types behind each public name."""
    assert all(getattr(xpuprof, name) is not None for name in xpuprof.__all__)
    script = tmp_path / "script.py"
    script.write_text(
        "import xpuprof\n"
        "run = xpuprof.open('RUN')\n"
        "reveal_type(run.select('stem-root'))\n"
        "reveal_type(run.estimate().low)\n"
        "reveal_type(xpuprof.profile(['./app']).ending.exit_code)\n"
    )
    mypy = [sys.executable, "-m", "mypy", "--strict", str(script)]
    shown = subprocess.run(mypy, capture_output=True, text=True).stdout
    assert 'Revealed type is "xpuprof.selection.selection.Selection"' in shown
    assert shown.count("Revealed type") == 3 and "error" not in shown and "Any" not in shown


def test_arguments_may_be_numbers_and_paths(folder: Path, tmp_path: Path) -> None:
    """GIVEN a path and a number on the command line THEN they reach the program, and the run opens;
    a string instead of a list is refused before anything runs."""
    code = (
        "import pathlib, sys, xpuprof\n"
        "xpuprof.profile([pathlib.Path(sys.argv[1]), 5], output=sys.argv[2], cpu='none')"
    )
    python(code, folder / "steps", tmp_path / "run")
    assert xpuprof.open(tmp_path / "run").manifest["argv"][1:] == ["5"]
    with pytest.raises(xpuprof.XpuprofError, match="a list of words"):
        xpuprof.run("steps", output=tmp_path / "no")
    assert not (tmp_path / "no").exists()


def test_a_profile_that_fails_is_the_reason(folder: Path, tmp_path: Path) -> None:
    """GIVEN a program that fails in its second execution alone THEN the run says so, with the
    native exit code, and writes no selection."""
    seen, app = tmp_path / "seen", folder / "steps"
    script = f"echo >> {seen}; [ $(wc -l < {seen}) = 2 ] && exit 3; exec {app} 6"
    command = ["run", "--cpu", "none", "--repeat", "1", "-o", tmp_path / "r f", "--"]
    done = xpuprof_command(*command, "sh", "-c", script)
    assert done.returncode == 3 and b"exit code 3 in profile" in done.stderr, done.stderr
    assert not (tmp_path / "r f" / "selection.json").exists()
