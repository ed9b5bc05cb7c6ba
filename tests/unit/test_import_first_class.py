# SPDX-License-Identifier: Apache-2.0
"""Imports go through every command that a recording goes through."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

import xpuprof
from tests.support.profiles import PID, RAW, event, nsight, reference
from tests.support.run import xpuprof as command
from tests.support.run import xpuprof_text
from xpuprof.errors import UsageError
from xpuprof.methods import registry
from xpuprof.methods.profile import NeedsError
from xpuprof.workflow.subjects import imported_profile

KERNELS = [(100 * i, 100 * i + 20 + i % 7, i % 2, 7, i % 2 + 1, PID) for i in range(1, 10)]


@pytest.fixture
def timeline(tmp_path: Path) -> Path:
    """Nine kernels of two kinds on two GPUs."""
    xpuprof.import_(nsight(tmp_path / "r.sqlite", KERNELS), tmp_path / "run")
    return tmp_path / "run"


def test_info_shows_launches_and_the_time_of_each_kernel(timeline: Path) -> None:
    text = xpuprof_text("info", timeline, check=True).stdout
    assert "launches  9 of 2 kernels, 0.204 us in all (gpu_time)" in text
    assert [line.split()[:3] for line in text.splitlines() if line[:3] in ("add", "mul")] == [
        ["mul", "5", "0.111"],
        ["add", "4", "0.0930"],
    ]
    found = json.loads(command("info", "--json", timeline, check=True).stdout)
    assert found["imported_metric"] == "gpu_time"
    assert [(k["kernel"], k["calls"]) for k in found["kernels"]] == [("mul", 5), ("add", 4)]
    assert sum(k["share"] for k in found["kernels"]) == pytest.approx(1)


def test_info_adds_up_kernels_of_equal_short_names(tmp_path: Path) -> None:
    """GIVEN instances of one template THEN info has one row for them; --full-names has each."""
    table = tmp_path / "t.csv"
    table.write_text('kernel,time_us\n"f<int>(int)",2\n"f<float>(float)",5\n"g()",6\n')
    xpuprof.import_(table, tmp_path / "run")
    text = xpuprof_text("info", tmp_path / "run", check=True).stdout
    assert [line.split()[:4] for line in text.splitlines() if line[:2] in ("f ", "g ")] == [
        ["f", "2", "2", "7.00"],
        ["g", "1", "1", "6.00"],
    ]
    assert "--full-names lists them" in text
    full = xpuprof_text("info", tmp_path / "run", "--full-names", check=True).stdout
    assert "f<float>(float)" in full and "variants" not in full


def test_select_names_the_method_that_fits(timeline: Path) -> None:
    done = xpuprof_text("select", timeline, check=True)
    assert (
        "holds no basic-block vectors, so the method is xpu-stem; --method NAME takes"
        in done.stderr
    )
    assert xpuprof.open(timeline).selection.method == "xpu-stem"  # type: ignore[union-attr]
    assert xpuprof.open(timeline).select().method == "xpu-stem"


@pytest.mark.parametrize(
    ("name", "text", "method", "lacked"),
    [
        ("n.csv", RAW, "xpu-stem", "basic-block vectors"),
        (
            "t.csv",
            "kernel,inst_executed\na,1\nb,2\n",
            "sieve",
            "basic-block vectors or slice times",
        ),
        (
            "t.csv",
            "kernel,misses\na,1\nb,2\n",
            "random",
            "basic-block vectors, slice times or instruction counts",
        ),
    ],
)
def test_the_method_follows_from_what_was_imported(
    tmp_path: Path, name: str, text: str, method: str, lacked: str
) -> None:
    (tmp_path / name).write_text(text)
    xpuprof.import_(tmp_path / name, tmp_path / "run")
    found, why = registry.fitting(imported_profile(tmp_path / "run"))
    assert (found, why) == (method, f"{tmp_path}/run holds no {lacked}")


def test_vectors_are_clustered(tmp_path: Path) -> None:
    xpuprof.import_(reference(tmp_path / "ref"), tmp_path / "run")
    assert registry.fitting(imported_profile(tmp_path / "run")) == (registry.default(), "")


def test_a_selection_is_aligned_by_operators_with_another_machine(tmp_path: Path) -> None:
    """GIVEN recordings of the same operators, whose kernels have other names and which differ in
    length THEN the command finds the regions by the launch sequence that the selection carries."""
    for machine, names in (("a", ("gemm_sm90", "copy")), ("b", ("Cijk_Ailk", "copy_kernel"))):
        events = []
        for i in range(12 + (machine == "b")):
            operator, at = ("aten::mm", "aten::copy_")[i % 2], 100.0 * i
            events += [
                event("cpu_op", operator, at, 20),
                event("cuda_runtime", "launch", at + 5, 2, correlation=i),
                event("kernel", names[i % 2], at + 30, 10 + 5 * (i % 2), correlation=i),
            ]
        (tmp_path / f"{machine}.json").write_text(json.dumps(events))
        xpuprof.import_(tmp_path / f"{machine}.json", tmp_path / machine)
    command("select", tmp_path / "a", check=True)
    done = command(
        "transfer", tmp_path / "a/selection.json", tmp_path / "a", tmp_path / "b",
        "--allow-missing", "--json", check=True,
    )  # fmt: skip
    abroad = json.loads(done.stdout)["runs"][1]
    assert abroad["covered"] == pytest.approx(1)
    assert abroad["sampling_error"] < 0.05


def test_a_trace_shows_each_kernel_where_it_was(timeline: Path, tmp_path: Path) -> None:
    command("select", timeline, check=True)
    target = tmp_path / "trace.json"
    command("export", timeline, "--format", "perfetto", "-o", target, check=True)
    events = json.loads(target.read_text())["traceEvents"]
    tracks = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    shown = [
        (tracks[e["tid"]], e["name"], round(e["ts"] * 1e3), round(e["dur"] * 1e3))
        for e in events
        if e.get("cat") == "kernel"
    ]
    assert shown[:2] == [
        ("device 1, stream 7", "mul", 100, 21),
        ("device 0, stream 7", "add", 200, 22),
    ]
    assert len(shown) == 9
    assert sum(e.get("cat") == "slice" for e in events) == 10
    assert any(e.get("cat") == "representative" for e in events)


def test_tables_hold_the_slices_with_their_metrics(timeline: Path, tmp_path: Path) -> None:
    command("export", timeline, "--format", "sqlite", "-o", tmp_path / "x", check=True)
    with sqlite3.connect(tmp_path / "x") as database:
        rows = database.execute("SELECT kernel, call, round(gpu_time * 1e9) FROM slices").fetchall()
    assert rows[:2] == [("mul", 1, 21), ("add", 1, 22)] and len(rows) == 10


def test_an_export_says_what_to_do_with_it(timeline: Path, tmp_path: Path) -> None:
    """GIVEN an import, which knows no program to run THEN the script's line asks for it; a trace is
    opened; a simulator's command line is filled in."""
    xpuprof.open(timeline).select().write(timeline / "selection.json")
    asked = f"xpuprof estimate {timeline}/selection.json --results"
    done = xpuprof.export(timeline, "ncu", tmp_path / "n")
    assert done.then == f"sh {tmp_path}/n/run.sh ./app args, then: {asked} {tmp_path}/n"
    done = xpuprof.export(timeline, "chrome", tmp_path / "c.json")
    assert done.then == f"open {tmp_path}/c.json in https://ui.perfetto.dev"
    done = xpuprof.export(timeline, "accelsim", tmp_path / "a")
    assert done.then.startswith(
        f"(set -a; . {tmp_path}/a/tracer.env; LD_PRELOAD=tracer_tool.so ./app"
    )
    assert f"accel-sim.out -trace {tmp_path}/a/kernelslist.g " in done.then
    assert done.then.endswith(f"then: {asked} {tmp_path}/a")
    done = xpuprof.export(timeline, "simpoint", tmp_path / "s")
    assert done.then == f"simulate the regions, then: {asked} FILE"


def test_a_source_within_the_run_that_it_would_replace_is_kept(timeline: Path) -> None:
    source = timeline / "t.csv"
    source.write_text("kernel,time_s\nk,1\n")
    with pytest.raises(UsageError, match="which holds"):
        xpuprof.import_(source, timeline, force=True)
    assert source.exists() and len(xpuprof.open(timeline).slices) == 10


@pytest.mark.parametrize("name", ["manifest.json", "selection.json", "imported/columns.json"])
def test_an_export_never_replaces_what_it_reads(timeline: Path, name: str) -> None:
    xpuprof.open(timeline).select().write(timeline / "selection.json")
    before = (timeline / name).read_bytes()
    with pytest.raises(UsageError, match="is a part of what is exported"):
        xpuprof.export(timeline, "chrome", timeline / name, force=True)
    assert (timeline / name).read_bytes() == before


def test_a_bb_file_is_not_told_to_import_a_bb_file(tmp_path: Path) -> None:
    """GIVEN SimPoint vectors, which know no device THEN what compare says of the methods that need
    the device's is true."""
    (tmp_path / "app.bb").write_text("T:1:10 :2:5\nT:1:11 :2:6\nT:3:100\nT:3:101\n")
    xpuprof.import_(tmp_path / "app.bb", tmp_path / "run")
    every = xpuprof.compare(tmp_path / "run", repeats=1).together.rows
    reasons = {row.method: row.reason for row in every}
    for method in ("photon", "gpu-point"):
        needs = f"{method} needs basic-block vectors of the device, which a SimPoint .bb file lacks"
        assert reasons[method].startswith(needs)
        with pytest.raises(NeedsError, match=needs):
            xpuprof.open(tmp_path / "run").select(method)
    with pytest.raises(NeedsError, match="xpu-point needs basic-block vectors of the device"):
        xpuprof.open(tmp_path / "run").select("xpu-point", cpu_weight=0.0)
