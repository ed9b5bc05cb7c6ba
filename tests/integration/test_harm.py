# SPDX-License-Identifier: Apache-2.0
"""When our side fails, the program keeps its exit code, the user gets one sentence, and the run
says what it lacks."""

from __future__ import annotations

import errno
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import termios
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support import boundary_abi, traces
from tests.support.compile import compile_files, compile_text, opencl_program
from tests.support.long_runs import write_long_run, write_long_selection
from tests.support.paths import ROOT
from tests.support.run import last_json, run, xpuprof, xpuprof_line, xpuprof_text
from xpuprof.cli import ends
from xpuprof.engines.gpu.opencl import drivers
from xpuprof.engines.native import native_file
from xpuprof.launch.execute import RUNTIME
from xpuprof.trace.check import check_run
from xpuprof.trace.losses import DISK_FULL
from xpuprof.trace.run import Run

OURS = Path(ends.__file__).parents[1]
NOT_UTF8 = os.fsdecode(b"caf\xe9")
NO_ENGINE = ("--cpu", "none", "--gpu", "none")
"""For programs without kernels: a run of one that is watched for kernels has no result."""
AS_ROOT = pytest.mark.skipif(os.getuid() != 0, reason="only root may do this")


def manifest(run_folder: Path) -> dict[str, object]:
    value = json.loads((run_folder / "manifest.json").read_bytes())
    assert isinstance(value, dict)
    return value


# ---- bytes ---------------------------------------------------------------------------------------


def test_bytes_go_through_every_command(tmp_path: Path) -> None:
    """GIVEN an argument and a folder that are not UTF-8 THEN a run is made, read and used for a
    selection, and the bytes are kept."""
    folder = tmp_path / NOT_UTF8
    made = xpuprof("run", *NO_ENGINE, "--repeat", "1", "-o", folder, "--", "echo", NOT_UTF8)
    assert made.returncode == 0 and made.stdout.startswith(b"caf\xe9\n")
    assert manifest(folder)["argv"] == ["echo", NOT_UTF8]
    shown = xpuprof("info", folder)
    assert shown.returncode == 0 and b"caf\xe9" in shown.stdout
    readers: list[tuple[int, tuple[str | Path, ...]]] = [
        (0, ("info", "--json")),
        (3, ("check",)),  # nothing was recorded that it could check
        (0, ("report",)),
        (0, ("select", "-o", tmp_path / "s")),
    ]
    for code, command in readers:
        done = xpuprof(*command, folder)
        assert (done.returncode, b"Traceback" in done.stderr) == (code, False), command
    checked = xpuprof(
        "validate", "--repeat", "1", folder / "selection.json", "--", "echo", NOT_UTF8
    )
    assert checked.returncode == 0 and b"no differences" in checked.stdout


def test_a_folder_without_a_manifest_is_used(tmp_path: Path) -> None:
    """GIVEN a folder left by a run that could not write its manifest THEN the next run uses it."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run/manifest.json.new").touch()
    done = xpuprof("time", "-q", "--repeat", "1", "-o", tmp_path / "run", "--", "true")
    assert done.returncode == 0
    assert sorted(p.name for p in (tmp_path / "run").iterdir()) == ["manifest.json", "time-0"]


def test_arguments_can_be_kept_out(tmp_path: Path) -> None:
    options = ("--redact", *NO_ENGINE, "--repeat", "1", "-q", "-o", tmp_path / "run")
    done = xpuprof("run", *options, "--", "echo", "--password=12345")
    assert done.stdout.startswith(b"--password=12345\n")
    for file in (tmp_path / "run").rglob("*.json"):
        assert b"12345" not in file.read_bytes()
    assert manifest(tmp_path / "run")["argv"] == ["echo", "(redacted)"]
    assert (tmp_path / "run/manifest.json").stat().st_mode & 0o077 == 0


# ---- output that cannot be written ---------------------------------------------------------------


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recorded") / "run"
    options = (*NO_ENGINE, "--repeat", "1", "-q", "-o", folder)
    assert xpuprof("run", *options, "--", "true").returncode == 0
    return folder


@pytest.mark.parametrize("command", ["info", "check", "report", "doctor", "--help"])
def test_a_full_output_is_one_sentence(recorded: Path, command: str) -> None:
    line = xpuprof_line(command, *([recorded] if command in ("info", "check", "report") else []))
    with open("/dev/full", "wb") as full:
        done = subprocess.run(line, stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 2
    assert done.stderr == b"xpuprof: error: the output cannot be written: No space left on device\n"
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = subprocess.run(line, stdout=write_end, stderr=subprocess.PIPE, check=False)
    os.close(write_end)
    assert done.returncode in (-signal.SIGPIPE, 1) and done.stderr == b""


def test_a_reader_that_has_gone_is_no_error(tmp_path: Path) -> None:
    """GIVEN a program that fails WHEN nobody reads our output any more THEN we end as the program
    did, without a word, and the run is kept."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    options = ("-q", "--repeat", "1", *NO_ENGINE, "-o", tmp_path / "run")
    line = xpuprof_line("run", *options, "--", "sh", "-c", "exit 7")
    done = subprocess.run(line, stdout=write_end, stderr=subprocess.PIPE, check=False)
    os.close(write_end)
    assert (done.returncode, done.stderr) == (7, b"")
    assert manifest(tmp_path / "run")["status"] == "complete"


@pytest.mark.parametrize("where", ["stdout", "stderr", "closed"])
def test_a_full_output_keeps_the_programs_exit_code(tmp_path: Path, where: str) -> None:
    redirect = {"stdout": ">/dev/full", "stderr": "2>/dev/full", "closed": ">&- 2>&-"}[where]
    line = xpuprof_line("profile", "--json", "--cpu", "none", "-o", tmp_path / "run", "--")
    done = run(["sh", "-c", f'exec "$@" {redirect}', "sh", *line, "sh", "-c", "exit 7"])
    assert done.returncode == 7 and b"Traceback" not in done.stderr
    assert manifest(tmp_path / "run")["status"] == "complete"


@pytest.mark.parametrize("command", ["run", "time", "validate"])
def test_a_report_that_cannot_be_written_is_an_error(
    recorded: Path, tmp_path: Path, command: str
) -> None:
    """GIVEN a full output WHEN the program succeeds THEN the exit code is 2; when it fails, its
    own."""
    options = {
        "run": (*NO_ENGINE, "-o", tmp_path / "run"),
        "time": ("--json", "-o", tmp_path / "run"),
        "validate": (recorded / "selection.json",),
    }[command]
    for script, wanted in (("exit 0", 2), ("exit 7", 7)):
        force = [] if command == "validate" else ["--force"]
        ours = [command, "-q", "--repeat", "1", *force, *options, "--", "sh", "-c", script]
        with open("/dev/full", "wb") as full:
            done = subprocess.run(xpuprof_line(*ours), stdout=full, stderr=subprocess.PIPE)
        assert done.returncode == wanted
        assert (
            done.stderr
            == b"xpuprof: error: the output cannot be written: No space left on device\n"
        )


@pytest.mark.parametrize("where", ["file", "pipe", "terminal"])
def test_our_text_begins_on_a_line_of_its_own(tmp_path: Path, where: str) -> None:
    """GIVEN a program that leaves its last line open, or not THEN our object is a line, and a
    terminal or file shows no empty line before it."""
    for text in ("open", "ended\n"):
        options = ("-q", "--json", "--force", *NO_ENGINE, "-o", tmp_path / "run")
        line = xpuprof_line("profile", *options, "--", "printf", text)
        if where == "pipe":
            shown = run(line).stdout
        elif where == "file":
            with open(tmp_path / "out", "w+b") as file:
                subprocess.run(line, stdout=file, check=True)
                file.seek(0)
                shown = file.read()
        else:
            shown = _on_terminal(line)
        first, *rest = [part for part in shown.splitlines() if where != "pipe" or part]
        assert first.decode() == text.strip()
        assert len(rest) == 1 and json.loads(rest[0])["exit_code"] == 0


def _on_terminal(line: list[str]) -> bytes:
    """What a terminal of 80 columns shows, with lines that it wraps, returns and overwrites."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 80))
    with subprocess.Popen(line, stdout=theirs) as process:
        os.close(theirs)
        shown = b""
        with suppress(OSError):  # the end of a terminal
            while data := os.read(ours, 4096):
                shown += data
    assert process.returncode == 0
    os.close(ours)
    before, blanks, after = shown.partition(b" " * 79 + b"\r")
    assert blanks
    return before + (b"" if before.endswith(b"\n") else b"\n") + after


@pytest.mark.parametrize("command", ["run", "time", "validate", "profile"])
def test_json_is_an_object_whatever_happens(recorded: Path, tmp_path: Path, command: str) -> None:
    """GIVEN a program that is killed, or a run that cannot be made THEN --json prints an object."""
    options: tuple[str | Path, ...] = NO_ENGINE if command in ("run", "profile") else ()
    options += (recorded / "selection.json",) if command == "validate" else ()
    done = xpuprof(
        *(command, "--json", *options, "-o", tmp_path / "run", "--", "sh", "-c", "kill -KILL $$")
    )
    assert done.returncode == -signal.SIGKILL and "SIGKILL" in last_json(done)["reason"]
    done = xpuprof(command, "--json", *options, "-o", tmp_path / "run", "--", "true")
    assert done.returncode == 2 and last_json(done)["exit_code"] == 2
    assert "exists; name another path" in last_json(done)["error"]


def fill(folder: Path) -> None:
    with open(folder / "filled", "wb", buffering=0) as file:
        for size in (4096, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError as error:
                assert error.errno == errno.ENOSPC


def test_a_full_disk_at_the_start_is_one_sentence(small_disk: Path) -> None:
    fill(small_disk)
    done = xpuprof("time", "-o", small_disk / "run", "--", "touch", small_disk / "started")
    assert done.returncode == 2 and b"No space left on device" in done.stderr
    assert done.stderr.count(b"\n") == 1
    assert sorted(p.name for p in small_disk.iterdir()) == ["filled"]


def test_a_disk_that_fills_up_keeps_exit_code_and_reason(small_disk: Path) -> None:
    """GIVEN a program that fills the disk of its run and is killed THEN that is recorded."""
    line = f"dd if=/dev/zero of={small_disk}/z bs=512 2>/dev/null; echo end; kill -KILL $$"
    done = xpuprof("profile", "-q", "--cpu", "none", "-o", small_disk / "r", "--", "sh", "-c", line)
    assert done.returncode == -signal.SIGKILL and done.stdout == b"end\n"
    kept = manifest(small_disk / "r")
    assert kept["status"] == "partial" and "SIGKILL" in str(kept["reason"])


def test_no_execution_follows_one_that_fills_the_disk(small_disk: Path) -> None:
    """GIVEN a program whose traces fill the disk THEN it runs to its own end, no further execution
    follows, and the run says why."""
    stand_in = [sys.executable, boundary_abi.__file__, native_file(RUNTIME), 400_000]
    made = ("time", "--gpu", "none", "--repeat", "3", "-o", small_disk / "run")
    done = xpuprof(*made, "--", *map(str, stand_in), "_exit", "none")
    assert done.returncode == 0 and DISK_FULL.encode() in done.stderr
    kept = Run.open(small_disk / "run")
    assert kept.status == "partial" and DISK_FULL in kept.reason
    assert [execution.name for execution in kept.executions] == ["time-0"]


def test_a_temporary_file_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    """GIVEN a report whose times do not fit on the disk THEN the folder for them is named."""
    folder = write_long_run(tmp_path / "run", 2000, ["profile", "time"])
    write_long_selection(folder / "selection.json", 2000)
    line = ["sh", "-c", 'ulimit -f 1; exec "$@"', "sh", *xpuprof_line("report", folder)]
    done = run(line, environment=os.environ | {"TMPDIR": str(tmp_path)})
    told = f"xpuprof: error: {tmp_path}: File too large; raise the limit on files (ulimit -f)\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, b"", told.encode())


def test_a_file_limit_is_one_sentence(tmp_path: Path) -> None:
    line = xpuprof_line("time", "-o", tmp_path / "run", "--", "true")
    done = run(["sh", "-c", 'ulimit -f 1; exec "$@"', "sh", *line])
    assert done.returncode == 2 and done.stderr.count(b"\n") == 1
    assert b"File too large" in done.stderr and not (tmp_path / "run").exists()


@pytest.mark.parametrize("command", ["profile", "time"])
def test_a_limit_on_the_traces_ends_the_recording(tmp_path: Path, command: str) -> None:
    """GIVEN a program whose traces outgrow --max-size THEN it runs to its own end, the run is
    partial with the reason, what was recorded is sound, and no further runs follow."""
    stand_in = [sys.executable, boundary_abi.__file__, native_file(RUNTIME), 400_000]
    options = ("--cpu", "none") if command == "profile" else ("--repeat", "3")
    made = (command, "--gpu", "none", *options, "--max-size", "600k", "-o", tmp_path / "run")
    done = xpuprof(*made, "--", *map(str, stand_in), "_exit", "none")
    assert done.returncode == 0, done.stderr
    kept = Run.open(tmp_path / "run")
    assert kept.status == "partial" and "the traces reached 600 kB, so" in kept.reason
    assert b"--max-size" in done.stderr and len(kept.executions) == 1
    (process,) = kept.executions[0].processes
    assert 1000 < process.sums.launches < 400_000
    assert check_run(kept.path).violations == []


# ---- what could not be recorded ------------------------------------------------------------------


def test_a_process_that_outlives_the_program_makes_the_run_partial(tmp_path: Path) -> None:
    options = ("profile", "-q", "--cpu", "none", "-o", tmp_path / "run")
    line = "sleep 30 >/dev/null 2>&1 & echo $!; exit 3"
    done = xpuprof(*options, "--", "sh", "-c", line)
    os.kill(int(done.stdout), signal.SIGKILL)
    assert done.returncode == 3
    kept = manifest(tmp_path / "run")
    assert kept["status"] == "partial" and "(sleep) outlived the program; what it did" in str(
        kept["reason"]
    )


@pytest.mark.opencl
@AS_ROOT
def test_missed_launches_of_another_user_are_reported(tmp_path: Path) -> None:
    """GIVEN a program that drops its privileges before its first launch and then cannot reach the
    folder THEN the run is partial and says so."""
    tmp_path.chmod(0o700)
    with tempfile.TemporaryDirectory(prefix="harm-") as place:
        os.chmod(place, 0o777)
        program = opencl_program("steps", Path(place))
        options = ("time", "-q", "--repeat", "1", "-o", tmp_path / "run")
        user = ("setpriv", "--reuid", "65534", "--clear-groups")
        environment = os.environ | {"HOME": place, "POCL_CACHE_DIR": f"{place}/cache"}
        line = [*user, program, "1"]
        if run(line, environment=environment, cwd=Path("/")).returncode != 0:
            pytest.skip("another user cannot use OpenCL here")
        done = xpuprof(*options, "--", *line, cwd=Path("/"), environment=environment)
    assert done.returncode == 0, done.stderr
    kept = manifest(tmp_path / "run")
    assert kept["status"] == "partial" and "could not record" in str(kept["reason"])


CLEARS_ITS_ENVIRONMENT = """
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>
int main(int argc, char **argv) {
  (void)argv;
  if (argc > 1 && *argv[1] == 'i') clearenv();
  void *loader = dlopen("libOpenCL.so.1", RTLD_NOW);
  int (*platforms)(unsigned, void *, unsigned *) = dlsym(loader, "clGetPlatformIDs");
  unsigned count = 0;
  platforms(0, 0, &count);
  while (argc > 1 && clock() < 2 * CLOCKS_PER_SEC) continue;
  return 3;
}"""


@pytest.mark.opencl
def test_a_process_that_lost_our_library_is_reported(tmp_path: Path) -> None:
    """GIVEN a program whose environment is cleared before it loads OpenCL THEN the run is partial
    and says so; GIVEN one that keeps it THEN it is complete."""
    text = f"#define _GNU_SOURCE{CLEARS_ITS_ENVIRONMENT}"
    program = compile_text(text, tmp_path / "clears", "-ldl")
    options = ("time", "-q", "--force", "--repeat", "1", "-o", tmp_path / "run")
    for line in (["env", "-i", program, "spins"], [program, "itself"], [program]):
        done = xpuprof(*options, "--", *line)
        assert done.returncode == 3, done.stderr
        kept = manifest(tmp_path / "run")
        if line == [program]:
            assert kept["status"] == "complete"
        else:
            assert kept["status"] == "partial"
            assert "(clears) used OpenCL without xpuprof's library" in str(kept["reason"])


CALLS_A_DRIVER = """
#include <dlfcn.h>
#include <unistd.h>
int main(int argc, char **argv) {
  if (argc < 2 || !dlopen(argv[1], RTLD_NOW)) return 4;
  usleep(500000);
  return 3;
}"""


@pytest.mark.opencl
def test_a_driver_without_a_loader_is_reported(tmp_path: Path) -> None:
    """GIVEN a program that loads an OpenCL driver itself THEN the run is partial and names it."""
    driver = next(iter(drivers(os.environ)), None)
    if not driver:
        pytest.skip("no driver is named in an .icd file")
    program = compile_text(CALLS_A_DRIVER, tmp_path / "direct", "-ldl")
    done = xpuprof("profile", "-q", "--cpu", "none", "-o", tmp_path / "run", "--", program, driver)
    assert done.returncode == 3, done.stderr
    kept = manifest(tmp_path / "run")
    assert kept["status"] == "partial"
    assert f"called the OpenCL driver {Path(driver).name} itself" in str(kept["reason"])


# ---- one folder, two runs ------------------------------------------------------------------------


@pytest.mark.parametrize("force", [[], ["--force"]])
def test_only_one_of_several_runs_gets_the_folder(tmp_path: Path, force: list[str]) -> None:
    """GIVEN runs that want the same folder at once THEN one gets it and the others say so."""
    if force:
        xpuprof("time", "-q", "--repeat", "1", "-o", tmp_path / "run", "--", "true")
    line = ["time", "--repeat", "1", *force, "-o", str(tmp_path / "run"), "--", "sleep", "4"]
    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(lambda _: xpuprof_text(*line), range(4)))
    assert sorted(d.returncode for d in done) == [0, 2, 2, 2], [d.stderr for d in done]
    assert all(d.stderr.count("\n") == 1 for d in done if d.returncode)
    assert not any("Traceback" in d.stderr for d in done)
    assert manifest(tmp_path / "run")["status"] == "complete"
    assert [p.name for p in tmp_path.iterdir()] == ["run"]


# ---- interrupts ----------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("start", [0.02, 0.2, 0.8])
def test_an_early_interrupt_ends_the_command(tmp_path: Path, start: float, number: int) -> None:
    """GIVEN a signal at any moment of start-up THEN the command ends by it, prints at most which
    folder it leaves, and nothing of ours is in a traceback: only Python's own start-up, before it
    reads our first line, may print one."""
    line = xpuprof_line("time", "-q", "--repeat", "1", "-o", tmp_path / "run", "--", "sleep", "30")
    for moment in range(10):
        ours = subprocess.Popen(line, stderr=subprocess.PIPE, start_new_session=True)
        try:
            _, said = ours.communicate(timeout=start * (1 + moment / 4))
        except subprocess.TimeoutExpired:
            os.killpg(ours.pid, number)
            _, said = ours.communicate(timeout=60)
        assert f'File "{OURS}/'.encode() not in said
        if b"Traceback" not in said:
            assert ours.returncode == -number
            if said:
                stopped = f"xpuprof: stopped; {tmp_path}/run keeps what was recorded\n"
                assert said.decode() == stopped
                assert manifest(tmp_path / "run")["status"] == "partial"
        shutil.rmtree(tmp_path / "run", ignore_errors=True)


@pytest.mark.parametrize(
    ("method", "use"),
    [("__del__", "Interrupted()"), ("__set_name__", "type('Made', (), {'member': Interrupted()})")],
    ids=["finalizer", "class"],
)
def test_an_interrupt_that_python_does_not_raise_ends_the_command(method: str, use: str) -> None:
    """GIVEN a signal in code whose exceptions Python only prints, or wraps (3.11, while a class is
    made) THEN the command ends by it, and nothing is printed."""
    code = (
        "import os, signal, time; from xpuprof.cli import ends\n"
        "class Interrupted:\n"
        f"    def {method}(self, *_): os.kill(os.getpid(), signal.SIGINT); time.sleep(9)\n"
        "with ends.guarded():\n"
        f"    {use}\n"
        "    time.sleep(60)\n"
    )
    done = run([sys.executable, "-c", code])
    assert (done.returncode, done.stderr) == (-signal.SIGINT, b"")


@pytest.mark.opencl
def test_killing_us_leaves_the_program_running(tmp_path: Path) -> None:
    """GIVEN a profile whose xpuprof is killed THEN the program ends as usual, the run opens as
    partial with that reason, and neither process nor (after the next command) folder stays."""
    (tmp_path / "tmp").mkdir()
    environment = os.environ | {"TMPDIR": str(tmp_path / "tmp")}
    script = 'echo ready; read line; "$0" 2; echo "ended with $?"'
    program = opencl_program("steps", tmp_path)
    options = ("profile", "-q", "--cpu", "none", "-o", tmp_path / "run")
    with subprocess.Popen(
        xpuprof_line(*options, "--", "sh", "-c", script, program),
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as ours:
        assert ours.stdin is not None and ours.stdout is not None
        assert ours.stdout.readline() == b"ready\n"
        ours.kill()
        ours.stdin.write(b"go\n")
        ours.stdin.close()
        value, ended = ours.stdout.read().splitlines()
    assert value.startswith(b"value ") and ended == b"ended with 0"
    shown = json.loads(xpuprof("info", "--json", tmp_path / "run").stdout)
    why = f"xpuprof (process {ours.pid}) ended before it had finished the run"
    assert (shown["status"], shown["reason"]) == ("partial", why)
    assert not run(["pgrep", "-f", f"serve={tmp_path}"]).stdout
    xpuprof("doctor", environment=environment)
    assert list((tmp_path / "tmp").glob("xpuprof-*")) == []


def test_scratch_folders_of_a_killed_command_are_removed(tmp_path: Path) -> None:
    """GIVEN scratch folders of a killed and of a live process THEN only the first is removed."""
    code = (
        "import os, signal, sys; from xpuprof.scratch import scratch; s = scratch();"
        "print(s.name, flush=True); sys.stdin.read(1); os.kill(os.getpid(), signal.SIGKILL)"
    )
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    line = [sys.executable, "-c", code]
    dead = run(line, environment=environment, cwd=ROOT)
    left = Path(os.fsdecode(dead.stdout.strip()))
    assert left.is_dir()
    (tmp_path / "target").mkdir()
    (tmp_path / "target/precious").touch()
    link = left.with_name(f"{left.name}link")
    link.symlink_to(tmp_path / "target")
    with subprocess.Popen(
        line, env=environment, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as live:
        assert live.stdin is not None and live.stdout is not None
        mine = Path(os.fsdecode(live.stdout.readline().strip()))
        run(line, environment=environment, cwd=ROOT)
        assert not left.exists() and mine.is_dir() and link.is_symlink()
        assert (tmp_path / "target/precious").exists()


# ---- programs that cannot be started -------------------------------------------------------------


@pytest.mark.parametrize("command", ["run", "time", "profile"])
def test_a_program_for_another_machine_is_one_sentence(tmp_path: Path, command: str) -> None:
    header = bytearray(64)
    header[:20] = b"\x7fELF\2\1\1".ljust(16, b"\0") + b"\2\0\xb7\0"  # AArch64
    (tmp_path / "app").write_bytes(header)
    (tmp_path / "app").chmod(0o755)
    done = (
        xpuprof(command, "--cpu", "none", "-q", "-o", tmp_path / "run", "--", tmp_path / "app")
        if command != "time"
        else xpuprof(command, "-q", "-o", tmp_path / "run", "--", tmp_path / "app")
    )
    assert done.returncode == 2 and done.stderr.count(b"\n") == 1
    assert b"Exec format error" in done.stderr
    assert manifest(tmp_path / "run")["status"] == "partial"


FAILING_READS = """
import ctypes, sys
from pathlib import Path
from xpuprof.errors import TraceError
from xpuprof.trace.check import check_run
from xpuprof.trace.run import Run
shim = ctypes.CDLL(sys.argv[2])
fail_at, calls = (ctypes.c_long.in_dll(shim, name) for name in ("fail_at", "calls"))
ctypes.c_int.in_dll(shim, "at_end").value = int(sys.argv[3])
def tables():
    for execution in Run.open(sys.argv[1]).executions:
        for process in execution.processes:
            process.tables
for work in (lambda: check_run(Path(sys.argv[1])), tables):
    number, calls.value = 0, 0
    while calls.value >= number:
        number, calls.value = number + 1, 0
        fail_at.value = number
        for stream in Path(sys.argv[1]).rglob("*.xpt"):
            stream.touch()  # so that it is counted again
        try:
            work()
        except TraceError as error:
            print(error)
"""


@pytest.mark.parametrize(
    ("at_end", "told"),
    [("0", "cannot be read at byte [0-9]+: Input/output error; "), ("1", "changed while it was")],
    ids=["EIO", "truncated"],
)
def test_a_failing_read_of_a_trace_is_one_sentence(tmp_path: Path, at_end: str, told: str) -> None:
    """GIVEN that any one read of a stream fails, or finds the file cut THEN the error says so."""
    sources = [ROOT / "tests/integration/programs/failing_reads.c"]
    shim = compile_files(sources, tmp_path / "shim.so", *("-shared", "-fPIC", "-ldl"))
    path = traces.write_run(tmp_path / "run", traces.events(), traces.cpu())
    done = subprocess.run(
        [sys.executable, "-c", FAILING_READS, path, shim, at_end],
        env=os.environ | {"LD_PRELOAD": str(shim)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert len(lines) > 20
    assert all(re.search(told, line) for line in lines), lines
