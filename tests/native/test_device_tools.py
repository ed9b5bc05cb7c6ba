# SPDX-License-Identifier: Apache-2.0
"""The tools that check runs on silicon (tools/device), on runs of the stand-ins: they accept
correct runs and name errors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest

import xpuprof
from tests.native.test_nvbit_host import program, record_run  # noqa: F401 (a fixture)
from tests.support.cuda_parts import build
from tests.support.paths import BUILT
from tests.support.run import run_text
from tests.support.run import xpuprof as run_xpuprof
from xpuprof.engines.gpu.cuda import Cuda

pytestmark = [pytest.mark.cuda, pytest.mark.slow]

TOOLS = Path(__file__).parents[2] / "tools" / "device"


def tool(name: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Runs a tool."""
    return run_text([sys.executable, TOOLS / name, *arguments])


def executable(path: Path, text: str) -> None:
    """A script of bash."""
    path.write_text(f"#!/bin/bash\n{text}\n")
    path.chmod(0o755)


@pytest.mark.timeout(900)
def test_the_script_runs_without_attendance(tmp_path: Path) -> None:
    """GIVEN the stand-in driver, a compiler that makes programs for it, and no NVBit kit WHEN the
    script runs twice THEN it builds once, absent engines are no failures, a check that fails is
    counted and the others go on, and everything is in one file, versions in its tables."""
    driver, work, results = tmp_path / "driver", tmp_path / "work", tmp_path / "results.tar.gz"
    for folder in (driver, tmp_path / "bin"):
        folder.mkdir()
    build(driver)
    launches = f"{driver}/program {driver}/k.cubin dense 30"
    executable(tmp_path / "exact", "exit 3")
    executable(tmp_path / "launches", f"{launches} && echo 0.5")
    executable(tmp_path / "particles", launches)
    compiler = (
        """while [ $# -gt 0 ]; do [ "$1" = -o ] && to=$2; from=$1; shift; done
    [[ $from = *.cu ]] || { echo first; echo nvcc of the test; echo last; exit; }
    """
        + f'name=$(basename $from .cu); cp "{tmp_path}/$name" $to'
    )
    executable(tmp_path / "bin" / "nvcc", compiler)
    environment = os.environ | {
        "LD_LIBRARY_PATH": str(driver),
        "PACKAGE": str(BUILT.parent.parent),
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        "PYTHON": sys.executable,
        "WORK": str(work),
        "XDG_CACHE_HOME": str(tmp_path),
        "XPUPROF_CUPTI": str(driver / "libcuda.so.1"),
    }
    environment.pop("NVBIT_ROOT", None)
    script: list[object] = ["bash", TOOLS / "nvidia_checks.sh", results]
    first = run_text([*script, "graph", "many"], environment=environment, timeout=600)
    assert first.returncode == 1, first.stdout
    assert "== graph-ptx: failed (2)" in first.stdout  # the stand-in lacks what ptx needs
    assert "== many-cuda: passed" in first.stdout
    assert "== nvbit: absent, skipped" in first.stderr
    again = run_text([*script, "torch"], environment=environment, timeout=600)
    assert "== build: already done" in again.stdout
    with tarfile.open(results) as packed:
        tables = packed.extractfile("results/tables.md")
        assert tables is not None
        text = tables.read().decode()
    assert "- versions: nvcc of the test" in text
    assert "- log: == many-cuda: passed" in text


def test_exactness_is_judged(program: Path, tmp_path: Path) -> None:  # noqa: F811
    """GIVEN the counts of the stand-in's device WHEN compared with the run THEN every launch is
    exact, and a count that is off by one is reported."""
    ran, run = record_run(program, tmp_path / "run")
    _, lane_run = record_run(program, tmp_path / "lane", XPUPROF_COUNT_UNIT="lane")
    lines = [
        {"kernel": name, "blocks": 1, "counts": counts[:, 0].tolist()}
        for name, counts in ran.expected
    ]
    expected = tmp_path / "expected"
    expected.write_text("".join(json.dumps(line) + "\n" for line in lines))
    good = tool("nvidia_exact.py", run, expected, "--lanes", lane_run)
    assert good.returncode == 0, good.stdout
    assert f"{len(lines)} of {len(lines)} launches exact" in good.stdout
    assert tool("nvidia_exact.py", run, expected, "--lanes", run).returncode == 1  # the wrong run
    two = lines[5] | {"blocks": 2, "counts": ran.expected[5][1][:, :2].sum(axis=1).tolist()}
    expected.write_text("".join(json.dumps(line) + "\n" for line in [*lines[:5], two, *lines[6:]]))
    assert tool("nvidia_exact.py", run, expected, "--lanes", lane_run).returncode == 0
    counts = np.array(lines[5]["counts"])
    lines[5]["counts"] = [*counts[:-1].tolist(), int(counts[-1]) + 1000]
    expected.write_text("".join(json.dumps(line) + "\n" for line in lines))
    bad = tool("nvidia_exact.py", run, expected, "--lanes", lane_run)
    assert bad.returncode == 1 and bad.stdout.count("WRONG") == 1


def test_instructions_are_judged(program: Path, tmp_path: Path) -> None:  # noqa: F811
    """GIVEN what Nsight Compute would print of the stand-in's launches, among the program's own
    lines WHEN compared with the run THEN launches are equal, and one that is not is reported."""
    _, run = record_run(program, tmp_path / "run")
    profile = xpuprof.open(run).profile
    assert profile is not None
    process = profile.processes[0]
    warps = process.slices["gpu_instructions"].tolist()[:-1]
    lanes = process.launches["lane_instructions"].tolist()

    def printed() -> str:
        rows = []
        for i, (warp, lane) in enumerate(zip(warps, lanes, strict=True)):
            rows.append(f'"{i}","a kernel","smsp__inst_executed.sum","{warp:,}"')
            rows.append(f'"{i}","a kernel","smsp__thread_inst_executed.sum","{lane:,}"')
        head = '==PROF== Profiling\n"ID","Kernel Name","Metric Name","Metric Value"'
        return "\n".join([head, *rows[:50], "the program says", *rows[50:]])

    shown = tmp_path / "ncu.csv"
    shown.write_text(printed())
    good = tool("nvidia_counts.py", run, shown)
    assert good.returncode == 0, good.stdout
    for unit in ("warp", "lane"):
        every = f"{unit} instructions as counted by the hardware: {len(warps)} of {len(warps)}"
        assert every in good.stdout
    lanes[7] += 1
    shown.write_text(printed())
    bad = tool("nvidia_counts.py", run, shown)
    assert bad.returncode == 1 and bad.stdout.count("1 launches differ") == 1


def test_coverage_is_judged(tmp_path: Path) -> None:
    """GIVEN a run of the stand-in driver WHEN its profile and timer run are compared THEN both saw
    the same."""
    build(tmp_path)
    stand_in = {
        "LD_LIBRARY_PATH": str(tmp_path),
        "XPUPROF_CUPTI": str(tmp_path / "libcuda.so.1"),
        "XDG_CACHE_HOME": str(tmp_path),
    }
    options = ["--gpu", Cuda.name, "--cpu", "none", "--repeat", "1", "-q", "-o", "run"]
    ours = [tmp_path / "program", tmp_path / "k.cubin", "dense", "30"]
    environment = os.environ | stand_in
    run_xpuprof("run", *options, "--", *ours, cwd=tmp_path, environment=environment, check=True)
    done = tool("nvidia_coverage.py", tmp_path / "run", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert "same kernel in the same place: 30 of 30; same program hash: 30 of 30" in done.stdout


def test_tables_are_made(tmp_path: Path) -> None:
    """GIVEN the sections' output WHEN made into tables THEN they hold the figures, without sections
    that did not run."""
    ways = "launches microseconds native timer_async timer_sync nvbit"
    (tmp_path / "overhead.txt").write_text(f"{ways}\n100000 0 0.2 0.25 0.9 3.2\n")
    (tmp_path / "versions.txt").write_text("a GPU, 580.1\nrelease 13.0\n")
    method = {"method": "sieve", "samples": 5.0, "error_mean": 0.0123, "time_speedup": 63.4}
    found = {"slices": 317, "methods": [{**method, "interval_rel": None}]}
    (tmp_path / "compare-particles.txt").write_text(json.dumps(found) + "\n")
    row = {"cpu": "valgrind", "gpu": "cuda", "fault": "the probe stopped"}
    (tmp_path / "doctor.json").write_text(json.dumps({"carry_the_cuda_driver": [row]}))
    text = tool("nvidia_tables.py", tmp_path).stdout
    assert "| particles | 317 | sieve | 5 | 1.23 % | - | 63.4x |" in text
    assert "| 100000 of 0 us | 0.2000 s | 1.250x, +0.50 us | 4.500x, +7.00 us | 16.000x," in text
    assert "| valgrind | cuda | the probe stopped |" in text
    assert "- versions: a GPU, 580.1\n- versions: release 13.0\n" in text
    assert "Exactness" not in text
