# SPDX-License-Identifier: Apache-2.0
"""The invariant checker: a sound run passes, and each broken invariant is detected."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from tests.support import traces
from xpuprof.cli import check, info
from xpuprof.errors import TraceError
from xpuprof.trace.check import INVARIANTS, check_run
from xpuprof.trace.findings import Violation
from xpuprof.trace.run import Run
from xpuprof.trace.run_writer import create_run
from xpuprof.workflow.imports import import_


def violations(path: Path) -> list[Violation]:
    return check_run(path).violations


def changed(records: list[traces.Record], *swaps: tuple[traces.Record, Any]) -> list[traces.Record]:
    """`records` with the first of each pair replaced by the second (None: removed)."""
    result = list(records)
    for old, new in swaps:
        at = result.index(old)
        result[at : at + 1] = [] if new is None else [new]
    return result


def test_a_sound_run_passes(tmp_path: Path) -> None:
    report = check_run(traces.write_run(tmp_path / "run", traces.events(), traces.cpu()))
    assert report.violations == []
    assert report.checked == {
        "executions": 1,
        "processes": 1,
        "streams": 2,
        "chunks": 4,
        "launches": 3,
        "slices": 4,
        "vectors": 3 + 7,
    }


LDV = traces.device_ldv(0, [(0, 5), (63, 2)], 40, 40)


def test_stack_distances_pass(tmp_path: Path) -> None:
    """GIVEN distances of all work-groups of one launch, and of some of another's, THEN both
    pass."""
    part = traces.device_ldv(1, [(63, 1)], 40, 7, (2, 1))
    events = [*traces.events()[:-1], LDV, part, traces.events()[-1]]
    cpu = [*traces.cpu()[:-1], traces.ldv(1, 1, [(3, 9)]), traces.cpu()[-1]]
    assert violations(traces.write_run(tmp_path / "run", events, cpu)) == []


def test_a_process_that_left_by_exit_passes(tmp_path: Path) -> None:
    """The last record is missing, but nothing is outstanding."""
    events = changed(EVENTS, (traces.end(3, 3), None))
    assert violations(traces.write_run(tmp_path / "run", events, CPU)) == []


@pytest.mark.parametrize("lanes", [66, 32 * 66])
def test_lane_instructions_between_the_bounds_pass(tmp_path: Path, lanes: int) -> None:
    """One work-item a warp instruction, or all of them."""
    events = traces.events()
    path = traces.write_run(
        tmp_path / "run", [*events[:-1], traces.lanes(0, lanes), events[-1]], traces.cpu()
    )
    assert violations(path) == []


@pytest.mark.parametrize("launches", [0, 1, 200])
def test_sound_runs_of_other_lengths_pass(tmp_path: Path, launches: int) -> None:
    events = traces.events(launches)
    result = {"tsc_end": 10**7}
    path = traces.write_run(tmp_path / "run", events, traces.cpu(launches + 1), **result)
    assert violations(path) == []


def test_a_launch_without_counts_and_the_reason(tmp_path: Path) -> None:
    """GIVEN an instrumented launch whose counts could not be had THEN nothing is violated, and the
    reason is known."""
    events = [traces.uncounted(2, "it failed") if r == traces.launch_grid(2, 0) else r
              for r in traces.events()]  # fmt: skip
    path = traces.write_run(tmp_path / "run", events, traces.cpu())
    assert check_run(path).violations == []
    process = Run.open(path).profile.processes[0]  # type: ignore[union-attr]
    assert process.sums.uninstrumented == {"it failed": 1}
    assert process.launches["reason"].tolist() == ["", "", "it failed"]
    assert process.slices["instrumented"].tolist() == [True, True, False, True]


def test_a_partial_run_is_checked_for_what_it_holds(tmp_path: Path) -> None:
    """GIVEN a run killed within slice 2 after one of its vectors was written THEN there is no
    violation."""
    last = traces.cpu().index(traces.bbv(2, 1, [(2, 100)], 100))
    events, cpu = traces.events()[:-1], traces.cpu()[:last]
    path = traces.write_run(tmp_path / "run", events, cpu, "partial", tsc_end=None)
    report = check_run(path)
    assert report.violations == []
    assert (report.status, report.checked["slices"]) == ("partial", 2)


EVENTS, CPU = traces.events(), traces.cpu()
BROKEN: list[tuple[str, list[Any], list[Any], int | None, int | None]] = [
    # invariant, changes of events, changes of cpu, slice, thread
    ("launch-numbers", [(traces.launch(1, 1, 3000), traces.launch(5, 1, 3000))], [], 1, None),
    ("launch-totals", [(traces.end(3, 3), traces.end(4, 3))], [], None, None),
    ("launch-totals", [(traces.end(3, 3), traces.end(3, 2))], [], None, None),
    ("launch-counts", [(traces.launch_grid(2, 0), None)], [], 2, None),
    ("launch-counts", [(traces.launch_grid(2, 0), traces.launch_grid(1, 1))], [], 1, None),
    ("launch-counts", [(traces.launch_grid(2, 0), traces.launch_grid(2, 1))], [], 2, None),
    ("launch-counts", [(traces.copy(1, 4096, 1050, 1060, 7), traces.uncounted(2, "it failed"))], [],
     2, None),
    ("tsc-monotone", [(traces.launch(1, 1, 3000), traces.launch(1, 1, 1500))], [], 1, 0),
    ("tsc-monotone", [], [(traces.cut(1, 3005, 116), traces.cut(1, 2000, 116))], 1, None),
    ("tsc-within-run", [(traces.launch(2, 0, 4000), traces.launch(2, 0, 200_000))], [], 2, None),
    ("tsc-within-run", [(traces.complete(0, 2300, 2100, 2200), traces.complete(0, 999_999))], [],
     0, None),
    ("device-order", [(traces.complete(0, 2300, 2100, 2200), traces.complete(0, 2300, 2200, 2100))],
     [], 0, None),
    ("device-order", [(traces.complete(0, 2300, 2100, 2200), traces.complete(0, 1999))], [],
     0, None),
    ("ids-known", [(traces.complete(2, 4300, 4100, 4200), traces.complete(9, 4300))], [],
     None, None),
    ("slice-ids", [], [(traces.cut(1, 3005, 116), traces.cut(2, 3005, 116))], 1, None),
    ("slice-ids", [(traces.end(3, 3), traces.launch(3, 0, 5000))], [], None, None),
    ("slice-vectors", [], [(traces.bbv(3, 0, [(0, 4), (1, 1)], 22),
                            traces.bbv(4, 0, [(0, 4), (1, 1)], 22))], 4, 0),
    ("slice-vectors", [], [(traces.bbv(2, 1, [(2, 100)], 100),
                            traces.bbv(2, 0, [(2, 100)], 100))], 2, 0),
    ("bbv-instructions", [], [(traces.bbv(1, 1, [(2, 100)], 100),
                               traces.bbv(1, 1, [(2, 100)], 101))], 1, 1),
    ("slice-instructions", [], [(traces.cut(1, 3005, 116), traces.cut(1, 3005, 117))], 1, None),
    ("run-instructions", [], [(traces.end(4, 370), traces.end(4, 371))], None, None),
    ("run-instructions", [], [(traces.end(4, 370), traces.end(5, 370))], None, None),
    ("grid-warps", [(traces.grid(0, 0, 2, [(0, 2)], 66), traces.grid(0, 0, 3, [(0, 2)], 66))], [],
     None, None),
    ("grid-instructions", [(traces.grid(0, 0, 2, [(0, 2)], 66),
                            traces.grid(0, 0, 2, [(0, 2)], 67))], [], None, None),
    ("lane-instructions", [(traces.copy(1, 4096, 1050, 1060, 7), traces.lanes(0, 65))], [],
     None, None),
    ("lane-instructions", [(traces.copy(1, 4096, 1050, 1060, 7), traces.lanes(0, 32 * 66 + 1))],
     [], None, None),
    *(("ldv-accesses", [(traces.copy(1, 4096, 1050, 1060, 7), wrong)], [], 0, None) for wrong in (
        traces.device_ldv(0, [(0, 5)], 40, 39), traces.device_ldv(0, [(0, 5)], 40, 41, (2, 1)),
        traces.device_ldv(0, [(0, 5)], 40, 40, (2, 3)))),
    ("ldv-slices", [(traces.launch(1, 1, 3000), traces.launch(1, 1, 3000, reason="no")),
                    (traces.copy(1, 4096, 1050, 1060, 7),
                     traces.device_ldv(1, [(0, 5)], 40, 40))], [], 1, None),
    ("ldv-slices", [], [(traces.bbv(3, 0, [(0, 4), (1, 1)], 22), traces.ldv(4, 0, [(0, 5)]))],
     4, None),
    ("stream-closed", [(traces.end(3, 3), None), (traces.launch_grid(2, 0), None)], [], None, None),
    ("ids-dense", [], [(traces.block(1, 0, 32, 10), traces.block(2, 0, 32, 10))], None, None),
    ("ids-known", [], [(traces.block(2, 0, 64, 1), None)], None, None),
]  # fmt: skip


@pytest.mark.parametrize(("invariant", "events", "cpu", "slice", "thread"), BROKEN)
def test_each_broken_invariant_is_named(
    tmp_path: Path,
    invariant: str,
    events: list[Any],
    cpu: list[Any],
    slice: int | None,
    thread: int | None,
) -> None:
    """Invariant, process, slice and thread stand in the violation and in its text."""
    path = traces.write_run(tmp_path / "run", changed(EVENTS, *events), changed(CPU, *cpu))
    found = [v for v in violations(path) if v.invariant == invariant]
    assert found
    assert (found[0].execution, found[0].process) == ("profile", "h-77")
    assert (found[0].slice, found[0].thread) == (slice, thread)
    text = str(found[0])
    assert text.startswith(f"{invariant}: profile/h-77")
    assert slice is None or f"slice {slice}" in text
    assert thread is None or f"thread {thread}" in text


def test_block_mix(tmp_path: Path) -> None:
    tag, body, _ = traces.kernel(1, 0, "b", [3])
    wrong = body.replace(bytes([1, 3, 3]), bytes([1, 3, 2]))
    events = changed(EVENTS, (traces.kernel(1, 0, "b", [3]), (tag, wrong, None)))
    (found,) = violations(traces.write_run(tmp_path / "run", events, CPU))
    assert found.invariant == "block-mix"


def test_slice_times(tmp_path: Path) -> None:
    """An execution that ends before it starts."""
    path = traces.write_run(tmp_path / "run", EVENTS, CPU, tsc_end=traces.START - 1)
    assert "slice-times" in {v.invariant for v in violations(path)}


def test_checksum(tmp_path: Path) -> None:
    path = traces.write_run(tmp_path / "run", EVENTS, CPU)
    stream = path / "profile/h-77/cpu.xpt"
    data = bytearray(stream.read_bytes())
    data[50] ^= 1
    stream.write_bytes(data)
    (found,) = violations(path)
    assert found.invariant == "crc"
    assert "cpu.xpt is damaged at byte 0" in found.message


def test_stream_of_the_cpu_engine_is_missed(tmp_path: Path) -> None:
    path = traces.write_run(tmp_path / "run", EVENTS, CPU)
    manifest = json.loads((path / "manifest.json").read_text())
    manifest["executions"][0]["cpu_engine"] = "valgrind"
    (path / "manifest.json").write_text(json.dumps(manifest))
    assert not violations(path)
    (path / "profile/h-77/cpu.xpt").unlink()
    assert "streams-present" in {v.invariant for v in violations(path)}


UNLISTED = {"block-mix", "slice-times", "streams-present", "crc", "window"}
"""Invariants with a test of their own above, or in test_trace_window.py."""


def test_every_invariant_is_tested() -> None:
    assert {row[0] for row in BROKEN} | UNLISTED == set(INVARIANTS)


def test_every_invariant_is_documented() -> None:
    text = (Path(__file__).parents[2] / "docs/trace-format.md").read_text()
    for name, sentence in INVARIANTS.items():
        assert f"| `{name}` | {sentence} |" in text


def test_many_violations_are_told_by_example(tmp_path: Path) -> None:
    events = [traces.complete(r[2] or 0, 1) if r[0] == 5 else r for r in traces.events(100)]
    path = traces.write_run(tmp_path / "run", events, traces.cpu(101), tsc_end=10**6)
    found = [v for v in violations(path) if v.invariant == "device-order"]
    assert len(found) == 5
    assert "and 95 more" in found[-1].message


def test_what_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    path = traces.write_run(tmp_path / "run", EVENTS, CPU)
    stream = path / "profile/h-77/cpu.xpt"
    stream.write_bytes(stream.read_bytes()[:-50])
    with pytest.raises(TraceError, match="truncated"):
        check_run(path)


# ---- commands ------------------------------------------------------------------------------------


def call(command: Any, *arguments: str) -> Result:
    return CliRunner().invoke(command, arguments, standalone_mode=False)


@pytest.mark.parametrize("text", ["garbage", ""])
def test_a_damaged_selection_is_a_violation(tmp_path: Path, text: str) -> None:
    run = traces.write_run(tmp_path / "run", EVENTS, CPU)
    (run / "selection.json").write_text(text)
    result = call(check.command, str(run))
    assert result.return_value == 1 and "next:" not in result.stderr
    assert f"selection: selection.json: {run}/selection.json is not" in result.stdout
    assert f"`xpuprof select {run} --force`" in result.stdout


def test_check_command(tmp_path: Path) -> None:
    good = str(traces.write_run(tmp_path / "good", EVENTS, CPU))
    bad_cpu = changed(CPU, (traces.end(4, 370), traces.end(4, 371)))
    bad = str(traces.write_run(tmp_path / "bad", EVENTS, bad_cpu))

    result = call(check.command, good)
    assert result.return_value == 0
    assert result.stderr == f"xpuprof: next: xpuprof select {good}\n"
    assert result.stdout.startswith(f"all {len(INVARIANTS)} invariants hold (checked: executions 1")
    result = call(check.command, good, "--json")
    assert result.return_value == 0
    assert json.loads(result.stdout)["ok"] is True

    result = call(check.command, bad)
    assert result.return_value == 1
    assert "run-instructions: profile/h-77: 4 slices add up to 370" in result.stdout
    result = call(check.command, bad, "--json")
    assert result.return_value == 1
    (found,) = json.loads(result.stdout)["violations"]
    assert found["invariant"] == "run-instructions"


def test_check_of_a_partial_run_has_its_own_exit_code(tmp_path: Path) -> None:
    """GIVEN a partial run THEN 3 without violations, 1 with one."""
    events, cpu = EVENTS[:-1], CPU[:-1]
    path = traces.write_run(tmp_path / "run", events, cpu, "partial", tsc_end=None)
    result = call(check.command, str(path))
    assert result.return_value == 3
    assert "invariants hold" in result.stdout and "the run is partial: made up" in result.stderr
    result = call(check.command, str(path), "--json")
    found = json.loads(result.stdout)
    assert (result.return_value, found["ok"], found["violations"]) == (3, False, [])
    wrong = changed(cpu, (traces.cut(1, 3005, 116), traces.cut(1, 3005, 117)))
    broken = traces.write_run(tmp_path / "broken", events, wrong, "partial", tsc_end=None)
    assert call(check.command, str(broken)).return_value == 1


def test_check_of_an_empty_run_says_that_there_was_nothing(tmp_path: Path) -> None:
    """GIVEN an execution that recorded nothing, or no execution at all."""
    bare = traces.write_run(tmp_path / "bare", None, None, role="first", cpu_engine="none")
    create_run(tmp_path / "none", argv=["x"]).finish("complete")
    for path in (bare, tmp_path / "none"):
        result = call(check.command, str(path))
        assert result.return_value == 3
        assert result.stdout.startswith("no trace was recorded, so there was nothing to check")
        assert json.loads(call(check.command, str(path), "--json").stdout)["ok"] is False


def test_info_command(tmp_path: Path) -> None:
    path = str(traces.write_run(tmp_path / "run", EVENTS, CPU))
    result = call(info.command, path, "--json")
    found = json.loads(result.stdout)
    assert found["status"] == "complete"
    assert found["slices"] == 4
    assert found["launches"] == {"seen": 3, "instrumented": 3, "left_out": 0, "unfinished": 0}
    assert found["threads"] == 2
    assert found["warps"] == 6
    assert found["cpu"]["instructions"] == 370
    assert found["gpu"]["instructions"] == 255
    assert [(k["kernel"], k["calls"], k["instructions"]) for k in found["kernels"]] == [
        ("a", 2, 132),
        ("b", 1, 123),
    ]
    assert sum(k["share"] for k in found["kernels"]) == pytest.approx(1)
    streams = [tmp_path / "run/profile/h-77" / name for name in ("events.xpt", "cpu.xpt")]
    assert found["bytes"]["per_launch"] == sum(s.stat().st_size for s in streams) / 3
    assert found["executions"][0]["exit_code"] == 0
    text = call(info.command, path).stdout
    assert "slices    4" in text
    assert "3, 3 instrumented" in text
    assert "a launch" not in text  # three launches: mostly the size of an empty stream


def kernel_rows(text: str) -> list[list[str]]:
    """The table of kernels, without their times."""
    rows = [re.split(r"  +", line) for line in text.splitlines() if line.startswith(("a ", "b "))]
    return [row[:2] + row[3:] for row in rows]


def test_info_tells_what_ran_uninstrumented(tmp_path: Path) -> None:
    events = changed(
        EVENTS,
        (traces.launch(2, 0, 4000), traces.launch(2, 0, 4000, reason="kernel does not compile")),
        (traces.launch_grid(2, 0), None),
        (traces.end(3, 3), traces.end(3, 2)),
    )
    path = str(traces.write_run(tmp_path / "run", events, CPU))
    assert violations(Path(path)) == []
    found = json.loads(call(info.command, path, "--json").stdout)
    assert found["launches"] == {"seen": 3, "instrumented": 2, "left_out": 0, "unfinished": 0}
    assert found["uninstrumented"] == {"kernel does not compile": 1}
    text = call(info.command, path).stdout
    assert "uninstrumented: 1 (kernel does not compile)" in text
    assert kernel_rows(text) == [
        ["b", "1", "33.33 %", "1", "2", "123", "65.08 %"],
        ["a", "2", "66.67 %", "1", "2", "66", "34.92 %"],
    ]


def test_info_shows_no_counts_of_kernels_that_were_not_counted(tmp_path: Path) -> None:
    """GIVEN a kernel of which no launch was counted THEN it has no numbers, rather than zeros."""
    events = changed(
        EVENTS,
        (traces.launch(1, 1, 3000), traces.launch(1, 1, 3000, reason="left out", flags=2)),
        (traces.launch_grid(1, 1), None),
        (traces.end(3, 3), traces.end(3, 2)),
    )
    text = call(info.command, str(traces.write_run(tmp_path / "run", events, CPU))).stdout
    assert kernel_rows(text) == [
        ["a", "2", "66.67 %", "2", "4", "132", "100.00 %"],
        ["b", "1", "33.33 %", "0", "-", "-", "-"],
    ]


def test_info_of_a_partial_run(tmp_path: Path) -> None:
    events, cpu = traces.events()[:-1], traces.cpu()[:-1]
    path = traces.write_run(tmp_path / "run", events, cpu, "partial", tsc_end=None)
    result = call(info.command, str(path))
    assert "(partial)" in result.stdout
    assert "the run is partial: made up" in result.stderr


def test_info_says_when_no_kernel_was_launched(tmp_path: Path) -> None:
    path = traces.write_run(tmp_path / "run", None, traces.cpu(1))
    result = call(info.command, str(path))
    assert "launched no kernel: the whole run is one slice" in result.stdout
    found = json.loads(call(info.command, str(path), "--json").stdout)
    assert found["slices"] == 1


def test_info_of_a_run_without_executions(tmp_path: Path) -> None:
    create_run(tmp_path / "run", argv=["x"]).finish("complete")
    found = json.loads(call(info.command, str(tmp_path / "run"), "--json").stdout)
    assert (found["slices"], found["kernels"]) == (0, [])
    assert call(info.command, str(tmp_path / "run")).return_value == 0


def test_an_import_is_checked_by_rules_of_its_own(tmp_path: Path) -> None:
    """GIVEN an import with a call and a time changed THEN both are reported."""
    (tmp_path / "t.csv").write_text("kernel,time_us\na,1\nb,2\na,3\n")
    import_(tmp_path / "t.csv", tmp_path / "run")
    assert check_run(tmp_path / "run").whole
    columns = json.loads((tmp_path / "run/imported/columns.json").read_text())["columns"]
    for number, column in enumerate(columns):
        if column["name"] in ("call", "gpu_time"):
            file = tmp_path / f"run/imported/{number}.bin"
            values = np.fromfile(file, column["dtype"])
            values[2] = -1
            values.tofile(file)
    told = [str(violation) for violation in check_run(tmp_path / "run").violations]
    assert told == [
        "import-calls: imported, slice 2: call -1 of a should be call 2",
        "import-times: imported, slice 2: gpu_time is -1.0",
    ]
    assert call(check.command, str(tmp_path / "run")).return_value == 1
