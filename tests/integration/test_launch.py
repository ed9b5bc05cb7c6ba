# SPDX-License-Identifier: Apache-2.0
"""The user's program is never harmed: output, exit code, signals and input are unchanged."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.compile import compile_text
from tests.support.paths import ROOT
from tests.support.run import last_json, xpuprof, xpuprof_line
from xpuprof.errors import NO_RESULT
from xpuprof.trace.run import Run

ENDINGS = """
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <stdio.h>
int main(int argc, char **argv) {
  if (argc < 2) return 99;
  printf("to stdout\\n"); fprintf(stderr, "to stderr\\n"); fflush(stdout);
  if (!strcmp(argv[1], "segv")) { volatile int *p = 0; *p = 1; }
  if (!strcmp(argv[1], "abort")) abort();
  return atoi(argv[1]);
}
"""


@pytest.fixture(scope="module")
def endings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that ends as its argument says."""
    return compile_text(ENDINGS, tmp_path_factory.mktemp("endings") / "endings")


@pytest.mark.parametrize("how", ["0", "1", "42", "255", "segv", "abort"])
@pytest.mark.parametrize("command", ["run", "profile", "time"])
@pytest.mark.valgrind
def test_ending_and_output_are_the_programs(
    endings: Path, tmp_path: Path, command: str, how: str
) -> None:
    """GIVEN a program with a given ending WHEN run under xpuprof THEN nothing differs, but that
    `run`, which has no result without kernels, says so, also by its exit code if it is 0."""
    native = subprocess.run([endings, how], capture_output=True, check=False)
    ours = xpuprof(command, "-q", "-o", tmp_path / "run", "--", endings, how)
    assert ours.stdout.startswith(native.stdout)
    if command == "run":
        assert ours.returncode == (native.returncode or NO_RESULT)
        own = ours.stderr.removeprefix(native.stderr)
        assert own.startswith(b"xpuprof: no result in ") and own.count(b"\n") == 1
    else:
        assert (ours.returncode, ours.stderr) == (native.returncode, native.stderr)
    for execution in Run.open(tmp_path / "run").executions:
        record, number = execution.record, max(-native.returncode, 0)
        assert (record.exit_code, record.signal or 0) == (max(native.returncode, -1), number)
        assert record.tsc_end > record.tsc_start > 0


def test_a_program_without_kernels_gives_no_result(endings: Path, tmp_path: Path) -> None:
    """GIVEN no kernel launch WHEN run THEN it ends after the user's execution and says why."""
    done = xpuprof("run", "--json", "-o", tmp_path / "run", "--", endings, "0")
    assert done.returncode == NO_RESULT
    result = last_json(done)
    assert result["status"] == "partial" and "no kernel was seen" in result["reason"]
    assert b"no kernel was seen: GPU engine opencl watches libOpenCL.so" in done.stderr
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["first", "manifest.json"]


@pytest.mark.parametrize("command", ["run", "profile", "time"])
def test_a_process_filter_that_matches_nothing_gives_no_result(
    endings: Path, tmp_path: Path, command: str
) -> None:
    """GIVEN --process with another name THEN the sentence names the filter."""
    done = xpuprof(command, "--process", "other", "-o", tmp_path / "run", "--", endings, "0")
    assert b"no process that matches --process other launched a kernel" in done.stderr
    assert done.returncode == NO_RESULT
    assert Run.open(tmp_path / "run").status == "partial"
    assert not (tmp_path / "run/selection.json").exists()


def test_validate_alone_runs_the_recorded_command(endings: Path, tmp_path: Path) -> None:
    """GIVEN a selection without a program WHEN validated THEN it says what it runs."""
    made = xpuprof("run", "--gpu", "none", "--cpu", "none", "--repeat", "2", "-o", tmp_path / "run",
                   "--", endings, "0")  # fmt: skip
    assert b"sampling error  none: no GPU engine watched the program" in made.stdout
    done = xpuprof("validate", tmp_path / "run/selection.json", "--repeat", "1")
    assert f"this runs the recorded command: {endings} 0".encode() in done.stderr
    assert done.returncode == 0 and b"to stdout" in done.stdout


READER = "import sys; data = sys.stdin.buffer.read(); print(len(data), sum(data))"


@pytest.mark.parametrize("kind", ["file", "pipe"])
def test_every_execution_reads_the_same_input(tmp_path: Path, kind: str) -> None:
    """GIVEN input by file or pipe WHEN the program runs several times THEN each run reads it."""
    data = os.urandom(300_000)
    (tmp_path / "input").write_bytes(data)
    arguments = (
        "run",
        "-q",
        "--cpu",
        "none",
        "--gpu",
        "none",
        "-o",
        tmp_path / "run",
        "--",
        sys.executable,
        "-c",
    )
    if kind == "pipe":
        done = xpuprof(*arguments, READER, stdin=data)
    else:
        with open(tmp_path / "input", "rb") as file:
            done = xpuprof(*arguments, READER, stdin=file.fileno())
    expected = f"{len(data)} {sum(data)}\n".encode()
    assert done.stdout.startswith(expected)
    assert (tmp_path / "run/profile/stdout").read_bytes() == expected
    assert (tmp_path / "run/time-1/stdout").read_bytes() == expected


@pytest.mark.parametrize("kind", ["pipe", "socket"])
def test_what_the_program_leaves_in_its_input_stays_there(tmp_path: Path, kind: str) -> None:
    """GIVEN a program that reads a part of its input WHEN it runs several times THEN each run finds
    the same, and whoever reads our input next the rest, as in a shell's loop."""
    if kind == "pipe":
        read_end, write_end = os.pipe()
    else:
        read_end, write_end = (end.detach() for end in socket.socketpair())
    os.write(write_end, b"abcd")
    part = "import os, sys; sys.stdout.write(os.read(0, 2).decode())"
    options = ("run", "-q", "--cpu", "none", "--gpu", "none", "-o", tmp_path / "run", "--")
    done = xpuprof(*options, sys.executable, "-c", part, stdin=read_end)
    os.close(write_end)
    assert os.read(read_end, 100) == b"cd"
    os.close(read_end)
    assert done.stdout.startswith(b"ab")
    assert (tmp_path / "run/time-1/stdout").read_bytes() == b"ab"


TAKES_ALL = """
import os, sys
if os.path.isfile("/proc/self/fd/0"):
    sys.exit()  # a later execution
os.read(os.open(sys.argv[1], os.O_RDONLY), 4)
print(len(os.read(0, 4)))
"""


def test_another_reader_of_our_input_does_not_hang_us(tmp_path: Path) -> None:
    """GIVEN another reader that takes all of our input, which stays open, WHEN the program has read
    the same THEN the run ends."""
    read_end, write_end = os.pipe()
    os.write(write_end, b"abcd")
    ours = f"/proc/{os.getpid()}/fd/{read_end}"
    options = ("run", "-q", "--cpu", "none", "--gpu", "none", "-o", tmp_path / "run", "--")
    done = xpuprof(*options, sys.executable, "-c", TAKES_ALL, ours, stdin=read_end, timeout=60)
    os.close(read_end)
    os.close(write_end)
    assert done.stdout.startswith(b"4\n")


def test_a_pipe_that_stays_open_does_not_hang(endings: Path, tmp_path: Path) -> None:
    """GIVEN a program that reads nothing WHEN our input never ends THEN the run still ends."""
    read_end, write_end = os.pipe()
    try:
        done = xpuprof("run", "-q", "-o", tmp_path / "run", "--", endings, "0", stdin=read_end)
    finally:
        os.close(read_end)
        os.close(write_end)
    assert done.returncode == NO_RESULT  # it launches no kernel


def start(*options: object, program: str) -> subprocess.Popen[bytes]:
    """xpuprof on a Python program; both outputs are pipes."""
    line = xpuprof_line(*options, "--", sys.executable, "-c", program)
    return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT)


def test_signal_reaches_the_program(tmp_path: Path) -> None:
    """GIVEN a program that handles SIGTERM WHEN xpuprof gets SIGTERM THEN the program's handler
    decides its end."""
    program = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))\n"
        "print('ready', flush=True)\n"
        "time.sleep(60)\n"
    )
    ours = start("time", "-q", "--repeat", "1", "-o", tmp_path / "run", program=program)
    assert ours.stdout is not None and ours.stdout.readline() == b"ready\n"
    ours.send_signal(signal.SIGTERM)
    assert ours.wait(timeout=30) == 7


def test_a_run_that_a_signal_cut_short_says_what_is_missing(tmp_path: Path) -> None:
    """GIVEN a program that handles SIGTERM WHEN `run` gets it THEN the exit code is the program's,
    and a note names the signal and the missing results."""
    program = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))\n"
        "print('ready', flush=True)\n"
        "time.sleep(60)\n"
    )
    ours = start("run", "--cpu", "none", "-o", tmp_path / "run", program=program)
    assert ours.stdout is not None and ours.stdout.readline() == b"ready\n"
    ours.send_signal(signal.SIGTERM)
    _, said = ours.communicate(timeout=30)
    assert ours.returncode == 5
    assert b"SIGTERM asked xpuprof to stop; no profile and no selection were made" in said


@pytest.mark.parametrize("victim", ["program", "supervisor"])
def test_sigkill_leaves_a_run_that_opens_and_says_partial(tmp_path: Path, victim: str) -> None:
    """GIVEN SIGKILL at any moment WHEN the run is opened THEN it says partial and why."""
    program = "import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(60)\n"
    ours = start("profile", "-q", "--cpu", "none", "-o", tmp_path / "run", program=program)
    assert ours.stdout is not None
    pid = int(ours.stdout.readline())
    os.kill(ours.pid if victim == "supervisor" else pid, signal.SIGKILL)
    assert ours.wait(timeout=30) == -signal.SIGKILL
    if victim == "supervisor":
        os.kill(pid, signal.SIGKILL)
        time.sleep(0.1)
    info = last_json(xpuprof("info", "--json", tmp_path / "run"))
    assert info["status"] == "partial"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "no program"),
        (["./does-not-exist"], "does not exist"),
        (["no-such-program-anywhere"], "not on PATH"),
        (["./plain.txt"], "not executable"),
        (["/tmp"], "is a folder"),
    ],
)
@pytest.mark.parametrize("command", ["run", "profile", "time"])
def test_wrong_command_is_one_sentence(
    tmp_path: Path, command: str, arguments: list[str], words: str
) -> None:
    """GIVEN a command that cannot run WHEN called THEN one sentence, exit code 2, nothing
    created."""
    (tmp_path / "plain.txt").write_text("no program")
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = xpuprof(command, "-o", "run", "--", *arguments, cwd=tmp_path, environment=environment)
    assert done.returncode == 2
    assert words in done.stderr.decode() and done.stderr.count(b"\n") == 1
    assert not (tmp_path / "run").exists()


def test_existing_directory_is_kept(endings: Path, tmp_path: Path) -> None:
    """GIVEN a user's directory WHEN named as output THEN it is never touched."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run/mine").write_text("precious")
    for flags in ([], ["--force"]):
        done = xpuprof("time", *flags, "-o", tmp_path / "run", "--", endings, "0")
        assert done.returncode == 2 and done.stderr.count(b"\n") == 1
    assert (tmp_path / "run/mine").read_text() == "precious"


def test_unknown_engine_is_one_sentence(endings: Path, tmp_path: Path) -> None:
    """GIVEN an engine that does not exist WHEN asked for THEN the sentence names the choices."""
    done = xpuprof("profile", "--cpu", "magic", "-o", tmp_path / "run", "--", endings, "0")
    assert done.returncode == 2 and b"valgrind" in done.stderr


def test_program_that_forks(tmp_path: Path) -> None:
    """GIVEN a program whose child ends first WHEN profiled THEN the parent's run is complete."""
    fork = compile_text(
        "#include <stdio.h>\n#include <sys/wait.h>\n#include <unistd.h>\n"
        'int main() { if (!fork()) { puts("child"); return 3; } int s; wait(&s);'
        ' printf("parent saw %d\\n", WEXITSTATUS(s)); return 0; }',
        tmp_path / "fork",
    )
    done = xpuprof("run", "--gpu", "none", "--json", "-q", "-o", tmp_path / "run", "--", fork)
    assert done.stdout.startswith(b"child\nparent saw 3\n")
    assert last_json(done)["status"] == "complete"


@pytest.mark.parametrize("command", ["run", "time", "validate"])
def test_a_signal_stops_all_executions(tmp_path: Path, command: str) -> None:
    """GIVEN a command of several executions WHEN it is signalled during a later one THEN no further
    one starts, and it ends by the signal."""
    counted = tmp_path / "counted"
    program = ["sh", "-c", f"echo >>{counted}; [ $(wc -l <{counted}) -lt 2 ] || sleep 60"]
    line = [sys.executable, "-m", "xpuprof", command]
    if command == "validate":
        done = subprocess.run(
            [
                *line[:3],
                "run",
                "--cpu",
                "none",
                "--gpu",
                "none",
                "-q",
                "-o",
                tmp_path / "made",
                "--",
                "true",
            ]
        )
        assert done.returncode == 0
        line += [tmp_path / "made" / "selection.json"]
    if command == "run":
        line += ["--cpu", "none", "--gpu", "none"]
    line += ["--repeat", "4", "-o", tmp_path / "run", "--", *program]
    ours = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while not counted.exists() or counted.read_text() != "\n\n":
        assert ours.poll() is None
        time.sleep(0.02)
    ours.terminate()
    _, said = ours.communicate(timeout=30)
    assert ours.returncode == -signal.SIGTERM
    assert counted.read_text() == "\n\n"
    assert "Traceback" not in said
    assert json.loads((tmp_path / "run" / "manifest.json").read_text())["status"] == "partial"
