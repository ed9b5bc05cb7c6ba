# SPDX-License-Identifier: Apache-2.0
"""`--gpu-tool`: third-party tools loaded into real programs. The tools are made here and look like
CUPTI's and GTPin's to a loader; their work on a GPU is not tested."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

import xpuprof
from tests.support.compile import compile_text
from tests.support.cuda_parts import build
from tests.support.run import xpuprof_text
from xpuprof.engines.cpu.pin import Pin
from xpuprof.engines.cpu.valgrind import Valgrind

TOOLS = {
    "plain": '__attribute__((constructor)) static void begin(void) { note("loaded"); }',
    "gtpin": 'void GTPin_Entry(int n, const char **a) { note(n == 1 ? a[0] : "wrong"); }',
    "cuda": 'int InitializeInjection(void) { note("injected"); return 1; }',
    "broken": 'void nowhere(void); void f(void) { note("f"); nowhere(); }',
}
NOTE = """
#include <stdio.h>
#include <stdlib.h>
void note(const char *text) {
  FILE *file = fopen(getenv("TOOL_NOTES"), "a");
  if (file) fprintf(file, "%s\\n", text), fclose(file);
}
"""
PROGRAM = "int main(void) { volatile long s = 0; for (int i = 0; i < 1000; i++) s += i; return 7; }"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tools as NAME.so, and a program that ends with 7."""
    folder = tmp_path_factory.mktemp("tools")
    for name, code in TOOLS.items():
        compile_text(NOTE + code, folder / f"{name}.so", "-shared", "-fPIC")
    compile_text(PROGRAM, folder / "program")
    return folder


def run(
    out: Path, command: str, *arguments: str, **more: str
) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """`xpuprof COMMAND`, and the tool's notes."""
    notes = out.parent / "notes"
    notes.unlink(missing_ok=True)
    environment = {**os.environ, "TOOL_NOTES": str(notes), **more}
    done = xpuprof_text(command, "-q", "-o", out, *arguments, environment=environment)
    return done, notes.read_text().split() if notes.exists() else []


@pytest.mark.parametrize(("tool", "noted"), [("plain", "loaded"), ("gtpin", "xpuprof")])
def test_a_tool_is_loaded_and_started(made: Path, tmp_path: Path, tool: str, noted: str) -> None:
    """GIVEN a library, or one with GTPin's entry WHEN timed or profiled with it THEN it is loaded
    once, started as it expects, and the program ends as it does alone."""
    options = ["--gpu", "none", "--gpu-tool", str(made / f"{tool}.so"), "--"]
    done, notes = run(tmp_path / "t", "time", "--repeat", "1", *options, str(made / "program"))
    assert (done.returncode, done.stdout, notes) == (7, "", [noted])
    done, notes = run(tmp_path / "p", "profile", "--cpu", "none", *options, str(made / "program"))
    assert (done.returncode, done.stdout, notes) == (7, "", [noted])
    record = json.loads((tmp_path / "p" / "manifest.json").read_text())["executions"][0]
    assert record["gpu_tool"] == str(made / f"{tool}.so") and record["status"] == "complete"


@pytest.mark.valgrind
def test_the_tools_code_is_no_part_of_the_vectors(made: Path, tmp_path: Path) -> None:
    """GIVEN a tool that runs code in the program WHEN profiled with valgrind THEN only the
    program's blocks are counted."""
    if not Valgrind().probe().available:
        pytest.skip("engine valgrind is not usable here; see xpuprof doctor")
    options = ["--cpu", "valgrind", "--gpu", "none", "--gpu-tool", str(made / "plain.so")]
    done, notes = run(tmp_path / "run", "profile", *options, "--", str(made / "program"))
    assert (done.returncode, notes) == (7, ["loaded"]), done.stderr
    images = set(xpuprof.open(tmp_path / "run").profile.processes[0].images["path"])
    assert str(made / "program") in images
    assert not any("plain.so" in path or "gputool" in path for path in images)


def test_run_loads_the_tool_for_the_profile_only(made: Path, tmp_path: Path) -> None:
    """GIVEN `xpuprof run` WHEN a tool is given THEN native executions do not load it."""
    options = ["--cpu", "none", "--gpu", "none", "--repeat", "2"]
    tool = ["--gpu-tool", str(made / "plain.so")]
    done, notes = run(tmp_path / "run", "run", *options, *tool, "--", str(made / "program"))
    assert (done.returncode, notes) == (7, ["loaded"]), done.stderr


@pytest.mark.cuda
def test_a_cuda_tool_is_injected_by_the_driver(made: Path, tmp_path: Path) -> None:
    """GIVEN a tool with CUPTI's entry WHEN a CUDA program runs THEN the driver starts it; beside
    our CUDA engine it is refused before anything runs."""
    build(tmp_path)
    program = [str(tmp_path / "program"), str(tmp_path / "k.cubin"), "exit42"]
    tool = ["--gpu-tool", str(made / "cuda.so"), "--cpu", "none"]
    stand_in = {
        "LD_LIBRARY_PATH": str(tmp_path),
        "XPUPROF_CUPTI": str(tmp_path / "libcuda.so.1"),
        "XDG_CACHE_HOME": str(tmp_path),
    }
    done, notes = run(tmp_path / "a", "profile", *tool, "--gpu", "none", "--", *program, **stand_in)
    assert (done.returncode, notes) == (42, ["injected"]), done.stderr
    done, notes = run(tmp_path / "b", "profile", *tool, "--gpu", "cuda", "--", *program, **stand_in)
    assert (done.returncode, notes, done.stdout) == (2, [], "")
    assert "cannot share a process" in done.stderr and "--gpu none" in done.stderr
    other = ["--gpu-tool", str(made / "plain.so"), "--cpu", "none", "--gpu", "cuda"]
    done, notes = run(tmp_path / "c", "profile", *other, "--", *program, **stand_in)
    assert (done.returncode, notes) == (42, ["loaded"])
    assert len(xpuprof.open(tmp_path / "c").profile.processes[0].launches) == 1


def test_a_tool_that_cannot_be_loaded_marks_the_run(made: Path, tmp_path: Path) -> None:
    """GIVEN a library with an undefined symbol WHEN profiled with it THEN the program runs, its
    output is unchanged, and the run is partial with the loader's reason."""
    options = ["--cpu", "none", "--gpu", "none", "--gpu-tool", str(made / "broken.so")]
    done, notes = run(tmp_path / "run", "profile", *options, "--", str(made / "program"))
    assert (done.returncode, done.stdout, done.stderr, notes) == (7, "", "", [])
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert manifest["status"] == "partial"
    assert "broken.so" in manifest["reason"] and "nowhere" in manifest["reason"]


def test_an_invalid_tool_is_refused(made: Path, tmp_path: Path) -> None:
    """GIVEN a missing path, a text file or a program THEN one sentence, exit code 2, nothing
    run."""
    (tmp_path / "text.so").write_text("no library")
    cases = {
        "absent.so": "does not exist",
        str(tmp_path / "text.so"): "not a readable 64-bit shared library",
        str(tmp_path): "does not exist",
    }
    for path, words in cases.items():
        options = ["--cpu", "none", "--gpu", "none", "--gpu-tool", path]
        done, notes = run(tmp_path / "run", "profile", *options, "--", str(made / "program"))
        assert (done.returncode, done.stdout, notes) == (2, "", [])
        assert words in done.stderr and len(done.stderr.splitlines()) == 1
        assert not (tmp_path / "run").exists()


def test_pin_loads_tools_only_where_it_runs(made: Path, tmp_path: Path) -> None:
    """GIVEN `pin:LIB` WHEN there is no kit or another engine THEN the error names the remedy."""
    if Pin().probe().available:
        pytest.skip("a Pin kit is set up here")
    tool = ["--gpu", "none", "--gpu-tool", f"pin:{made / 'plain.so'}"]
    done, _ = run(tmp_path / "a", "profile", "--cpu", "none", *tool, "--", str(made / "program"))
    assert done.returncode == 2 and "PIN_ROOT" in done.stderr
    if Valgrind().probe().available:
        options = ["--cpu", "valgrind", *tool]
        done, _ = run(tmp_path / "b", "profile", *options, "--", str(made / "program"))
        assert done.returncode == 2 and "--cpu pin" in done.stderr
