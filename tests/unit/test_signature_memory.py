# SPDX-License-Identifier: Apache-2.0
"""Stack distances in tables, files and signatures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.support import traces
from tests.support.processes import with_tables
from tests.support.signature_data import process_of, select, signature_of
from xpuprof.errors import InputError, UsageError
from xpuprof.formats.exporters import ldv
from xpuprof.methods import registry
from xpuprof.methods.recorded import from_processes
from xpuprof.report.warnings import missing_distances, warnings
from xpuprof.signature.matrix import MEMORY_WEIGHT
from xpuprof.trace.run import Run
from xpuprof.trace.slice_times import main_process
from xpuprof.trace.sums import DeviceAccesses
from xpuprof.trace.tables import DeviceDistances, Process, StackDistances
from xpuprof.workflow.export import export
from xpuprof.workflow.select import select_run
from xpuprof.workflow.subjects import profiled_job

KINDS = [0, 0, 1, 0, 0, 1] * 4


def with_distances(process: Process, near: list[int], cpu: bool = False) -> Process:
    """Launches in `near` touch recent lines, the others old ones, each 100 times; on the CPU,
    thread 1 does so in the slices of `near`, thread 0 elsewhere, at one distance."""
    launches = len(process.launches)
    count = np.zeros((launches, 64), np.uint64)
    is_near = np.isin(np.arange(launches), near)
    count[is_near, 2], count[~is_near, 20] = 100, 100
    number = np.arange(launches, dtype=np.uint32)
    total = np.full(launches, 100, np.uint64)
    ones, no = np.ones(launches, np.uint64), np.zeros(launches, bool)
    device = DeviceDistances(number, count, total, total, ones, ones, no, no)
    flat = np.zeros((launches, 64), np.uint64)
    flat[:, 5] = 10
    own = StackDistances(number, is_near.astype(np.uint32), flat)
    return with_tables(process, device_distances=device, distances=own if cpu else None)


def test_tables(tmp_path: Path) -> None:
    """THEN the rows of the launches hold the records' values."""
    records = [
        *traces.events()[:-1],
        traces.device_ldv(2, [(0, 5), (63, 2)], 40, 7, (4, 1), flags=3),
        traces.device_ldv(0, [(7, 1)], 9, 9),
        traces.events()[-1],
    ]
    path = traces.write_run(tmp_path / "run", records, traces.cpu())
    profile = Run.open(path).profile
    assert profile is not None
    found = main_process(profile).device_distances
    assert found is not None
    assert found.launch.tolist() == [0, 2]
    assert (found.accesses.tolist(), found.recorded.tolist()) == ([9, 40], [9, 7])
    assert (found.groups.tolist(), found.recorded_groups.tolist()) == ([2, 4], [2, 1])
    assert (found.beyond.tolist(), found.forgot.tolist()) == ([False, True], [False, True])
    assert [np.flatnonzero(row).tolist() for row in found.count] == [[7], [0, 63]]


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    """GIVEN launches that were not recorded completely THEN the run's doubts say so, by reason."""
    records = [
        *traces.events()[:-1],
        traces.device_ldv(0, [(7, 1)], 9, 3, (2, 1)),
        traces.device_ldv(2, [(0, 5), (63, 2)], 40, 7, (4, 1), flags=3),
        traces.events()[-1],
    ]
    found = warnings(profiled_job(Run.open(traces.write_run(tmp_path / "run", records, None))))
    said = [text.removeprefix("stack distances of ") for text in found if "distances" in text]
    assert said == [
        "2 launches recorded in part, because no room was left",
        "1 launch with accesses that cannot be recorded (pipes, some of images)",
        "1 launch with lines forgotten, because there were too many",
    ]
    assert missing_distances(DeviceAccesses()) == []


def test_files(tmp_path: Path) -> None:
    """GIVEN stack distances THEN their file is read back unchanged, one line per slice."""
    process = with_distances(process_of(KINDS), near=[0, 3], cpu=True)
    paths = ldv.write(process, tmp_path / "a.b")
    assert [path.name for path in paths] == ["a.b.device.ldv", "a.b.cpu.ldv"]
    back = ldv.read(paths[0])
    assert back.slices == len(KINDS) + 1
    assert np.flatnonzero(back.metrics["ldv_3"]).tolist() == [0, 3]
    assert back.metrics["ldv_21"].sum() == 100 * (len(KINDS) - 2)
    with pytest.raises(UsageError, match="force=True"):
        ldv.write(process, tmp_path / "a.b")
    with pytest.raises(InputError, match="--memory"):
        ldv.write(process_of(KINDS), tmp_path / "c")


def test_files_of_each_process(tmp_path: Path) -> None:
    """GIVEN a job of two processes, with a selection or without one THEN each has a file of its
    own."""
    distances = traces.device_ldv(0, [(7, 1)], 9, 9)
    records = [*traces.events()[:-1], distances, traces.events()[-1]]
    run = traces.write_run(tmp_path / "run", records, traces.cpu())
    traces.write_process(run / "profile/h-2", records, traces.cpu())
    names = {path.name for path in export(run, "ldv", tmp_path / "a").files}
    assert len(names) == 2
    select_run(Run.open(run), "random", seed=1).write(run / "selection.json")
    assert {path.name for path in export(run, "ldv", tmp_path / "b/a").files} == names


def test_equal_code_is_told_apart() -> None:
    """GIVEN launches of equal code that differ in distance THEN their slices are equal without the
    distances and apart with them."""
    process = with_distances(process_of(KINDS), near=[1, 7, 13])
    plain = signature_of(process, seed=1, memory_weight=0.0).matrix
    both = signature_of(process, seed=1).matrix
    assert np.array_equal(plain[7], plain[6 + 4]) and not np.array_equal(both[7], both[6 + 4])
    assert np.array_equal(both[7], both[13])
    assert both.shape[1] == plain.shape[1] + 65


def test_threads_are_dimensions_of_their_own() -> None:
    """THEN equal distances in another CPU thread give another vector."""
    process = with_tables(with_distances(process_of(KINDS), [1], cpu=True), device_distances=None)
    matrix = signature_of(process, seed=1).matrix
    assert not np.array_equal(matrix[1], matrix[4]) and np.array_equal(matrix[7], matrix[10])


@pytest.mark.parametrize("weight", [0.0, 0.25, 1.0])
def test_weights(weight: float) -> None:
    """THEN the parts' mean squared norms are their weights, and extents still follow the code."""
    process = with_distances(process_of(KINDS), near=[1, 7], cpu=True)
    assert process.cpu is not None  # so much work that its share of a slice's is 1
    process = with_tables(
        process, cpu=replace(process.cpu, count=process.cpu.count * np.uint64(10**6))
    )
    signature = signature_of(
        process, seed=1, cpu_weight=0.3, memory_weight=weight, length_weight=0.0, dim=64
    )
    squares = (signature.matrix.astype(float) ** 2).sum(axis=0)
    launches, slices = len(KINDS), len(KINDS) + 1
    shares = [0.7 * (1 - weight), 0.3 * (1 - weight), 0.7 * weight, 0.3 * weight]
    rows = [launches, slices, launches, launches]  # that are not empty in this part
    for part, (share, active) in enumerate(zip(shares, rows, strict=True)):
        if weight == 0.0 and part >= 2:
            assert len(squares) == 2 * 65
            break
        own = squares[65 * part : 65 * part + 65].sum() / active
        assert own == pytest.approx(share, rel=1e-3, abs=1e-9)
    plain = signature_of(process, seed=1, cpu_weight=0.3, memory_weight=0.0)
    np.testing.assert_allclose(signature.extent, plain.extent)
    np.testing.assert_allclose(signature.instructions, plain.instructions)


def test_what_a_selection_remembers() -> None:
    """THEN the weight in use, 0 without distances; the same over many runs."""
    plain, both = process_of(KINDS), with_distances(process_of(KINDS), near=[1, 7])
    for process, given, kept in (
        (plain, {}, 0.0),
        (plain, {"memory_weight": 0.0}, 0.0),
        (both, {}, MEMORY_WEIGHT),
        (both, {"memory_weight": 0.6}, 0.6),
    ):
        one = select("xpu-point", process, seed=1, **given)
        assert one.parameters["memory_weight"] == kept


def test_asked_for_where_there_are_none() -> None:
    """THEN one sentence says what is missing."""
    with pytest.raises(InputError, match="record it again with --memory"):
        select("xpu-point", process_of(KINDS), seed=1, memory_weight=0.5)
    with pytest.raises(UsageError, match="--memory-weight must lie between 0 and 1"):
        signature_of(process_of(KINDS), seed=1, memory_weight=1.5)
    mixed = [process_of(KINDS), with_distances(process_of(KINDS), near=[1])]
    table = pd.concat([p.slices.assign(process=i) for i, p in enumerate(mixed)])
    with pytest.raises(InputError, match="stack distances"):
        registry.select(from_processes(table, mixed), "xpu-point", seed=1)
