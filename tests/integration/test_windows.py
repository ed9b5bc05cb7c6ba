# SPDX-License-Identifier: Apache-2.0
"""Windows and kernel filters on real programs: inside, vectors equal the complete profile's, per
thread and per warp; outside, a launch is only a boundary with its name."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from subprocess import CompletedProcess

import numpy as np
import pytest

import xpuprof as package
from tests.support.compile import opencl_program, symbols
from tests.support.layered import warp_atomics
from tests.support.paths import ROOT
from tests.support.probes import require_cpu, require_opencl
from tests.support.run import last_json, run
from tests.support.run import xpuprof as command
from xpuprof.engines.cpu.dynamorio import DynamoRio
from xpuprof.engines.cpu.valgrind import Valgrind
from xpuprof.engines.native import native_file
from xpuprof.trace.check import check_run
from xpuprof.trace.run import Run
from xpuprof.trace.slice_times import main_process
from xpuprof.trace.tables import Process

pytestmark = [pytest.mark.opencl, pytest.mark.usefixtures("cpu")]

_cpu = {"engine": "valgrind"}


@pytest.fixture(
    scope="module",
    params=[pytest.param(Valgrind(), marks=pytest.mark.valgrind), DynamoRio()],
    ids=lambda engine: engine.name,
)
def cpu(request: pytest.FixtureRequest) -> None:
    """The CPU engine that profiles."""
    require_cpu(request.param)
    _cpu["engine"] = request.param.name


def xpuprof(name: str, *arguments: str | Path, cwd: Path | None = None) -> CompletedProcess[bytes]:
    """One command with that engine."""
    chosen = ("--cpu", _cpu["engine"]) if name in ("profile", "run") else ()
    return command(name, *chosen, *arguments, cwd=cwd)


STEPS = 6
EXIT_CODE = 7
TABLE = tuple[str, int, int, int]


def build(folder: Path, language: str) -> Path:
    """programs/windows.c, whose work is known, with C or C++ markers."""
    require_opencl()
    compiler, dialect = ("cc", ["-x", "c"]) if language == "c" else ("c++", ["-x", "c++"])
    flags = ["-g", "-pedantic", f"-I{package.include()}", *dialect]
    return opencl_program("windows", folder, *flags, compiler=compiler)


@pytest.fixture(scope="module")
def marked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program in C."""
    return build(tmp_path_factory.mktemp("windows"), "c")


def profiled(folder: Path, *arguments: str | Path) -> Process:
    """The main process of a profile that passes `check`."""
    done = xpuprof("profile", "-q", "-o", folder, *arguments, cwd=ROOT)
    assert done.stderr == b"", done.stderr.decode()
    assert check_run(folder).violations == []
    profile = Run.open(folder).profile
    assert profile is not None
    return main_process(profile)


def executions(process: Process, program: Path, symbol: str) -> list[dict[int, int]]:
    """Executions of the block that starts at a symbol in a slice, by thread."""
    offset = symbols(program)[symbol]
    assert process.cpu is not None and process.cpu.block_offset is not None
    assert process.cpu.block_image is not None
    images = process.images.index[process.images["path"] == str(program)]
    if not len(images):
        return [{} for _ in range(len(process.slices))]
    image = images[0]
    at = (process.cpu.block_offset == offset) & (process.cpu.block_image == image)
    found: list[dict[int, int]] = [{} for _ in range(len(process.slices))]
    for row in np.flatnonzero(at[process.cpu.block]):
        of = found[process.cpu.slice[row]]
        thread = int(process.cpu.thread[row])
        of[thread] = of.get(thread, 0) + int(process.cpu.count[row])
    return found


def cpu_counts(process: Process, image: str) -> Counter[tuple[tuple[str, int], int, int]]:
    """Executions by (slice name, thread, block identity) in images of that name."""
    assert process.cpu is not None and process.cpu.block_image is not None
    wanted = [str(path).rsplit("/", 1)[-1].startswith(image) for path in process.images["path"]]
    cpu, names = process.cpu, process.slices[["kernel", "call"]].to_numpy(object)
    chosen = np.array(wanted)[cpu.block_image[cpu.block]]
    found: Counter[tuple[tuple[str, int], int, int]] = Counter()
    for row in np.flatnonzero(chosen):
        kernel, call = names[cpu.slice[row]]
        key = ((kernel, call), int(cpu.thread[row]), int(cpu.blocks.identity[cpu.block[row]]))
        found[key] += int(cpu.count[row])
    return found


def warps(process: Process) -> dict[tuple[str, int], list[tuple[int, tuple[tuple[int, int], ...]]]]:
    """Run-length coded warp vectors of every counted launch, by its name."""
    gpu = process.gpu
    assert gpu is not None
    found = {}
    for launch in np.flatnonzero(gpu.launch_grid >= 0):
        grid = int(gpu.launch_grid[launch])
        runs = []
        for row in range(int(gpu.grid_start[grid]), int(gpu.grid_start[grid + 1])):
            v = int(gpu.run_vector[row])
            of = slice(int(gpu.vector_start[v]), int(gpu.vector_start[v + 1]))
            identity = gpu.blocks.identity[gpu.block[of]].tolist()
            pairs = tuple(zip(identity, gpu.count[of].tolist(), strict=True))
            runs.append((int(gpu.run_length[row]), pairs))
        row = process.launches.iloc[int(launch)]
        found[str(row["kernel"]), int(row["call"])] = runs
    return found


def assert_atomics(process: Process, row: int, step: int) -> None:
    """Each work-item of warp w of 4 makes (w + 1) * (step + 1) additions."""
    assert process.gpu is not None
    wanted = [32 * (w + 1) * (step + 1) for w in range(4)]
    assert warp_atomics(process.gpu, row).tolist() == wanted


# ---- markers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("language", ["c", "c++"])
def test_every_opening_of_a_marker(tmp_path: Path, language: str) -> None:
    """GIVEN a marked step WHEN its marker is the window THEN enclosed work is counted, by thread
    and warp, and work in between is not."""
    marked = build(tmp_path, language)
    process = profiled(tmp_path / "run", "--window", "@step", "--", marked, str(STEPS))
    assert process.slices["kernel"].tolist() == ["add"] * STEPS + ["xpuprof_window_end"]
    inside = executions(process, marked, "inside")
    second = executions(process, marked, "inside_thread")
    tails = executions(process, marked, "tail")
    for step in range(STEPS):
        assert sum(inside[step].values()) == inside[step][0] == 10 + step
        assert list(second[step].values()) == [3 + step]
        assert 0 not in second[step]
        assert tails[step + 1] == {0: step + 1}  # after the kernel that ends the slice
        assert_atomics(process, step, step)
    assert inside[STEPS] == tails[0] == {}
    assert all(not of for of in executions(process, marked, "outside"))


def test_some_openings_then_the_end(marked: Path, tmp_path: Path) -> None:
    """GIVEN the second and third opening and --after-window end THEN the program ends after them
    with exit code 0, and the run is complete for its window."""
    folder = tmp_path / "run"
    options = ("--window", "2-3@step", "--after-window", "end")
    done = xpuprof("profile", "--json", "-o", folder, *options, "--", marked, str(STEPS))
    result = last_json(done)
    assert (done.returncode, result["status"], result["exit_code"]) == (0, "complete", 0)
    assert b"additions" not in done.stdout  # the program never reached its end
    assert b"window 2-3@step" in done.stderr and b"is ended" in done.stderr
    assert result["window"]["ended"] and result["window"]["openings"] == 2
    assert check_run(folder).violations == []
    profile = Run.open(folder).profile
    assert profile is not None
    process = profile.processes[0]
    assert process.slices["slice"].tolist() == [1, 2, 3]
    assert process.slices["call"].tolist() == [2, 3, 1]
    inside = executions(process, marked, "inside")
    assert [of.get(0, 0) for of in inside] == [11, 12, 0]
    assert [of.get(0, 0) for of in executions(process, marked, "tail")] == [0, 2, 3]
    assert_atomics(process, 0, 1)
    assert_atomics(process, 1, 2)
    assert process.window is not None
    assert process.sums.of_launches == 3


def test_kernel_that_outlasts_its_window(marked: Path, tmp_path: Path) -> None:
    """GIVEN a window that closes before its kernel has completed, right before the program's end
    THEN the kernel's vectors are complete."""
    options = ("--window", "4@step", "--after-window", "end")
    process = profiled(tmp_path / "run", *options, "--", marked, str(STEPS), "late")
    assert process.slices["call"].tolist() == [4, 1]
    assert_atomics(process, 0, 3)


@pytest.mark.parametrize("timer", ["async", "sync"])
def test_the_timer_measures_the_same_window(marked: Path, tmp_path: Path, timer: str) -> None:
    """GIVEN a window WHEN timed THEN the slices are the profile's, in less time than the whole
    run."""
    folder = tmp_path / "run"
    options = ("--timer", timer, "--repeat", "1", "--window", "@step")
    done = xpuprof("time", "--json", "-o", folder, *options, "--", marked, str(STEPS))
    result = last_json(done)
    assert (done.returncode, result["slices"]) == (EXIT_CODE, STEPS + 1)
    assert check_run(folder).violations == []
    execution = Run.open(folder).times[0]
    assert 0.0 < result["seconds"][0] < execution.record.wall_s


def test_run_and_validate_are_about_the_window(marked: Path, tmp_path: Path) -> None:
    """GIVEN a window WHEN run, selected and validated THEN all name it and agree."""
    folder, command = tmp_path / "run", ("--", marked, str(STEPS))
    done = xpuprof("run", "--json", "--repeat", "1", "-o", folder, "--window", "2-5", *command)
    result = last_json(done)
    assert done.returncode == EXIT_CODE
    assert (result["slices"], result["launches"]["seen"]) == (4, 4)
    assert result["window"]["spec"] == "2-5" and result["window"]["of_slices"] == STEPS + 1
    assert result["settings"] == {"window": "2-5", "after_window": "continue"}
    info = xpuprof("info", folder)
    assert b"window    2-5, opened once: 4 slices of 7" in info.stdout
    assert b"only the window 2-5 counts" in info.stdout
    chosen = xpuprof("select", folder, "--force")
    assert b"2-5: all numbers refer to it" in chosen.stdout
    checked = last_json(
        xpuprof("validate", folder / "selection.json", "--repeat", "1", "--json", *command)
    )
    assert checked["window"] == "2-5" and checked["slices"] == 4
    assert checked["same"], checked["differences"]


@pytest.mark.parametrize("succeeds", [True, False])
@pytest.mark.parametrize("command", ["run", "profile", "time"])
def test_a_window_that_never_opens(
    marked: Path, tmp_path: Path, command: str, succeeds: bool
) -> None:
    """GIVEN a window beyond the last launch THEN the run is partial for that reason, which even -q
    shows, no step is suggested, and the exit code is 3 unless the program's says more."""
    options = {"run": ("--cpu", "none"), "profile": ("--cpu", "none"), "time": ("--repeat", "1")}
    script = f'"{marked}" {STEPS}; test $? = {EXIT_CODE} {"" if succeeds else "&& exit 7"}'
    given = (*options[command], "-o", tmp_path / "run", "--window", "900-")
    done = xpuprof(command, "-q", *given, "--", "sh", "-c", script)
    assert done.returncode == (3 if succeeds else 7)
    (said,) = done.stderr.splitlines()
    assert b"the window 900- never opened (the program launched 6 kernels)" in said
    assert b"next" not in said
    run = Run.open(tmp_path / "run")
    assert run.status == "partial" and "900- never opened" in run.reason


def test_python_marker(tmp_path: Path) -> None:
    """GIVEN a Python program with the context manager THEN its window is counted, without a GPU
    engine; without xpuprof it is a no-op that loads nothing."""
    program = tmp_path / "app.py"
    program.write_text(
        "import sys, time, xpuprof\n"
        "with xpuprof.window('solve'):\n"
        "    sum(range(20000))\n"
        "with xpuprof.window('other'):\n"
        "    sum(range(10))\n"
        "print(any(m in sys.modules for m in ('numpy', 'ctypes', 'click')))\n"
    )
    native = run([sys.executable, program], check=True)
    assert native.stdout == b"False\n"
    options = ("--gpu", "none", "--window", "@solve")
    process = profiled(tmp_path / "run", *options, "--", sys.executable, program)
    whole = process.slices["cpu_instructions"].sum()
    assert process.slices["kernel"].tolist() == ["xpuprof_window_end"]
    assert 20_000 * 20 < whole < 20_000 * 500


# ---- windows of launches and kernel filters against a complete profile ---------------------------


PARTICLES = native_file("demo/particles")


@pytest.fixture(scope="module")
def whole(cpu: None, tmp_path_factory: pytest.TempPathFactory) -> Process:
    """An unwindowed profile of the example."""
    require_opencl()
    if not PARTICLES.exists():
        pytest.skip("the example is not built: it needs ocl-icd-opencl-dev")
    return profiled(tmp_path_factory.mktemp("whole") / "run", "--", PARTICLES, "30", "500")


def test_window_of_launches_is_that_part_of_the_whole(whole: Process, tmp_path: Path) -> None:
    """GIVEN launches 20 to 40 THEN every count of the program's own code and of every warp equals
    the complete profile's."""
    part = profiled(tmp_path / "run", "--window", "20-40", "--", PARTICLES, "30", "500")
    assert part.slices["slice"].tolist() == list(range(19, 40))
    columns = ["kernel", "call", "gx", "lx", "warps", "gpu_instructions", "instrumented"]
    expected = whole.slices.iloc[19:40][columns].reset_index(drop=True)
    assert part.slices[columns].astype(object).equals(expected.astype(object))
    names = set(zip(expected["kernel"], expected["call"], strict=True))
    of_whole = Counter(
        {key: n for key, n in cpu_counts(whole, "particles").items() if key[0] in names}
    )
    assert cpu_counts(part, "particles") == of_whole
    assert of_whole.total() > 1000
    assert warps(part) == {name: runs for name, runs in warps(whole).items() if name in names}


def test_kernel_filter_leaves_boundaries(whole: Process, tmp_path: Path) -> None:
    """GIVEN --kernels THEN the chosen launches have the complete profile's warps, the others their
    name and call, and CPU vectors are unaffected."""
    spec = "3-5@forces,12-13,energy"
    folder = tmp_path / "run"
    part = profiled(folder, "--kernels", spec, "--", PARTICLES, "30", "500")
    launches = whole.launches
    wanted = (
        ((launches["kernel"] == "forces") & launches["call"].between(3, 5))
        | launches["launch"].isin([11, 12])
        | (launches["kernel"] == "energy")
    ).to_numpy()
    assert part.launches["instrumented"].tolist() == wanted.tolist()
    assert part.launches["left_out"].tolist() == (~wanted).tolist()
    assert part.slices[["kernel", "call"]].equals(whole.slices[["kernel", "call"]])
    names = set(launches.loc[wanted, ["kernel", "call"]].itertuples(index=False, name=None))
    assert warps(part) == {name: runs for name, runs in warps(whole).items() if name in names}
    assert cpu_counts(part, "particles") == cpu_counts(whole, "particles")
    found = last_json(xpuprof("info", folder, "--json"))
    assert found["launches"] == {
        "seen": len(wanted),
        "instrumented": int(wanted.sum()),
        "left_out": int((~wanted).sum()),
        "unfinished": 0,
    }
    assert found["uninstrumented"] == {}
    assert found["settings"] == {"kernels": spec}
    assert xpuprof("select", folder).returncode == 0
    needs_all = xpuprof("select", folder, "--force", "--method", "sieve")
    assert needs_all.returncode == 2 and b"--kernels left" in needs_all.stderr


@pytest.mark.parametrize(
    ("options", "counted"),
    [
        (("--main-image-only",), {"outside", "inside", "inside_thread", "tail"}),
        (("--include-image", "windows"), {"outside", "inside", "inside_thread", "tail"}),
        (("--exclude-image", "*/windows"), set()),
        (("--routine", "inside*"), {"inside", "inside_thread"}),
        (("--thread", "0"), {"outside", "inside", "tail"}),
        (("--thread", "1"), {"inside_thread"}),
    ],
)
def test_what_the_cpu_engine_counts(
    marked: Path, tmp_path: Path, options: tuple[str, ...], counted: set[str]
) -> None:
    """GIVEN a filter on images, routines or threads THEN what it names is counted exactly, the rest
    not at all."""
    process = profiled(tmp_path / "run", *options, "--", marked, "2")
    known = {"outside": 100, "inside": 21, "inside_thread": 7, "tail": 3}
    if options == ("--thread", "1"):
        known["inside_thread"] = 3  # the first of two such threads
    for symbol, calls in known.items():
        found = sum(sum(of.values()) for of in executions(process, marked, symbol))
        assert found == (calls if symbol in counted else 0), symbol
    images = {Path(path).name for path in process.images["path"]}
    if options[0] in ("--main-image-only", "--include-image"):
        assert images == {"windows"}
    else:
        assert ("windows" in images) == (options[0] != "--exclude-image")


# ---- processes -----------------------------------------------------------------------------------


def test_process_filter(marked: Path, tmp_path: Path) -> None:
    """GIVEN a tree of processes WHEN one program is chosen THEN only it has a part, though its
    parent is not counted."""
    other = marked.with_name("other")
    other.write_bytes(marked.read_bytes())
    other.chmod(0o755)
    script = tmp_path / "both.sh"
    script.write_text(f"#!/bin/sh\n{marked} 2\n{other} 3\nexit 5\n")
    script.chmod(0o755)
    folder = tmp_path / "run"
    done = xpuprof("profile", "--json", "--start-up", "counted", "-o", folder, "--process", "oth*",
                   "--", script)  # fmt: skip
    assert done.returncode == 5
    assert done.stdout.count(b"additions") == 2
    assert b"processes oth*" in done.stderr
    profile = Run.open(folder).profile
    assert profile is not None and check_run(folder).violations == []
    (process,) = profile.processes
    assert len(process.launches) == 3
    assert [of.get(0, 0) for of in executions(process, other, "inside")] == [10, 11, 12, 0]


def test_no_process_matches(marked: Path, tmp_path: Path) -> None:
    """GIVEN a name that no process has THEN the run is partial and says so."""
    done = xpuprof(
        "profile", "--json", "-o", tmp_path / "run", "--process", "x*", "--", marked, "2"
    )
    result = last_json(done)
    assert (done.returncode, result["status"]) == (EXIT_CODE, "partial")
    assert "--process" in result["reason"] and "x*" in result["reason"]
