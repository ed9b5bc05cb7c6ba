# SPDX-License-Identifier: Apache-2.0
"""A run's length from the order of its kernels: by hand, by simulation, from recordings."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from tests.support.profiles import PID, nsight
from xpuprof.cli import cli
from xpuprof.errors import InputError
from xpuprof.estimation.timeline import Order, timeline
from xpuprof.methods import first_n, random_
from xpuprof.methods.profile import SliceProfile
from xpuprof.selection.selection import Selection


def order_of(rows: list[tuple[str, int, int, float, float]], length: float) -> Order:
    """Kernels by (name, device, stream, start, end); kernel i ends slice i."""
    name, device, stream, start, end = zip(*rows, strict=True)
    return Order(
        slice=np.arange(len(rows)),
        kernel=name,
        process=np.zeros(len(rows), np.int64),
        device=np.array(device),
        stream=np.array(stream),
        start=np.array(start),
        end=np.array(end),
        length=length,
    )


def every_slice(count: int) -> Selection:
    """Each slice its own cluster and representative."""
    frame = pd.DataFrame({"kernel": ["k"] * count, "call": np.arange(1, count + 1)})
    chosen = first_n.select(SliceProfile(frame), n=count)
    one = tuple(replace(r, cluster=i, multiplier=1.0) for i, r in enumerate(chosen.representatives))
    return replace(chosen, representatives=one, labels=np.arange(count, dtype=np.int32))


TWO_DEVICES = order_of(
    [
        ("a", 0, 1, 1.0, 11.0),  # one second of host code, then the long kernel
        ("b", 1, 1, 1.0, 5.0),
        ("c", 1, 1, 5.5, 9.5),  # half a second after b
        ("d", 0, 2, 11.0, 13.0),  # waits for a, on another stream
    ],
    length=14.0,
)


def test_recorded_times_recreate_the_recorded_length() -> None:
    found = timeline(every_slice(4), TWO_DEVICES, TWO_DEVICES.duration)
    assert found.recreated == found.makespan.value == 14.0
    assert [step.kernel for step in found.path] == ["a", "d"]
    assert found.waiting == pytest.approx(2.0)
    assert found.busy == pytest.approx({0: 12 / 14, 1: 8 / 14})


def test_a_shorter_kernel_moves_the_critical_path_to_the_other_device() -> None:
    """GIVEN the long kernel at a tenth of its time THEN the other device decides the length, which
    is not the sum of what was saved."""
    times = TWO_DEVICES.duration * np.array([0.1, 1.0, 1.0, 1.0])
    found = timeline(every_slice(4), TWO_DEVICES, times)
    assert found.makespan.value == pytest.approx(9.5 + 1.0)
    assert {step.kernel for step in found.path} == {"b", "c"}
    assert found.waiting == pytest.approx(1.0 + 0.5 + 1.0)


def test_a_kernel_without_length_keeps_whom_it_waits_for() -> None:
    """GIVEN a kernel of length 0 after another, and one that starts as a later one of length 0 ends
    WHEN the first kernel gets shorter THEN both move with it."""
    rows = [("a", 0, 1, 0.0, 10.0), ("b", 0, 1, 11.0, 11.0), ("c", 0, 1, 12.0, 15.0)]
    found = timeline(every_slice(3), order_of(rows, 15.0), np.array([5.0, 0.0, 3.0]))
    assert found.makespan.value == pytest.approx(10.0)
    rows = [("a", 0, 1, 0.0, 10.0), ("b", 0, 2, 12.0, 15.0), ("c", 0, 3, 12.0, 12.0)]
    found = timeline(every_slice(3), order_of(rows, 15.0), np.array([5.0, 3.0, 0.0]))
    assert found.makespan.value == pytest.approx(10.0)


def test_a_kernel_waits_for_the_one_before_it_on_its_stream() -> None:
    """GIVEN a long first kernel WHEN the kernel that ended last before the third is on the other
    stream THEN the third still does not overtake the first."""
    order = order_of(
        [("a", 0, 1, 0.0, 2.0), ("b", 0, 2, 0.0, 3.0), ("c", 0, 1, 3.0, 4.0)], length=4.0
    )
    found = timeline(every_slice(3), order, np.array([10.0, 3.0, 1.0]))
    assert found.makespan.value == pytest.approx(11.0)


def many_streams(rng: np.random.Generator) -> Order:
    """200 kernels on three streams that wait for each other at random."""
    free, rows, now = [0.0, 0.0, 0.0], [], 0.0
    for _ in range(200):
        stream = int(rng.integers(3))
        now = max(now, free[stream] if rng.random() < 0.7 else max(free))
        end = now + float(rng.choice([1.0, 3.0], p=[0.8, 0.2])) * float(rng.lognormal(0.0, 0.1))
        rows.append((f"k{stream}", 0, stream, now, end))
        free[stream] = end
        now += 0.05
    return order_of(rows, length=max(free))


def test_the_interval_holds_the_recorded_length_as_often_as_it_says() -> None:
    """GIVEN every kernel's time WHEN 20 of 200 are drawn at random, 2,000 times THEN the interval
    holds the recorded length in 95 % of them, less three standard errors of both simulations."""
    order = many_streams(np.random.default_rng(3))
    frame = pd.DataFrame({"kernel": order.kernel, "call": np.arange(200)})
    profile = SliceProfile(frame, order.duration)
    first = timeline(random_.select(profile, seed=0, n=20), order, order.duration).makespan
    assert first.high is not None
    half = first.high - first.value  # follows from the design, whatever was drawn
    rng = np.random.default_rng(1)
    # One cluster: the mean of the draws is all that a replay takes from them.
    means = [order.duration[rng.choice(200, 20, replace=False)].mean() for _ in range(2000)]
    whole = every_slice(200)
    lengths = {}
    for mean in np.linspace(min(means), max(means), 60):
        equal = np.full(200, mean)
        lengths[mean] = timeline(whole, order, equal).makespan.value
    replayed = np.interp(means, list(lengths), list(lengths.values()))
    held = np.abs(replayed - order.length) <= half
    assert held.mean() >= 0.95 - 3 * np.sqrt(2 * 0.95 * 0.05 / 2000)


def invoke(*arguments: str) -> dict[str, object]:
    done = CliRunner().invoke(cli, [*arguments, "--json"])
    assert done.exit_code == 0, str(done.exception) + done.output
    answer: dict[str, object] = json.loads(done.stdout)
    return answer


def test_an_imported_recording_of_two_devices_is_replayed(tmp_path: Path) -> None:
    """GIVEN an Nsight recording with two devices THEN the command re-creates its length within 1 %
    and says what the recording lacks."""
    kernels = [
        (100 + 50 * i, 140 + 50 * i + 30 * (i % 2), i % 2, 7 + i % 3, 1 + i % 2, PID)
        for i in range(16)
    ]
    source = nsight(tmp_path / "two.sqlite", kernels)
    run = str(tmp_path / "run")
    assert CliRunner().invoke(cli, ["import", str(source), "-o", run]).exit_code == 0
    assert CliRunner().invoke(cli, ["select", run, "--method", "stem-root"]).exit_code == 0
    answer = invoke("estimate", f"{run}/selection.json", "--timeline", run)
    assert answer["recreated_s"] == pytest.approx(answer["recorded_s"], rel=0.01)
    regions = len(json.loads(Path(run, "selection.json").read_text())["representatives"])
    lengths = {}
    for metric, value in (("time_us", 1), ("time_ns", 1000), ("cycles", 1)):
        table = tmp_path / f"{metric}.csv"
        rows = [f"{region},{value}" for region in range(1, regions + 1)]
        table.write_text("\n".join([f"region,{metric}", *rows]) + "\n")
        line = ["--timeline", run, "--results", str(table), "--metric", metric]
        if metric == "cycles":
            with pytest.raises(AssertionError, match="cycles is not a time"):
                invoke("estimate", f"{run}/selection.json", *line)
        else:
            lengths[metric] = invoke("estimate", f"{run}/selection.json", *line)["projected_s"]
    assert lengths["time_us"] == pytest.approx(lengths["time_ns"])
    low, high = answer["interval_s"]  # type: ignore[misc]
    assert low <= answer["recorded_s"] <= high
    assert any("events between streams" in str(text) for text in answer["lacks"])  # type: ignore[attr-defined]


def test_a_table_has_no_order_to_replay(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("kernel,duration_us\nk,1\nk,2\n")
    run = str(tmp_path / "run")
    assert CliRunner().invoke(cli, ["import", str(tmp_path / "t.csv"), "-o", run]).exit_code == 0
    assert CliRunner().invoke(cli, ["select", run, "--method", "stem-root"]).exit_code == 0
    done = CliRunner().invoke(cli, ["estimate", f"{run}/selection.json", "--timeline", run])
    assert isinstance(done.exception, InputError)
    assert "does not tell when its kernels started" in str(done.exception)
