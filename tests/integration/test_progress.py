# SPDX-License-Identifier: Apache-2.0
"""The live line: what it says, and that only a terminal gets it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import sys
import termios
import time
from pathlib import Path

import click
import pytest

from tests.support import traces
from tests.support.probes import require_cpu, require_opencl, require_programs
from tests.support.run import run_text
from tests.support.streams import StreamWriter
from xpuprof.cli.lines import coloured
from xpuprof.cli.progress import LONG, PERIOD, Progress, Stages, _Drawing
from xpuprof.engines.cpu.valgrind import Valgrind
from xpuprof.engines.native import native_file
from xpuprof.stages import VIEWER, counted, stage
from xpuprof.trace.layout import EVENTS
from xpuprof.trace.live import Live

WIDTH = 100
"""Columns of the terminal."""
PARTICLES = native_file("demo/particles")


def test_a_terminal_that_does_not_tell_its_width_shows_the_whole_line(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """GIVEN a terminal of no columns THEN the line keeps its last letter."""
    monkeypatch.setattr(os, "get_terminal_size", lambda _: os.terminal_size((0, 0)))
    drawn = _Drawing(lambda elapsed: "profile: 1 s, 0.0 MB")
    drawn._thread.join(PERIOD + 1.0)
    drawn.end()
    assert "xpuprof: profile: 1 s, 0.0 MB\r" in capfd.readouterr().err


def test_launches_are_counted_while_a_stream_is_written(tmp_path: Path) -> None:
    """GIVEN a stream that grows by chunks WHEN looked at THEN each look counts the launches so far,
    and the closed stream's are those that it holds."""
    folder = tmp_path / "h-77"
    folder.mkdir()
    live = Live(tmp_path)
    assert live.launches() == 0
    writer = StreamWriter(folder / "events.xpt", EVENTS)
    seen = []
    for number in range(4):
        tag, body, slice_ = traces.launch(number, 0, 1000 + number)
        writer.put(tag, body, slice_)
        if number % 2:
            writer.seal()
        seen.append(live.launches())
    assert seen[1:] == [2, 3, 4]
    assert live.bytes() > 0


def test_the_line_estimates_the_time_left(capsys: pytest.CaptureFixture[str]) -> None:
    """GIVEN a native run of 1,000 launches WHEN the profile has had a slow start THEN the rate is
    that since the first launch, and hours to go are worth one hint."""
    progress = Progress(5)
    assert progress.line(7, 0, "profile", 1.0) == "profile: 7 launches, 1 s, 0.0 MB"
    progress._launches, progress._start = 1000, None
    assert progress.line(10, 2_500_000, "profile", 20.0).startswith("profile: 10 of 1,000 launches")
    line = progress.line(110, 2_500_000, "profile", 30.0)
    assert line == "profile: 110 of 1,000 launches, 10/s, 30 s, 2.5 MB, about 1 min 29 s left"
    assert "ending" in progress.line(1000, 2_500_000, "profile", 130.0)
    progress._start = None
    for elapsed in (10.0, 2 * LONG, 3 * LONG):
        progress.line(1 + int(elapsed // LONG), 0, "profile", elapsed)
    assert capsys.readouterr().err.count("--window profiles a part") == 1


def test_the_line_counts_timer_runs() -> None:
    """GIVEN two of five timer runs WHEN the third runs THEN the time left is that of three."""
    progress = Progress(5)
    progress._durations = [9.0, 11.0]
    line = progress.line(0, 0, "time", 4.0)
    assert line == "timer run 3 of 5: 0 launches, 4 s, 0.0 MB, about 26 s left"


def test_the_line_counts_timer_runs_up_to_a_most() -> None:
    """GIVEN three to five timer runs THEN the time left is that of those that are certain."""
    progress = Progress(3, 5)
    progress._durations = [9.0, 11.0]
    line = progress.line(0, 0, "time", 4.0)
    assert line == "timer run 3 of 3 to 5: 0 launches, 4 s, 0.0 MB, about 6 s left"
    progress._durations.append(10.0)
    assert progress.line(0, 0, "time", 4.0).endswith("about 6 s left")


def test_the_line_counts_stages_within_stages() -> None:
    """GIVEN stages within stages WHEN the second of four is half done THEN the line counts both and
    estimates the time left; single and empty stages say nothing, and a closed one is gone."""
    shown = Stages()
    shown._drawing = _NotDrawn()
    VIEWER.set(shown)
    lines = []
    with stage("compare"), stage("launches", lambda: 0):
        for run in counted("run", range(4)):
            for _ in counted("seed", range(2)):
                for _ in counted("process", ["only"]):
                    lines.append(shown.line(30.0))
            if run == 1:
                break
    VIEWER.set(None)
    assert lines == [
        "compare, run 1 of 4, seed 1 of 2, 30 s",
        "compare, run 1 of 4, seed 2 of 2, 30 s, about 3 min 30 s left",
        "compare, run 2 of 4, seed 1 of 2, 30 s, about 1 min 30 s left",
        "compare, run 2 of 4, seed 2 of 2, 30 s, about 50 s left",
    ]
    assert shown._open == [] and shown._drawing is None
    assert list(counted("run", [1, 2])) == [1, 2]  # nobody looks


class _NotDrawn(_Drawing):
    """No thread and no terminal."""

    def __init__(self) -> None: ...

    def end(self) -> None: ...


def terminal(command: list[str], kill_at: bytes = b"") -> str:
    """What a command writes to a terminal on stderr; with `kill_at` it is killed at that text."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, WIDTH, 0, 0))
    pid = os.fork()
    if pid == 0:
        os.dup2(follower, 2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.execvp(command[0], command)
    os.close(follower)
    said = b""
    while True:
        try:
            part = os.read(leader, 65536)
        except OSError:  # the last writer has closed it
            break
        if not part:
            break
        said += part
        if kill_at and kill_at in said:
            os.kill(pid, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert status == (-signal.SIGKILL if kill_at else 0)
    return said.decode()


def test_only_a_terminal_gets_the_line(tmp_path: Path) -> None:
    """GIVEN a run WHEN stderr is a terminal THEN the profile and the timer runs show a line that is
    erased at the end; with -q or through a pipe there is none."""
    require_opencl()
    run = [sys.executable, "-m", "xpuprof", "run", "--cpu", "none", "--repeat", "2", "--force"]
    run += ["-o", str(tmp_path / "R")]
    program = ["--", str(PARTICLES), "200"]
    said = terminal([*run, *program])
    assert re.search(r"timer run 2 of 2: [\d,]+ of [\d,]+ launches", said), said
    assert said.count("\r\x1b[K") > said.count("timer run")
    assert "\x1b" not in terminal([*run, "-q", *program])
    assert "\x1b" not in run_text([*run, *program], check=True).stderr


def test_the_users_execution_shows_a_line_too(tmp_path: Path) -> None:
    """GIVEN a profile whose program has the terminal THEN there is a line; with -q none."""
    require_opencl()
    profile = [sys.executable, "-m", "xpuprof", "profile", "--cpu", "none", "--force"]
    profile += ["-o", str(tmp_path / "R")]
    program = ["--", "sh", "-c", 'sleep 2; exec "$0" 20', str(PARTICLES)]
    assert re.search(r"xpuprof: profile: 0 launches, [12] s, ", terminal([*profile, *program]))
    assert "\x1b" not in terminal([*profile, "-q", *program])


def test_a_killed_xpuprof_gives_the_last_row_back(tmp_path: Path) -> None:
    """GIVEN a live line in the terminal's last row WHEN xpuprof is killed THEN the line is erased
    and all rows scroll again."""
    profile = [sys.executable, "-m", "xpuprof", "profile", "--cpu", "none", "--gpu", "none"]
    profile += ["-o", str(tmp_path / "R"), "--", "sleep", "5"]
    said = terminal(profile, kill_at=b"\x1b[1;23r")
    assert "\x1b[r" not in said.partition("\x1b[1;23r")[0]
    assert said.endswith("\x1b[999;1H\x1b[0m\x1b[K\x1b[r\x1b8")


def test_what_the_program_prints_stays_readable(tmp_path: Path) -> None:
    """GIVEN a program that prints on the terminal, more than fits WHEN profiled THEN the line
    stands in the last row, whatever is above it is as printed, and at the end the line is gone."""
    require_opencl()
    require_programs("tmux", package="tmux")
    printed = [f"{number}: {'word ' * (number % 9)}".rstrip() for number in range(30)]
    script = tmp_path / "program.sh"
    asleep = {12: "printf part; sleep 2.2; echo", 29: "sleep 1"}
    script.write_text(
        "\n".join(f"echo '{text}'; {asleep.get(i, ':')}" for i, text in enumerate(printed))
        + f"\nexec {PARTICLES} 20 >/dev/null\n"
    )
    run = f"{sys.executable} -m xpuprof profile --cpu none --force -o {tmp_path}/R -- sh {script}"
    tmux = ["tmux", "-L", f"xpuprof-test-{os.getpid()}", "-f", "/dev/null"]
    run_text([*tmux, "new-session", "-d", "-x100", "-y10", f"{run}; sleep 60"], check=True)
    try:
        looks = []
        for _ in range(600):
            looks.append(run_text([*tmux, "capture-pane", "-p", "-S-100"], check=True).stdout)
            if "next:" in looks[-1]:
                break
            time.sleep(0.1)
    finally:
        run_text([*tmux, "kill-server"])
    assert any(look.splitlines()[-1].startswith("xpuprof: profile: 0 launches") for look in looks)
    printed[13] = f"part\n{printed[13]}"
    assert "\n".join(printed) in looks[-1]
    assert "launches, " not in looks[-1]


def test_kernels_that_match_nothing_end_the_work(tmp_path: Path) -> None:
    """GIVEN --kernels that no launch matches THEN profile says so, and run is not continued after
    the profile; both end with the exit code of no result."""
    require_opencl()
    for command in ("profile", "run"):
        line = [sys.executable, "-m", "xpuprof", command, "--cpu", "none", "--kernels", "nosuch"]
        done = run_text([*line, "-o", str(tmp_path / command), "--", str(PARTICLES), "20"])
        assert done.returncode == 3
        said = (
            r"--kernels nosuch chose none of the [\d,]+ launches \(of energy, forces, integrate\)"
        )
        assert len(re.findall(said, done.stderr)) == 1, done.stderr
    assert {path.name for path in tmp_path.glob("run/*/")} == {"first", "profile"}


def test_a_run_without_kernels_suggests_its_report(tmp_path: Path) -> None:
    """GIVEN no GPU engine THEN the next step is not to validate markers that there are none of."""
    line = [sys.executable, "-m", "xpuprof", "run", "--gpu", "none", "--repeat", "1"]
    require_cpu(Valgrind())
    done = run_text([*line, "--cpu", "valgrind", "-o", str(tmp_path / "R"), "--", "true"])
    assert done.returncode == 0, done.stderr
    assert "next: xpuprof report" in done.stderr and "validate" not in done.stderr


def test_a_report_is_coloured_on_a_terminal_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN a report WHEN shown THEN its figures are bold and the warning red, and the words stay;
    NO_COLOR leaves it plain."""
    text = "a   b\n--  --\nmeasured        1.57 s   median\nsampling error  9 %   UNRELIABLE\n"
    shown = coloured(text)
    assert click.unstyle(shown) == text
    assert f"measured        {click.style('1.57 s', bold=True)}   median" in shown
    assert click.style("UNRELIABLE", fg="red", bold=True) in shown
    monkeypatch.setenv("NO_COLOR", "1")
    assert coloured(text) == text


def test_our_own_long_work_shows_a_line(tmp_path: Path) -> None:
    """GIVEN a comparison of some seconds WHEN stderr is a terminal THEN it shows how far it is, in
    lines no longer than the terminal, and erases the last; with -q there is none."""
    table = tmp_path / "t.csv"
    rows = (f"{'gemm' if i % 3 else 'sum'},{1 + i % 7}e-4" for i in range(5_000))
    table.write_text("\n".join(["kernel,time", *rows]) + "\n")
    words = [sys.executable, "-m", "xpuprof"]
    import_ = [*words, "import", str(table), "-o", str(tmp_path / "R"), "--map", "time=time:s"]
    run_text(import_, check=True)
    compare = [*words, "compare", str(tmp_path / "R"), "--methods", "random", "--repeats", "3000"]
    said = terminal(compare)
    lines = re.findall(r"\r\x1b\[K(xpuprof: compare, seed [\d,]+ of 3,000, [^\r]+)", said)
    assert lines and max(map(len, lines)) < WIDTH
    assert re.search(r"\r\x1b\[K(?!xpuprof: compare)", said)
    assert "\x1b" not in terminal([*compare, "-q"])
