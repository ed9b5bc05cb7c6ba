# SPDX-License-Identifier: Apache-2.0
"""Each call of launcher, runtime and OpenCL layer that the system may refuse fails once:
the program's output and exit code stay the same, and the run says what it lacks."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.support.compile import compile_files, opencl_program
from tests.support.paths import HEADERS, NATIVE_TESTS, ROOT
from tests.support.probes import require_opencl
from xpuprof.launch import execute
from xpuprof.launch.finish import finish
from xpuprof.launch.streams import Input
from xpuprof.trace.run import Run
from xpuprof.trace.run_writer import create_run

SHORT = 0
"""In place of an error: a transfer of a single byte."""
ERRORS = {"ENOSPC": errno.ENOSPC, "EIO": errno.EIO, "EINTR": errno.EINTR, "short": SHORT}
ALL_OR_SOME = pytest.mark.parametrize(
    "every", [pytest.param(1, marks=pytest.mark.slow, id="all"), pytest.param(13, id="some")]
)
EACH_ERROR = pytest.mark.parametrize("error", ERRORS.values(), ids=ERRORS)


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The runtime with calls that can fail."""
    runtime, programs = ROOT / "native" / "runtime", NATIVE_TESTS / "programs"
    names = (
        "runtime",
        "natively",
        "grid_table",
        "writer",
        "stream_file",
        "place",
        "posix_os",
        "window",
    )
    return compile_files(
        [*(runtime / f"{name}.c" for name in names), programs / "faults.c"],
        tmp_path_factory.mktemp("faults") / "libxpuprof_rt.so",
        *("-shared", "-fPIC", "-Wl,-soname,libxpuprof_rt.so", "-lpthread", "-ldl"),
        *("-include", programs / "failing_system_call.h"),
        *(f"-I{folder}" for folder in (programs, HEADERS, runtime)),
    )


# ---- runtime and layer ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def steps(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return [
        str(opencl_program("steps", tmp_path_factory.mktemp("steps"))),
        "2",
        "5",
    ]  # a third step would race


class Attempts:
    """Profiles of the program in which one call fails."""

    def __init__(self, folder: Path, program: list[str], shim: Path, error: int) -> None:
        self.folder = folder
        self.program = execute.Program(program, None, require_opencl())
        self.shim = shim
        self.error = error

    def run(self, number: int, monkeypatch: pytest.MonkeyPatch) -> tuple[Run, bytes, int]:
        """The run, the program's output and its exit code."""
        monkeypatch.setenv("LD_PRELOAD", str(self.shim))
        monkeypatch.setenv("FAULT_IN", "steps")
        monkeypatch.setenv("FAULT_AT", str(number))
        monkeypatch.setenv("FAULT_ERROR", str(self.error))
        monkeypatch.setenv("FAULT_LOG", str(self.folder / "calls"))
        folder = self.folder / f"run{number}"
        writer = create_run(folder, argv=self.program.argv)
        ending = execute.profile(writer, self.program, Input(), user=False)
        shown = b"".join((folder / "profile" / name).read_bytes() for name in ("stdout", "stderr"))
        return finish(writer, folder), shown, ending.exit_code


def recorded(run: Run) -> tuple[int, int]:
    """Launches seen and instrumented."""
    assert run.profile is not None
    launches = [process.launches for process in run.profile.processes]
    return sum(map(len, launches)), sum(int(table["instrumented"].sum()) for table in launches)


@pytest.mark.opencl
@pytest.mark.timeout(1800)
@EACH_ERROR
@ALL_OR_SOME
def test_a_failing_call_in_the_program(
    every: int,
    error: int,
    shim: Path,
    steps: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """GIVEN a call of runtime or layer that fails WHEN the program runs THEN it ends as it does
    alone, and the run is complete only if it holds everything."""
    alone = subprocess.run(steps, capture_output=True, check=False)
    attempts = Attempts(tmp_path, steps, shim, error)
    whole, shown, code = attempts.run(0, monkeypatch)
    assert (whole.status, shown, code) == ("complete", alone.stdout, 5)
    assert recorded(whole) == (2, 2)
    calls = (tmp_path / "calls").read_text().splitlines()
    assert {"open", "mmap", "truncate", "socket", "connect", "send", "recv"} <= set(calls)
    for number in range(1 + error % every, len(calls) + 1, every):
        run, shown, code = attempts.run(number, monkeypatch)
        name = f"call {number}, {calls[number - 1]}"
        assert (shown, code) == (alone.stdout, 5), name
        if run.status == "complete":
            assert recorded(run) == (2, 2), name
        else:
            assert "could not record" in run.reason or "in process" in run.reason, (
                name,
                run.reason,
            )


# ---- launcher ------------------------------------------------------------------------------------


@pytest.mark.timeout(1800)
@EACH_ERROR
@ALL_OR_SOME
def test_a_failing_call_of_the_launcher(every: int, error: int, shim: Path, tmp_path: Path) -> None:
    """GIVEN a call of the launcher that fails THEN the program is not started (exit code 2), or
    runs to its end with its exit code; there is no traceback, and an existing run opens."""
    driver = subprocess.Popen(
        [sys.executable, NATIVE_TESTS / "programs" / "failing_launcher.py"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        # OpenBLAS makes its threads again after a fork.
        env=os.environ
        | {"LD_PRELOAD": str(shim), "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"},
        text=True,
    )
    assert driver.stdin is not None and driver.stdout is not None

    def attempt(number: int) -> tuple[int, bytes, bytes]:
        folder = tmp_path / f"run{number}"
        print(number, error, folder, file=driver.stdin, flush=True)
        status = os.waitstatus_to_exitcode(int(driver.stdout.readline()))
        out, err = (Path(f"{folder}.{name}").read_bytes() for name in ("out", "err"))
        return status, out, err

    assert attempt(0) == (5, b"input\nran\n", b"")
    calls = (tmp_path / "run0.calls").read_text().splitlines()
    assert Counter(calls)["fork"] >= 4 and len(calls) > 40
    wrong = []
    for number in range(1 + error % every, len(calls) + 1, every):
        status, out, err = attempt(number)
        good = b"Traceback" not in err and err.count(b"\n") <= 1
        good &= (status, out) in ((5, b"input\nran\n"), (2, b""))
        state = "no run"
        if (tmp_path / f"run{number}" / "manifest.json").exists():
            run = Run.open(tmp_path / f"run{number}")
            ended = [entry.get("exit_code") for entry in run.manifest["executions"]]
            state = run.status
            whole = state == "complete" and (status, ended) == (5, [5, 5])
            good &= whole or (state == "partial" and err != b"")
        if not good:
            wrong.append((number, calls[number - 1], status, out, err, state))
    assert not wrong
    driver.stdin.close()
    assert driver.wait(timeout=60) == 0
