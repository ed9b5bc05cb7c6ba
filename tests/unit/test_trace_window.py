# SPDX-License-Identifier: Apache-2.0
"""Tables of a windowed process describe its window; its slice times add up to the window's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.support import traces
from xpuprof.clustering.executors import LocalExecutor
from xpuprof.errors import InputError
from xpuprof.selection.identity import SelectedWindow
from xpuprof.signature.matrix import Projection, signatures
from xpuprof.trace import recorded_cpu
from xpuprof.trace.check import check_run
from xpuprof.trace.coordinates import WINDOW_END_KERNEL
from xpuprof.trace.run import Run
from xpuprof.trace.run_writer import create_run
from xpuprof.trace.slice_times import slice_times
from xpuprof.trace.tables import Process
from xpuprof.workflow.select import Request, select_run, select_subject
from xpuprof.workflow.several_runs import open_runs
from xpuprof.workflow.timeline import replay_run

S = traces.START


def events(
    spec: str, windows: dict[int, list[traces.Record]], inside: set[int]
) -> list[traces.Record]:
    """traces.events(5) with a window: records before launch i, and the launches inside."""
    found = []
    for record in traces.events(5)[:-1]:
        if record[0] == 4:
            assert record[2] is not None
            number = record[2]
            found += windows.get(number, [])
            if number not in inside:
                record = traces.launch(
                    number, number % 2, S + 1_000 * (number + 1), reason="outside", flags=4
                )
        if record[0] == 9 and record[2] not in inside:
            continue
        found.append(record)
    found += windows.get(5, [])
    return [traces.meta("window", spec), *found, traces.end(5, len(inside))]


def cpu(counted: set[int]) -> list[traces.Record]:
    """traces.cpu(6) with vectors only for these slices."""
    found: list[traces.Record] = []
    whole = 0
    for record in traces.cpu(6)[:-1]:
        if record[0] == 5 and record[2] not in counted:
            continue
        if record[0] == 6:
            assert record[2] is not None
            i = record[2]
            own = 3 * (i + 1) + 10 + (100 if i else 0) if i in counted else 0
            whole += own
            record = traces.cut(i, S + 1_000 * (i + 1) + 5, own)
        found.append(record)
    return [*found, traces.end(6, whole)]


def write(path: Path, events: list[traces.Record], cpu: list[traces.Record]) -> Run:
    traces.write_run(path, events, cpu)
    assert check_run(path).violations == []
    return Run.open(path)


def process_of(run: Run) -> Process:
    assert run.profile is not None
    return run.profile.processes[0]


def ticks(run: Run) -> list[int]:
    assert run.profile is not None
    times = slice_times(run.profile, process_of(run)) * run.profile.record.tsc_hz
    return np.round(times).astype(int).tolist()


def test_window_of_launches(tmp_path: Path) -> None:
    """GIVEN launches 2 to 3 of 5 THEN the tables have their complete slices, under their names."""
    w = traces.window
    windows = {
        0: [w(0, False, S)],
        1: [w(1, True, S + 1_100)],
        3: [w(3, False, S + 3_100)],
    }
    run = write(tmp_path / "run", events("2-3", windows, {1, 2}), cpu({1, 2}))
    process = process_of(run)
    assert process.slices["slice"].tolist() == [1, 2]
    assert process.slices["kernel"].tolist() == ["b", "a"]
    assert process.slices["call"].tolist() == [1, 2]
    assert process.slices["cpu_instructions"].tolist() == [116, 119]
    assert process.slices["gpu_instructions"].tolist() == [123, 66]
    assert process.launches["launch"].tolist() == [1, 2]
    assert process.cpu is not None and process.gpu is not None
    assert process.cpu.slice.tolist() == [0, 0, 0, 1, 1, 1]
    assert process.cpu.slice_start.tolist() == [0, 3, 6]
    assert process.gpu.launch_grid.tolist() == [1, 0]
    # from the end of launch 1 (device: S + 1200) to that of launch 3
    assert ticks(run) == [1_000, 1_000]


def test_vectors_in_a_window_piece_by_piece(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """THEN pieces hold the slices of the window alone, the first one none."""
    windows = {
        0: [traces.window(0, False, S)],
        1: [traces.window(1, True, S + 1_100)],
        3: [traces.window(3, False, S + 3_100)],
    }
    ended = [[r, traces.SEAL] if r[0] == 6 else [r] for r in cpu({1, 2})]
    records = [record for pair in ended for record in pair]
    process = process_of(write(tmp_path / "run", events("2-3", windows, {1, 2}), records))
    monkeypatch.setattr(recorded_cpu, "ENTRIES", 0)
    pieces = list(process.cpu_pieces() or [])
    assert [len(piece.slice_start) - 1 for piece in pieces] == [0, 1, 1]
    assert process.cpu is not None and process.cpu.slice_start.tolist() == [0, 3, 6]
    assert process.cpu.slice.tolist() == [0, 0, 0, 1, 1, 1]
    many = signatures([process], Projection(1))[0].matrix
    monkeypatch.undo()
    assert many.tobytes() == signatures([process], Projection(1))[0].matrix.tobytes()


def test_window_to_the_exit(tmp_path: Path) -> None:
    """GIVEN a window from launch 5 on THEN program exit belongs to it."""
    w = traces.window
    run = write(
        tmp_path / "run",
        events("5-", {0: [w(0, False, S)], 4: [w(4, True, S + 4_100)]}, {4}),
        cpu({4, 5}),
    )
    assert process_of(run).slices["kernel"].tolist() == ["a", "SYS_exit"]
    assert ticks(run) == [1_000, traces.END - (S + 5_200)]


def test_window_by_marker(tmp_path: Path) -> None:
    """GIVEN a marker around launch 2, another around 3 and 4 THEN work between a last kernel and
    its closing counts towards the next slice, and the last closing ends a separate slice."""
    w = traces.window
    windows = {
        0: [w(0, False, S)],
        1: [w(1, True, S + 1_500, "m")],
        2: [w(2, False, S + 2_600, "m"), w(2, True, S + 2_700, "m")],
        4: [w(4, False, S + 4_900, "m")],
    }
    run = write(tmp_path / "run", events("@m", windows, {1, 2, 3}), cpu({1, 2, 3, 4}))
    process = process_of(run)
    assert process.slices["slice"].tolist() == [1, 2, 3, 4]
    assert process.slices["kernel"].tolist() == ["b", "a", "b", WINDOW_END_KERNEL]
    assert process.slices["call"].tolist() == [1, 2, 2, 1]
    assert process.slices["gx"].tolist() == [64, 64, 64, 0]
    assert process.gpu is not None and process.gpu.launch_grid.tolist() == [1, 0, 1, -1]
    # launches end on the device at S + 1200, 2200, 3200, 4200, 5200
    assert ticks(run) == [700, (2_600 - 2_200) + (3_200 - 2_700), 1_000, 4_900 - 4_200]


def test_kernels_that_outlast_their_window(tmp_path: Path) -> None:
    """GIVEN a window that closes before its kernel has completed THEN it lasts until then, and one
    that opens while an older kernel runs begins after that."""
    w = traces.window
    windows = {
        0: [w(0, False, S)],
        1: [w(1, True, S + 1_150, "m")],
        2: [w(2, False, S + 2_050, "m")],
    }
    run = write(tmp_path / "run", events("1@m", windows, {1}), cpu({1, 2}))
    assert process_of(run).slices["kernel"].tolist() == ["b", WINDOW_END_KERNEL]
    assert ticks(run) == [1_000, 0]


def test_what_is_counted_outside_is_found(tmp_path: Path) -> None:
    """GIVEN counts of a slice outside the window THEN check says so."""
    w = traces.window
    traces.write_run(
        tmp_path / "run",
        events("2-2", {0: [w(0, False, S)], 1: [w(1, True, S)], 2: [w(2, False, S)]}, {1}),
        cpu({1, 3}),
    )
    found = check_run(tmp_path / "run").violations
    assert [(v.invariant, v.slice) for v in found] == [("window", 3)]


def test_window_that_never_opened(tmp_path: Path) -> None:
    """GIVEN a window beyond the last launch THEN select says that it never opened, for one run and
    for several."""
    run = write(
        tmp_path / "run", events("9-", {0: [traces.window(0, False, S)]}, set()), cpu(set())
    )
    assert len(process_of(run).slices) == 0
    with pytest.raises(InputError, match=r"9- never opened .*5 kernels"):
        select_run(run, "xpu-point", seed=1)
    other = traces.write_run(tmp_path / "other", traces.events(5), traces.cpu(6))
    with pytest.raises(InputError, match=r"9- never opened .*5 kernels"):
        select_subject(open_runs([str(other), str(run.path)], LocalExecutor()), Request())


def asked_for(path: Path, spec: str) -> str:
    """A run whose window `spec` (empty: none) was opened by launches 2 to 4."""
    w = traces.window
    around = {0: [w(0, False, S)], 1: [w(1, True, S)], 4: [w(4, False, S)]}
    inside = {1, 2, 3}
    extra = {"settings": {"window": spec}} if spec else {}
    writer = create_run(path, argv=["./app"], extra=extra)
    found = events(spec, around, inside) if spec else traces.events(5)
    vectors = cpu(inside) if spec else traces.cpu(6)
    traces.add_execution(writer, "profile", "profile", found, vectors, status="complete")
    writer.finish("complete", "")
    return str(path)


def test_start_ups_that_count_and_others_are_selected_from_together(tmp_path: Path) -> None:
    """Start-up stands for itself."""
    runs = []
    for name, settings in (("a", {}), ("b", {"start_up": "counted"}), ("c", {"memory": True})):
        writer = create_run(tmp_path / name, argv=["./app"], extra={"settings": settings})
        vectors = traces.cpu(6)
        traces.add_execution(
            writer, "profile", "profile", traces.events(5), vectors, status="complete"
        )
        writer.finish("complete", "")
        runs.append(str(tmp_path / name))
    assert select_subject(open_runs(runs[:2], LocalExecutor()), Request()).slices == 12
    with pytest.raises(InputError, match="profile them alike"):
        select_subject(open_runs(runs, LocalExecutor()), Request())


def test_runs_of_one_window_are_selected_from_together(tmp_path: Path) -> None:
    """GIVEN runs with one window THEN the selection is about it; runs with another window or none
    are refused."""
    runs = [asked_for(tmp_path / name, "2-4") for name in ("a", "b")]
    chosen = select_subject(open_runs(runs, LocalExecutor()), Request())
    assert chosen.slices == 6 and chosen.identity.window == SelectedWindow("2-4")
    whole = asked_for(tmp_path / "whole", "")
    with pytest.raises(InputError, match="profile them alike"):
        select_subject(open_runs([*runs, whole], LocalExecutor()), Request())


def test_selection_remembers_the_window(tmp_path: Path) -> None:
    """GIVEN a window THEN the selection is about it and has the launches' numbers."""
    w = traces.window
    run = write(
        tmp_path / "run",
        events("2-4", {0: [w(0, False, S)], 1: [w(1, True, S)], 4: [w(4, False, S)]}, {1, 2, 3}),
        cpu({1, 2, 3}),
    )
    chosen = select_run(run, "xpu-point", seed=1)
    assert chosen.slices == 3 and chosen.window == "2-4"
    assert {r.slice + 1 for r in chosen.representatives} == {
        chosen.launch_ending(r) for r in chosen.representatives
    }


def test_a_timeline_runs_only_while_its_window_is_open(tmp_path: Path) -> None:
    """GIVEN a window that opens twice THEN its timeline has the window's length and kernels."""
    w = traces.window
    windows = {
        0: [w(0, False, S)],
        1: [w(1, True, S + 1_500, "m")],
        2: [w(2, False, S + 2_600, "m")],
        4: [w(4, True, S + 4_300, "m")],
        5: [w(5, False, S + 5_900, "m")],
    }
    writer = create_run(tmp_path / "run", argv=["./app"])
    for role in ("profile", "time"):
        recorded = cpu({1, 2, 4, 5}) if role == "profile" else None
        traces.add_execution(writer, role, role, events("@m", windows, {1, 4}), recorded)
    writer.finish("complete")
    run = Run.open(tmp_path / "run")
    assert process_of(run).slices["kernel"].tolist() == [
        "b",
        WINDOW_END_KERNEL,
        "a",
        WINDOW_END_KERNEL,
    ]
    replayed = replay_run(select_run(run, "first-n", seed=1, n=4), tmp_path / "run")
    hz = run.times[0].record.tsc_hz
    open_for = (2_600 - 1_500) + (5_900 - 4_300)
    assert [replayed.recorded * hz, replayed.recreated * hz] == pytest.approx([open_for, open_for])
    assert {step.kernel for step in replayed.path} == {"a", "b"}
