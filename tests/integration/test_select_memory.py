# SPDX-License-Identifier: Apache-2.0
"""Phases of equal code that differ in the memory that they touch, in real runs."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.compile import opencl_program
from tests.support.probes import require_opencl
from tests.support.run import last_json, xpuprof
from tests.support.run import run as run_command
from xpuprof.selection.selection import Selection


def phases(count: int) -> list[int]:
    """Which table each launch of reach.c gathers from."""
    return [p % 2 for p in range(1, count + 1) for _ in range(4 + p * 7 % 5)]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A profile with stack distances, CPU vectors left out."""
    require_opencl()
    folder = tmp_path_factory.mktemp("reach")
    compiled = opencl_program("reach", folder)
    native = run_command([compiled, "16", "8192", "6"], check=True)
    done = xpuprof("profile", "--cpu", "none", "--memory", "-o", folder / "run", "--", compiled,
                   "16", "8192", "6")  # fmt: skip
    assert (done.returncode, done.stdout) == (0, native.stdout)
    return folder / "run"


def labels(run: Path, *options: str) -> tuple[np.ndarray[Any, Any], dict[str, Any]]:
    assert xpuprof("select", run, "--force", "-q", "--no-ends", *options).returncode == 0
    selection = Selection.read(run / "selection.json")
    return selection.labels[: len(phases(6))], dict(selection.parameters)


def test_distances_tell_phases_apart_that_block_vectors_merge(run: Path) -> None:
    """GIVEN launches of one kernel and grid over a small and a large table THEN block vectors put
    them into one cluster, and stack distances separate them."""
    which = np.array(phases(6))
    merged, parameters = labels(run, "--memory-weight", "0")
    assert len(set(merged.tolist())) == 1
    assert parameters["memory_weight"] == 0.0
    apart, parameters = labels(run)
    assert parameters["memory_weight"] == 0.25
    assert len(set(apart.tolist())) > 1
    for cluster in set(apart.tolist()):
        assert len(set(which[apart == cluster].tolist())) == 1


def test_the_run_is_sound_and_shown(run: Path) -> None:
    """THEN its invariants hold, and info and exports show the recorded distances."""
    assert xpuprof("check", run).returncode == 0
    shown = last_json(xpuprof("info", run, "--json"))["memory"]["device"]
    made = len(phases(6)) * (1 << 14) * (32 + 2)
    assert (shown["launches"], shown["accesses"]) == (len(phases(6)), made)
    assert (shown["share"], shown["in_part"], shown["beyond"]) == (1.0, 0, 0)
    assert b"of them recorded" in xpuprof("info", run).stdout
    out = run.parent / "out"
    assert xpuprof("export", run, "--format", "ldv", "-o", out).returncode == 0
    lines = (run.parent / "out.device.ldv").read_text().splitlines()
    assert len(lines) == len(phases(6)) + 1 and lines[-1] == "T"
    assert xpuprof("export", run, "--format", "sqlite", "-o", out).returncode == 0
    with sqlite3.connect(out) as database:
        (lines_touched,) = database.execute(
            "select sum(count) from device_stack_distances"
        ).fetchone()
    assert lines_touched == shown["lines"]


def test_without_distances_a_weight_is_an_error(run: Path, tmp_path: Path) -> None:
    """THEN one sentence and exit code 2, before anything runs if possible."""
    done = xpuprof("run", "--memory-weight", "0.5", "-o", tmp_path / "r", "--", "true")
    assert (done.returncode, b"add --memory" in done.stderr) == (2, True)
    assert not (tmp_path / "r").exists()
    compiled = run.parent / "reach"
    xpuprof("profile", "--cpu", "none", "-o", tmp_path / "plain", "--", compiled, "16", "16", "2")
    done = xpuprof("select", tmp_path / "plain", "--memory-weight", "0.5")
    assert done.returncode == 2
    assert b"record it again with --memory" in done.stderr and b"Traceback" not in done.stderr
