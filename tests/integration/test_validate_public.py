# SPDX-License-Identifier: Apache-2.0
"""Selections across two vendors' devices: launch sequences differ, operators do not."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.run import xpuprof
from xpuprof.methods import registry
from xpuprof.selection.identity import Identity
from xpuprof.trace.sequence import launch_sequence
from xpuprof.validation.align import align
from xpuprof.validation.timed import open_timed
from xpuprof.workflow.subjects import open_subject

DATA = ROOT.parent / "shared/data/kineto"


def bring(source: Path, run: Path) -> Path:
    done = xpuprof("import", source, "-o", run, "-q")
    assert done.returncode == 0, done.stderr.decode()
    return run


def trace(path: Path, kernels: list[tuple[str, str]]) -> Path:
    """A Kineto trace: kernels, each launched by a call inside an operator ("" for none)."""
    events = []
    for i, (name, operator) in enumerate(kernels):
        at, thread = 100.0 + 10 * i, {"pid": 1, "tid": 2}
        link = {"correlation": i, "External id": i}
        events.append({"ph": "X", "cat": "kernel", "name": name, "ts": at + 2, "dur": 5.0,
                       "args": {"device": 0, "stream": 7, **link}})  # fmt: skip
        events.append({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": at,
                       "dur": 0.5, **thread, "args": link})  # fmt: skip
        if operator:
            events.append({"ph": "X", "cat": "cpu_op", "name": operator, "ts": at - 1, "dur": 3.0,
                           **thread, "args": {"External id": i}})  # fmt: skip
    path.write_text(json.dumps({"traceEvents": events}))
    return path


def test_kernels_of_another_library_meet_by_their_operator(tmp_path: Path) -> None:
    """GIVEN two recordings whose kernels have other names WHEN aligned THEN operators match."""
    mm, relu = "aten::mm", "aten::relu"
    a, b = (
        bring(trace(tmp_path / f"{name}.json", kernels), tmp_path / name)
        for name, kernels in (
            ("a", [("cutlass", mm), ("relu_a", relu)]),
            ("b", [("fill", ""), ("Cijk", mm), ("relu_b", relu)]),
        )
    )
    alignment = align(open_timed(a).slices, open_timed(b).slices)
    assert alignment.match.tolist() == [1, 2, 3]
    assert alignment.level.tolist() == [3, 3, 0]


@pytest.mark.data
@pytest.mark.slow
def test_owlv2_travels_between_vendors(tmp_path: Path) -> None:
    """GIVEN the public pair WHEN a selection of one side is moved THEN little is unknown."""
    if not DATA.exists():
        pytest.skip(f"no public profiles at {DATA}")
    runs = [bring(DATA / f"owlv2_{n}.json.gz", tmp_path / n) for n in ("h100", "mi300x")]
    subject = open_subject(runs[0])
    chosen = registry.select(subject.slices, "stem-root", seed=1)
    identity = Identity(sequence=launch_sequence(subject.profile.slices))
    replace(chosen, identity=identity).write(tmp_path / "s.json")
    refused = xpuprof("transfer", tmp_path / "s.json", *runs, "--metric", "gpu_time")
    assert refused.returncode == 3
    assert "never occurred in" in refused.stderr.decode()
    done = xpuprof("transfer", tmp_path / "s.json", *runs, "--metric", "gpu_time",
                   "--allow-missing", "--json")  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    home, abroad = json.loads(done.stdout)["runs"]
    assert home["sampling_error"] < 0.05
    assert home["differences"] == []
    assert "launch sequence differs" in abroad["differences"][0]
    assert abroad["covered"] > 0.9
    assert abroad["unknown_time_share"] < 0.01
    assert abroad["sampling_error"] < 0.10
