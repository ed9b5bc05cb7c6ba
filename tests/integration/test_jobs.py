# SPDX-License-Identifier: Apache-2.0
"""Programs of several processes: each process with device work has its own exact part, parents do
not interfere, selections are per process or for all, and the program ends as it does alone."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xpuprof as package
from tests.support.compile import opencl_program, symbols
from tests.support.layered import warp_atomics
from tests.support.paths import OPENCL_PROGRAMS as PROGRAMS
from tests.support.probes import needs_valgrind, require_opencl, require_programs
from tests.support.run import last_json, xpuprof
from tests.support.run import run as run_command
from xpuprof.engines.cpu.dynamorio import DynamoRio
from xpuprof.engines.cpu.valgrind import Valgrind
from xpuprof.selection.selection import Selection
from xpuprof.trace.processes import Job, job_of
from xpuprof.trace.run import Run
from xpuprof.trace.tables import Process

pytestmark = pytest.mark.opencl
WARPS = 2  # of a work-group of 64
MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
}
MPIRUN = ("mpirun", "-n", "2")


def build(name: str, compiler: str, folder: Path) -> Path:
    """A program of programs/."""
    require_opencl()
    return opencl_program(name, folder, "-no-pie", f"-I{package.include()}", compiler=compiler)


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program `processes`, whose children work."""
    return build("processes", "cc", tmp_path_factory.mktemp("processes"))


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The MPI program `ranks`."""
    require_programs("mpicc", "mpirun", package="openmpi-bin, libopenmpi-dev")
    return build("ranks", "mpicc", tmp_path_factory.mktemp("ranks"))


def profiled(
    folder: Path, *command: str | Path, cpu: str = "none", options: tuple[str, ...] = ()
) -> Job:
    """The job of a program's profile, which must be complete and keep the program's exit code."""
    done = xpuprof(
        "profile",
        "--cpu",
        cpu,
        "--json",
        *options,
        "-o",
        folder,
        "--",
        *command,
        environment=os.environ | MPI,
    )
    assert done.returncode == 0, done.stderr
    run = Run.open(folder)
    assert run.status == "complete", run.reason
    assert run.profile is not None
    assert xpuprof("check", folder).returncode == 0
    return job_of(run.profile)


def assert_works(process: Process, who: int, steps: int) -> None:
    """Checks each warp of each launch of work.h's `who`."""
    names = ["fold" if i % 3 == 2 else "grow" for i in range(steps + 2 * who)]
    assert process.launches["kernel"].tolist() == names
    assert process.gpu is not None
    for i in range(len(names)):
        expected = [32 * (who + 1 + i % 2)] * (WARPS * (who + 1))
        assert warp_atomics(process.gpu, i).tolist() == expected


def assert_spins(process: Process, who: int, launches: Sequence[int], program: Path) -> None:
    """Checks the two threads' loops in the slices that end with these launches of work.h's
    `who`."""
    address = symbols(program)["spin_loop"]
    cpu = process.cpu
    assert cpu is not None and cpu.block_image is not None and cpu.block_offset is not None
    image = [Path(path).name for path in process.images["path"]].index(program.name)
    # Linked at 0x400000 (-no-pie).
    block = (cpu.block_image == image) & (cpu.block_offset == address - 0x400000)
    rows = np.flatnonzero(block[cpu.block])
    counted: dict[int, list[int]] = {}
    for row in rows[np.lexsort((cpu.thread[rows], cpu.slice[rows]))]:
        counted.setdefault(int(cpu.slice[row]), []).append(int(cpu.count[row]))
    assert counted == {
        row: [1000 * (who + 1) + i, 500 * (who + 1) + i] for row, i in enumerate(launches)
    }


@pytest.mark.parametrize("how", ["fork", "_exit", "vfork", "spawn", "shell"])
def test_every_child_has_its_part(processes: Path, tmp_path: Path, how: str) -> None:
    """GIVEN children created in every way THEN each has its own launches and warps."""
    job = profiled(tmp_path / "run", processes, how, "3", "4")
    assert [process.rank for process in job.processes] == [None] * 3
    for process in job.processes:
        assert_works(process, (len(process.launches) - 4) // 2, 4)
    assert sorted(len(process.launches) for process in job.processes) == [4, 6, 8]


@needs_valgrind
@pytest.mark.valgrind
@pytest.mark.parametrize("how", ["_exit", "spawn"])
def test_every_childs_threads_count_exactly(processes: Path, tmp_path: Path, how: str) -> None:
    """GIVEN children whose threads run known loops THEN every child's counts match, and the parent,
    which the CPU engine also saw, is not in the job."""
    job = profiled(tmp_path / "run", processes, how, "2", "3", cpu="valgrind")
    assert len(job.processes) == 2
    for process in job.processes:
        who = (len(process.launches) - 3) // 2
        assert_works(process, who, 3)
        assert_spins(process, who, range(3 + 2 * who), processes)


@needs_valgrind
@pytest.mark.valgrind
def test_every_rank_counts_exactly(ranks: Path, tmp_path: Path) -> None:
    """GIVEN an MPI program whose ranks differ THEN every rank is identified and exact."""
    job = profiled(tmp_path / "run", *MPIRUN, ranks, "4", cpu="valgrind")
    assert [process.rank for process in job.processes] == [0, 1]
    for rank, process in enumerate(job.processes):
        assert f"-rank{rank}-" in process.name
        assert_works(process, rank, 4)
        assert_spins(process, rank, range(4 + 2 * rank), ranks)
    told = xpuprof("info", tmp_path / "run").stdout.decode()
    assert "Not counted above, because they have no device work: " in told  # the launcher


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_python_workers(tmp_path: Path, method: str) -> None:
    """GIVEN Python's multiprocessing with each start method THEN every worker has its exact part,
    and the program prints what it prints natively."""
    pytest.importorskip("pyopencl")
    require_opencl()
    command = [sys.executable, str(PROGRAMS / "workers.py"), method, "2", "5"]
    native = run_command(command, check=True).stdout
    done = xpuprof("profile", "--cpu", "none", "-o", tmp_path / "run", "--", *command)
    assert done.stdout == native
    run = Run.open(tmp_path / "run")
    assert run.status == "complete", run.reason
    assert run.profile is not None
    job = job_of(run.profile)
    assert sorted(len(process.launches) for process in job.processes) == [5, 7]
    for process in job.processes:
        who = (len(process.launches) - 5) // 2
        assert process.gpu is not None
        for i in range(len(process.launches)):
            expected = [32 * (who + 1 + i % 2)] * (WARPS * (who + 1))
            assert warp_atomics(process.gpu, i).tolist() == expected


def job_json(folder: Path, *command: str | Path, ways: tuple[str, ...] = ()) -> dict[str, Any]:
    """What `run --json` prints of a job."""
    done = xpuprof(
        *("run", "--cpu", "none", "--repeat", "2", "--json", *ways, "-o", folder, "--", *command),
        environment=os.environ | MPI,
    )
    assert done.returncode == 0, done.stderr
    return last_json(done)


@pytest.mark.parametrize("ways", [(), ("--processes", "each")])
def test_a_job_from_start_to_end(ranks: Path, tmp_path: Path, ways: tuple[str, ...]) -> None:
    """GIVEN mpirun WHEN run, validated and exported THEN ranks are distinguished throughout, their
    times add up to the job's, and results are matched region by region."""
    result = job_json(tmp_path / "run", *MPIRUN, ranks, "12", ways=ways)
    assert result["status"] == "complete"
    assert [p["label"] for p in result["processes"]] == ["rank0", "rank1"]
    assert [p["slices"] for p in result["processes"]] == [13, 15]
    for key in ("measured_s", "projected_s"):
        assert sum(p[key] for p in result["processes"]) == pytest.approx(result[key])
    assert result["slowest"]["measured_s"] == max(p["measured_s"] for p in result["processes"])
    # The run contains its ranks' lifetimes.
    longest = max(result["wall_s"])
    assert all(0.0 < p["measured_s"] <= longest for p in result["processes"])

    file = tmp_path / "run" / "selection.json"
    selection = Selection.read(file)
    shared = {r.cluster for r in selection.representatives if r.process == 0} & set(
        selection.labels[13:].tolist()
    )
    assert bool(shared) == (not ways)
    own = {path.name for path in (tmp_path / "run").glob("selection-*.json")}
    assert own == ({"selection-rank0.json", "selection-rank1.json"} if ways else set())
    for name in own:
        assert Selection.read(tmp_path / "run" / name).slices in (13, 15)
    done = xpuprof(
        *("validate", file, "--repeat", "1", "--json", "--", *MPIRUN, ranks, "12"),
        environment=os.environ | MPI,
    )
    assert done.returncode == 0, done.stderr
    validated = last_json(done)
    assert validated["same"] and [p["label"] for p in validated["processes"]] == ["rank0", "rank1"]

    assert xpuprof("export", file, "--format", "accelsim", "-o", tmp_path / "g").returncode == 0
    rows = [
        line.split(",")
        for rank in (0, 1)
        for line in (tmp_path / "g" / f"rank{rank}" / "weights.csv").read_text().splitlines()[1:]
    ]
    for region, launch, kernel, *_ in rows:
        chosen = selection.representatives[int(region) - 1]
        assert kernel == f'"{chosen.end.kernel}"'
        assert int(launch) - 1 == chosen.slice - 13 * chosen.process
    results = tmp_path / "results.csv"
    results.write_text(
        "process,kernel,call,cycles\n"
        + "".join(
            f"rank{r.process},{r.end.kernel},{r.end.call},10\n" for r in selection.representatives
        )
    )
    done = xpuprof("estimate", file, "--results", results, "--json")
    assert json.loads(done.stdout)["metrics"][0]["value"] == pytest.approx(10 * 28)


def test_each_program_of_a_script_has_its_own_start_up(tmp_path: Path) -> None:
    """GIVEN a script that starts a program twice and another once THEN one start-up stands for the
    two of a program, and the other has its own."""
    require_opencl()
    one = opencl_program("steps", tmp_path / "one")
    other = opencl_program("steps", tmp_path / "other", "-DOTHER")
    script = tmp_path / "job.sh"
    script.write_text(f"{one} 12\n{other} 12\n{one} 12\n")
    job_json(tmp_path / "run", "sh", script)
    selection = Selection.read(tmp_path / "run" / "selection.json")
    first = [int(selection.labels[selection.layout.first(process)]) for process in range(3)]
    assert first[0] == first[2] != first[1]
    own = {r.cluster for r in selection.representatives if r.start is None}
    assert own == set(first)


def test_a_rank_that_is_missing(ranks: Path, tmp_path: Path) -> None:
    """GIVEN a selection of two ranks WHEN the job runs with one THEN the other's regions are
    missing: exit code 3 names one, --allow-missing continues with the rest."""
    job_json(tmp_path / "run", *MPIRUN, ranks, "6", ways=("--processes", "each"))
    file, one = tmp_path / "run" / "selection.json", ("mpirun", "-n", "1", ranks, "6")
    options = ("validate", file, "--repeat", "1", "--json")
    done = xpuprof(*options, "--", *one, environment=os.environ | MPI)
    assert done.returncode == 3 and b"never occurred in this run" in done.stderr
    done = xpuprof(*options, "--allow-missing", "--", *one, environment=os.environ | MPI)
    assert done.returncode == 0, done.stderr
    validated = last_json(done)
    assert {r["process"] for r in validated["representatives"]} == {0}
    assert validated["missing"] and not validated["same"]
    assert validated["slices"] == 7


def test_children_are_the_same_in_every_execution(processes: Path, tmp_path: Path) -> None:
    """GIVEN children without ranks THEN those with the same launches are compared."""
    result = job_json(tmp_path / "run", processes, "_exit", "3", "6")
    assert result["status"] == "complete"
    assert sorted(p["slices"] for p in result["processes"]) == [7, 9, 11]
    assert xpuprof("compare", tmp_path / "run", "--repeats", "1").returncode == 0
    shown = json.loads(xpuprof("info", "--json", tmp_path / "run").stdout)
    assert shown["launches"] == {"seen": 24, "instrumented": 24, "left_out": 0, "unfinished": 0}


def test_ranks_that_are_profiled_one_by_one(ranks: Path, tmp_path: Path) -> None:
    """GIVEN one xpuprof per rank THEN each writes its own run, one selection covers them, and it
    validates on the whole job."""
    inside = [sys.executable, "-m", "xpuprof", "profile", "--cpu", "none", "-o", tmp_path / "p"]
    command = [*MPIRUN, *inside, "--", ranks, "12"]
    done = run_command(command, environment=os.environ | MPI, timeout=120)
    assert done.returncode == 0, done.stderr
    folders = [tmp_path / f"p-rank{rank}" for rank in (1, 0)]
    assert xpuprof("select", *folders, "-o", tmp_path / "job").returncode == 0
    selection = Selection.read(tmp_path / "job" / "selection.json")
    assert [key.label for key in selection.identity.processes] == ["rank0", "rank1"]
    done = xpuprof(
        *("validate", tmp_path / "job" / "selection.json", "--repeat", "1", "--json", "--"),
        *(*MPIRUN, ranks, "12"),
        environment=os.environ | MPI,
    )
    assert last_json(done)["same"], done.stderr


def test_run_within_a_job_is_refused(tmp_path: Path) -> None:
    """The sentence says where to put xpuprof; nothing is started."""
    environment = os.environ | {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}
    done = xpuprof("run", "-o", tmp_path / "run", "--", "true", environment=environment)
    assert done.returncode == 2
    assert b"this is rank 1 of a job" in done.stderr and b"-- mpirun -n 2" in done.stderr
    assert not (tmp_path / "run").exists()


def test_the_jobs_exit_code_and_output(ranks: Path, tmp_path: Path) -> None:
    """GIVEN ranks that end with an exit code THEN xpuprof returns the launcher's, and the output is
    the same."""
    native = run_command([*MPIRUN, ranks, "4", "7"], environment=os.environ | MPI)
    done = xpuprof(
        *("profile", "--cpu", "none", "-q", "-o", tmp_path / "run", "--", *MPIRUN, ranks, "4", "7"),
        environment=os.environ | MPI,
    )
    assert done.returncode == native.returncode == 7
    assert done.stdout == native.stdout


# ---- windows: each process counts its own launches and its own markers ---------------------------


def assert_window(job: Job, rows: list[int], program: Path | None = None) -> None:
    """Every process has exactly these launches, with the vectors of its own work; its CPU loops
    too, if the program is given."""
    for process in job.processes:
        assert process.window is not None
        inside = process.window.inside[: len(process.launches)]
        assert process.launches["launch"][inside].tolist() == rows
        made = process.sums.of_launches
        who = process.rank if process.rank is not None else (made - 4) // 2
        assert process.gpu is not None
        for place, i in enumerate(rows):
            expected = [32 * (who + 1 + i % 2)] * (WARPS * (who + 1))
            assert warp_atomics(process.gpu, place).tolist() == expected
        if program is not None:
            assert_spins(process, who, rows, program)


@pytest.fixture(params=["valgrind", "dynamorio"])
def cpu_engine(request: pytest.FixtureRequest) -> str:
    """The engines that know windows."""
    name: str = request.param
    probe = (Valgrind() if name == "valgrind" else DynamoRio()).probe()
    if not probe.available:
        pytest.skip(f"{name} engine: {', '.join(probe.missing)}")
    return name


@pytest.mark.parametrize("window", ["2-3", "2-3@step"])
@pytest.mark.parametrize("how", ["fork", "_exit", "spawn"])
def test_the_window_of_every_child(processes: Path, tmp_path: Path, how: str, window: str) -> None:
    """GIVEN children made in every way WHEN windowed by launches or by their own marker THEN each
    has the second and third of its own launches; the window is reported over all."""
    options = ("--window", window)
    job = profiled(tmp_path / "run", processes, how, "2", "4", options=options)
    assert len(job.processes) == 2
    assert_window(job, [1, 2])
    shown = json.loads(xpuprof("info", "--json", tmp_path / "run").stdout)
    by_marker = "@" in window
    assert shown["window"]["openings"] == (4 if by_marker else 2)
    assert shown["window"]["of_slices"] == 5 + 7
    assert shown["window"]["of_launches"] == 4 + 6
    assert shown["slices"] == (6 if by_marker else 4)
    assert [kernel["kernel"] for kernel in shown["kernels"]] == ["grow", "fold"]
    assert sorted(p["launches"] for p in shown["executions"][0]["processes"]) == [0, 2, 2]


@pytest.mark.parametrize("how", ["fork", "spawn"])
def test_a_child_counts_its_own_openings(processes: Path, tmp_path: Path, how: str) -> None:
    """GIVEN a marker that the parent opened and closed earlier WHEN the window is its first opening
    THEN it is each child's first."""
    options = ("--window", "1@child")
    job = profiled(tmp_path / "run", processes, how, "2", "4", options=options)
    assert sorted(len(process.launches) for process in job.processes) == [4, 6]


def test_a_child_is_in_the_window_that_it_was_forked_in(processes: Path, tmp_path: Path) -> None:
    """GIVEN a marker that the parent opens around its children WHEN they are forked THEN all their
    work is in the window; programs started by exec have their own counts, and a note says so."""
    options = ("--window", "@children")
    job = profiled(tmp_path / "fork", processes, "fork", "2", "4", options=options)
    assert sorted(len(process.launches) for process in job.processes) == [4, 6]
    done = xpuprof(
        *("profile", "--cpu", "none", "-o", tmp_path / "spawn", *options),
        *("--", processes, "spawn", "2", "4"),
    )
    assert b"launched kernels, but none in the window" in done.stderr


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_the_window_of_every_python_worker(tmp_path: Path, method: str) -> None:
    """GIVEN Python's multiprocessing WHEN windowed THEN each worker has its own second and third
    launch."""
    pytest.importorskip("pyopencl")
    require_opencl()
    command = (sys.executable, PROGRAMS / "workers.py", method, "2", "4")
    job = profiled(tmp_path / "run", *command, options=("--window", "2-3"))
    assert len(job.processes) == 2
    assert_window(job, [1, 2])


@pytest.mark.parametrize("window", ["2-3", "2-3@step"])
@pytest.mark.parametrize("how", ["_exit", "spawn"])
def test_the_cpu_window_of_every_child(
    processes: Path, tmp_path: Path, how: str, window: str, cpu_engine: str
) -> None:
    """GIVEN children of a parent that uses no device THEN CPU vectors cover each child's own
    window, by thread."""
    command = (processes, how, "2", "4")
    job = profiled(tmp_path / "run", *command, cpu=cpu_engine, options=("--window", window))
    assert len(job.processes) == 2
    assert_window(job, [1, 2], processes)


@pytest.mark.parametrize("window", ["2-3", "2-3@step"])
def test_the_window_of_every_rank(
    ranks: Path, tmp_path: Path, window: str, cpu_engine: str
) -> None:
    """GIVEN mpirun WHEN windowed THEN each rank has its own second and third launch, with CPU
    vectors of its own loops only."""
    command = (*MPIRUN, ranks, "4")
    job = profiled(tmp_path / "run", *command, cpu=cpu_engine, options=("--window", window))
    assert [process.rank for process in job.processes] == [0, 1]
    assert_window(job, [1, 2], ranks)


def test_the_windows_run_selects_and_validates(ranks: Path, tmp_path: Path) -> None:
    """GIVEN a window of every rank WHEN run and validated THEN both use it."""
    result = job_json(tmp_path / "run", *MPIRUN, ranks, "12", ways=("--window", "3-8@step"))
    assert (result["slices"], result["launches"]["seen"]) == (14, 12)
    assert result["window"]["of_slices"] == 13 + 15
    done = xpuprof(
        *("validate", tmp_path / "run" / "selection.json", "--repeat", "1", "--json", "--"),
        *(*MPIRUN, ranks, "12"),
        environment=os.environ | MPI,
    )
    checked = last_json(done)
    assert checked["same"] and checked["slices"] == 14, done.stderr


def test_ranks_continue_after_their_window(ranks: Path, tmp_path: Path) -> None:
    """GIVEN --after-window end WHEN mpirun started the processes THEN they continue, since mpirun
    would kill those whose window is still to come, and the run says so; without ranks they end."""
    options = ("--window", "1-2", "--after-window", "end")
    native = run_command([*MPIRUN, ranks, "6"], environment=os.environ | MPI)
    done = xpuprof(
        *("profile", "--cpu", "none", *options, "-o", tmp_path / "run", "--", *MPIRUN, ranks, "6"),
        environment=os.environ | MPI,
    )
    assert (done.returncode, done.stdout) == (0, native.stdout)
    assert b"MPI ranks are not ended after their window" in done.stderr
    run = Run.open(tmp_path / "run")
    assert run.status == "complete" and run.profile is not None
    assert [len(p.slices) for p in job_of(run.profile).processes] == [2, 2]


# ---- processes that are killed or crash ----------------------------------------------------------


@pytest.mark.parametrize("signal", ["SIGKILL", "SIGABRT"])
def test_a_rank_that_is_killed(ranks: Path, tmp_path: Path, signal: str) -> None:
    """GIVEN a rank that is killed or crashes after its third launch THEN the job ends as it does
    natively, the run is partial, collected data stay, and a selection is possible."""
    command = [*MPIRUN, str(ranks), "6", signal]
    native = run_command(command, environment=os.environ | MPI)
    done = xpuprof(
        *("profile", "--cpu", "none", "--json", "-o", tmp_path / "run", "--", *command),
        environment=os.environ | MPI,
    )
    assert done.returncode == native.returncode > 128
    result = last_json(done)
    assert (result["status"], result["exit_code"]) == ("partial", native.returncode)
    assert "rank1" in result["reason"] and "ended without closing" in result["reason"]
    assert xpuprof("check", tmp_path / "run").returncode == 3  # sound, but partial
    run = Run.open(tmp_path / "run")
    assert run.profile is not None
    job = job_of(run.profile)
    for rank, process in enumerate(job.processes):
        # Rank 0 waits for the other one after its third launch.
        assert process.launches["kernel"].tolist() == ["grow", "grow", "fold"]
        assert process.gpu is not None
        for i in np.flatnonzero(process.launches["instrumented"]):
            expected = [32 * (rank + 1 + i % 2)] * (WARPS * (rank + 1))
            assert warp_atomics(process.gpu, int(i)).tolist() in (expected, [])
    chosen = xpuprof("select", tmp_path / "run")
    assert chosen.returncode == 0
    assert b"the run is partial" in chosen.stderr


# ---- times in separate folders -------------------------------------------------------------------


def test_ranks_that_are_profiled_and_timed_one_by_one(ranks: Path, tmp_path: Path) -> None:
    """GIVEN profiles and timer runs that ranks wrote into separate folders THEN the selection over
    all of them is projected and compared; if one rank's times are missing, the sentence names it.
    """
    for command, options in (("profile", ("--cpu", "none")), ("time", ("--repeat", "1"))):
        ours = [sys.executable, "-m", "xpuprof", command, *options, "-o", tmp_path / command]
        done = subprocess.run(
            [*map(str, [*MPIRUN, *ours, "--", ranks, "12"])],
            env=os.environ | MPI,
            capture_output=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
    profiles = [tmp_path / f"profile-rank{rank}" for rank in (0, 1)]
    timed = [tmp_path / f"time-rank{rank}" for rank in (1, 0)]
    both = [part for folder in timed for part in ("--times", folder)]
    done = xpuprof("select", *profiles, *both, "-o", tmp_path / "job", "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    measured = sum(float(job_of(Run.open(folder).times[0]).times().sum()) for folder in timed)
    assert result["measured_s"] == pytest.approx(measured)
    error = abs(1 - result["projected_s"] / result["measured_s"])
    assert result["sampling_error"] == pytest.approx(error)
    done = xpuprof("select", *profiles, *both[:2], "-o", tmp_path / "half")
    assert done.returncode == 2 and b"no timer run of rank0" in done.stderr


def test_one_program_profiled_and_timed_in_two_folders(processes: Path, tmp_path: Path) -> None:
    """GIVEN the commands in the hints THEN profile and times are joined."""
    program = ("--", processes, "work", "0", "9")
    done = xpuprof("time", "--repeat", "2", "-o", tmp_path / "t", *program)
    assert f"xpuprof select P --times {tmp_path}/t".encode() in done.stderr
    told = re.search(rb"slices, measured ([^(]*) \(mean of 2 native runs\)", done.stderr)
    assert told, done.stderr
    xpuprof("profile", "--cpu", "none", "-o", tmp_path / "p", *program)
    done = xpuprof("select", tmp_path / "p", "--times", tmp_path / "t")
    assert done.returncode == 0, done.stderr
    for word in (b"measured        " + told[1] + b"\n", b"projected", b"sampling error"):
        assert word in done.stdout
    assert f"-- {processes} work 0 9".encode() in done.stderr
    xpuprof("time", "--repeat", "1", "-o", tmp_path / "other", "--", processes, "work", "0", "8")
    done = xpuprof("select", tmp_path / "p", "--force", "--times", tmp_path / "other")
    assert done.returncode == 2 and b"launched a different kernel sequence" in done.stderr
