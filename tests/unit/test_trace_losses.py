# SPDX-License-Identifier: Apache-2.0
"""A run with losses is partial, with the true reason, whatever its manifest says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.support import traces
from xpuprof.cli import cli
from xpuprof.launch.finish import finish
from xpuprof.launch.losses import losses
from xpuprof.trace.losses import losses_of
from xpuprof.trace.run import Run
from xpuprof.trace.sums import NOT_READ
from xpuprof.workflow.evaluate import doubts


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return traces.write_run(tmp_path / "run", traces.events(), traces.cpu())


def test_an_emptied_stream_makes_the_run_partial(run: Path) -> None:
    """GIVEN a complete run WHEN a stream is emptied THEN it is partial, and info and select say
    why."""
    (run / "profile" / "h-77" / "events.xpt").write_bytes(b"")
    opened = Run.open(run)
    assert opened.status == "partial"
    assert opened.reason.startswith("profile/h-77/events.xpt is empty")
    told = invoke("info", str(run))
    assert "No launch was recorded: profile/h-77/events.xpt is empty" in told.output
    assert "launched no kernel" not in told.output and "(partial)" in told.output
    selected = invoke("select", str(run), "--method", "gpu-point")
    assert "profile/h-77/events.xpt is empty" in str(selected.exception)


def test_a_process_without_a_stream_makes_the_run_partial(run: Path) -> None:
    """GIVEN a complete run WHEN the streams of a process are lost THEN it is partial, and `check`
    says why, in place of a program that launches nothing."""
    for stream in (run / "profile" / "h-77").iterdir():
        stream.unlink()
    opened = Run.open(run)
    assert opened.status == "partial"
    assert opened.reason.startswith("profile/h-77 has no stream, so what it recorded is lost")
    assert "profile/h-77 has no stream" in invoke("check", str(run)).output


def test_counts_that_could_not_be_read_make_the_run_partial(tmp_path: Path) -> None:
    """GIVEN a launch that ended well and whose counts are lost WHEN the run is finished THEN it is
    partial, and says so; one that failed has no counts, and the run is complete."""
    for reason, told in ((NOT_READ, "the counts of 1 launch in process h-77"), ("it failed", "")):
        lost = [
            traces.uncounted(2, reason) if record == traces.launch_grid(2, 0) else record
            for record in traces.events()
        ]
        path = traces.write_run(tmp_path / reason, lost, traces.cpu())
        ended = finish(traces.resume(path), path)
        assert ended.status == ("partial" if told else "complete")
        assert ended.reason.startswith(told) and bool(ended.reason) == bool(told)


def test_a_timer_that_gave_up_waiting_says_so(tmp_path: Path) -> None:
    """GIVEN a process in which `--timer sync` gave up waiting for a kernel THEN its times are
    doubted."""
    for name, more in (("waited", []), ("gave-up", [traces.meta("not_in_sync", "1")])):
        path = traces.write_run(tmp_path / name, [*more, *traces.events()], None, role="time")
        said = doubts(Run.open(path), [1.0])
        assert any("use --timer async" in sentence for sentence in said) == bool(more)


def test_lines_that_processes_left_are_told(run: Path) -> None:
    folder = run / "profile" / "failures"
    folder.mkdir()
    (folder / "77").write_bytes(b"77 the disk is full\n77 the disk is full\n")
    (folder / "78").write_bytes(b"78 \xff\x1b[2J" + b"x" * 10_000)
    (folder / "79").symlink_to("/dev/zero")
    (folder / "81").symlink_to("81 its trace has reached the limit on file sizes")
    os.mkfifo(folder / "80")
    first, second, third = losses_of(run / "profile")
    assert third == "process 81 could not record: its trace has reached the limit on file sizes"
    assert first == "process 77 could not record: the disk is full"
    assert second.isprintable() and len(second) < 300
    opened = Run.open(run)
    assert (opened.status, opened.reason) == ("partial", first)
    assert opened.profile is not None and opened.profile.losses[0] == first


def test_a_reason_of_the_manifest_stays(tmp_path: Path) -> None:
    run = traces.write_run(tmp_path / "run", traces.events(), traces.cpu(), status="partial")
    (run / "profile" / "h-77" / "cpu.xpt").write_bytes(b"")
    assert Run.open(run).reason == "made up"


def test_environments_have_one_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN executions of processes with short and long numbers THEN what the program finds on its
    stack lies at the same addresses, on which its path through libc depends."""
    sizes = set()
    for number in (7, 1234567):
        monkeypatch.setattr(os, "getpid", lambda number=number: number)
        folder = tmp_path / str(number)
        folder.mkdir()
        with losses(folder) as opened:
            sizes.add(len(str(opened.environment)))
    assert len(sizes) == 1
