# SPDX-License-Identifier: Apache-2.0
"""A selection made from a real program, compared with other executions and builds of it."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.compile import opencl_program
from tests.support.probes import require_opencl
from tests.support.run import last_json, xpuprof
from xpuprof.trace.losses import DISK_FULL

pytestmark = pytest.mark.opencl


def build(target: Path, *flags: str) -> Path:
    made = opencl_program("steps", target.parent, "-Wl,--build-id", *flags)
    return made.rename(target)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program `app`, and `run`, its run of 6 steps with one representative per kernel."""
    require_opencl()
    made = tmp_path_factory.mktemp("validate")
    build(made / "app")
    done = xpuprof("run", "--cpu", "none", "--repeat", "1", "-o", "run", "--json",
                   "--method", "gpu-point", "--", "./app", "6", cwd=made)  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    assert last_json(done)["slices"] == 9
    return made


def selection(folder: Path) -> dict:
    return json.loads((folder / "run/selection.json").read_text())


def test_the_same_program_passes(folder: Path) -> None:
    """GIVEN a selection WHEN its program runs again THEN every marker fires and nothing differs."""
    done = xpuprof("validate", "run/selection.json", "--repeat", "2", "--json", "-o", "B", "--",
                   "./app", "6", cwd=folder)  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.startswith(b"value ")
    answer = last_json(done)
    assert answer["same"] is True, answer["differences"]
    assert answer["differences"] == []
    assert answer["missing"] == []
    assert answer["covered"] == 1.0
    assert answer["slices"] == 9
    projected = sum(r["time_s"] * r["multiplier"] for r in answer["representatives"])
    assert answer["projected_s"] == pytest.approx(projected)
    assert answer["sampling_error"] == pytest.approx(abs(1 - projected / answer["measured_s"]))
    low, high = answer["interval_s"]
    assert low <= answer["projected_s"] <= high
    manifest = json.loads((folder / "B/manifest.json").read_text())
    timed = [e for e in manifest["executions"] if e["role"] == "time"]
    assert len(timed) == 2
    ticks = [e["tsc_end"] - e["tsc_start"] for e in timed]
    hz = manifest["clock"]["tsc_hz"]
    assert answer["measured_s"] == pytest.approx(sum(ticks) / len(ticks) / hz, rel=1e-6)

    table = xpuprof("transfer", "run/selection.json", "run", "B", "--json", cwd=folder)
    rows = json.loads(table.stdout)["runs"]
    assert [row["run"] for row in rows] == ["run", "B"]
    assert rows[1]["measured_s"] == pytest.approx(answer["measured_s"])
    assert rows[0]["relative_error"] == 0.0


def test_regions_are_timed(folder: Path) -> None:
    """GIVEN a selection and a kernel by hand WHEN timed THEN their slices' times are reported."""
    done = xpuprof("time", "--regions", "run/selection.json", "--kernel", "grow:2:2", "--warmup",
                   "1", "--repeat", "1", "--json", "-o", "T", "--force", "--", "./app", "6",
                   cwd=folder)  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    answer = last_json(done)
    regions = answer["regions"]
    chosen = [r["slice"] for r in selection(folder)["representatives"]]
    assert [r["slice"] for r in regions] == [*chosen, 1, 2]
    assert [(r["kernel"], r["call"]) for r in regions[-2:]] == [("grow", 2), ("grow", 3)]
    assert regions[-1]["warmup_s"] == pytest.approx(regions[-2]["seconds"])
    assert 0 < sum(r["seconds"] for r in regions[-2:]) < answer["seconds"][0]
    missing = xpuprof("time", "--kernel", "grow:7", "--repeat", "1", "-o", "T", "--force", "--",
                      "./app", "6", cwd=folder)  # fmt: skip
    assert missing.returncode == 3
    assert "grow was called 6 times in this run" in missing.stderr.decode()


def test_a_region_that_never_occurs_is_an_error(folder: Path) -> None:
    """GIVEN a selection of 6 steps WHEN 1 step runs THEN exit code 3 names what is missing."""
    done = xpuprof(
        "validate", "run/selection.json", "--repeat", "1", "--", "./app", "1", cwd=folder
    )
    assert done.returncode == 3
    assert done.stdout.decode().splitlines()[1:] == []
    message = done.stderr.decode().strip()
    assert "never occurred in this run: kernel " in message
    assert "--allow-missing" in message
    assert message.count("\n") == 0


def test_allow_missing_states_the_covered_share(folder: Path) -> None:
    """GIVEN the same WHEN missing regions are allowed THEN the covered share is stated."""
    done = xpuprof("validate", "run/selection.json", "--repeat", "1", "--allow-missing", "--json",
                   "--", "./app", "1", cwd=folder)  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    answer = last_json(done)
    assert answer["missing"]
    assert 0.0 < answer["covered"] < 1.0
    assert answer["slices"] == 2
    assert "launch sequence differs" in answer["differences"][0]


def test_a_recording_that_was_lost_is_no_validation(folder: Path, small_disk: Path) -> None:
    """GIVEN a disk without room for the trace THEN the program succeeds, and the reason and the
    exit code say that there is no result."""
    done = xpuprof("validate", "run/selection.json", "--json", "-o", small_disk / "V", "--",
                   "./app", "4000", cwd=folder)  # fmt: skip
    assert done.returncode == 3 and last_json(done)["exit_code"] == 0
    assert DISK_FULL in last_json(done)["reason"]


def test_the_next_step_leaves_out_what_this_one_did(folder: Path) -> None:
    """GIVEN a kept validation that left regions out THEN the next command does, too: without that
    it would fail."""
    done = xpuprof("validate", "run/selection.json", "--repeat", "1", "--allow-missing", "-o", "W",
                   "--", "./app", "1", cwd=folder)  # fmt: skip
    said = "next: xpuprof transfer --allow-missing run/selection.json RUN_ON_A W\n"
    assert said in done.stderr.decode()


def test_another_build_is_named(folder: Path) -> None:
    """GIVEN a selection WHEN another build of the program runs THEN the build is named."""
    build(folder / "new/app", "-DVARIANT=1")
    document = selection(folder)
    assert any(path.endswith("/app") and identity for path, identity in
               document["identity"]["images"])  # fmt: skip
    done = xpuprof("validate", "run/selection.json", "--repeat", "1", "--json", "--", "new/app",
                   "6", cwd=folder)  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    answer = last_json(done)
    assert answer["same"] is False
    assert "a different build" in answer["differences"][0]


def test_inputs_are_compared_when_asked(folder: Path) -> None:
    """GIVEN a selection that remembers its input WHEN that changes THEN the file is named."""
    (folder / "data").mkdir()
    (folder / "data/in.txt").write_text("6\n")
    made = xpuprof("select", "run", "--method", "gpu-point", "--input", "data", "-o", "S",
                   cwd=folder)  # fmt: skip
    assert made.returncode == 0, made.stderr.decode()
    arguments = ("validate", "S/selection.json", "--repeat", "1", "--json", "--", "./app", "6")
    assert last_json(xpuprof(*arguments, cwd=folder))["differences"] == []
    (folder / "data/in.txt").write_text("7\n")
    answer = last_json(xpuprof(*arguments, cwd=folder))
    assert answer["differences"] == ["input data/in.txt has changed"]


def test_another_program_is_refused(folder: Path) -> None:
    """GIVEN a selection WHEN another program runs THEN one sentence and exit code 2."""
    build(folder / "other/app", "-DOTHER")
    done = xpuprof("validate", "run/selection.json", "--repeat", "1", "--", "other/app", "6",
                   cwd=folder)  # fmt: skip
    assert done.returncode == 2
    assert "none of its kernels ran in this run" in done.stderr.decode()


def test_the_programs_exit_code_is_ours(folder: Path) -> None:
    """GIVEN a program that exits with 42 WHEN validated THEN xpuprof does too, with a result."""
    done = xpuprof("validate", "run/selection.json", "--repeat", "1", "--json", "--", "./app", "6",
                   "42", cwd=folder)  # fmt: skip
    assert done.returncode == 42
    assert last_json(done)["exit_code"] == 42


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda text: re.sub(r'"version": \d+', '"version": 99', text, count=1), "reads up to"),
        (lambda text: re.sub(r"\"version\": \d+", '"version": 99', text, count=1), "reads up to"),
        (lambda text: text[:200], "not a selection file"),
    ],
)
def test_bad_selections_stop_before_the_program_starts(
    folder: Path, tmp_path: Path, change: Any, said: str
) -> None:
    """GIVEN a selection that cannot be trusted THEN the program is not even started."""
    bad = tmp_path / "bad.json"
    bad.write_text(change((folder / "run/selection.json").read_text()))
    done = xpuprof("validate", bad, "-o", tmp_path / "B", "--", "./app", "6", cwd=folder)
    assert done.returncode == 2
    assert said in done.stderr.decode()
    assert done.stdout == b""
    assert sorted(os.listdir(tmp_path)) == ["bad.json"]


def test_no_program(folder: Path) -> None:
    """GIVEN no program after -- THEN the recorded command is run, after saying so."""
    done = xpuprof("validate", "run/selection.json", cwd=folder)
    assert done.returncode == 0
    assert "the recorded command" in done.stderr.decode()
