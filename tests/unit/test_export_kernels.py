# SPDX-License-Identifier: Apache-2.0
"""Kernel lists, re-read by the rules of their consumers."""

from __future__ import annotations

import csv
import os
import re
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.consumers import accelsim_commands, gem5_simpoints, macsim_samples
from tests.support.run import run
from tests.support.runs_made_up import made_up_run, select_by_kernel
from xpuprof.errors import InputError, UsageError
from xpuprof.formats.exporters import (
    accelsim,
    gem5_gpu,
    macsim,
    ncu,
    nvbit_ranges,
    rocprof_compute,
    rocprofv3,
)
from xpuprof.formats.exporters.kernel_lists import ranges
from xpuprof.formats.exporters.simpoint import write_simpoints
from xpuprof.selection.identity import Identity, Program
from xpuprof.selection.selection import Marker, Selection
from xpuprof.trace.coordinates import JobRow

LAUNCHES = ["a/64", "b<int>(float*, int)/64", "c/8", "a/64", "b<int>(float*, int)/32"]


@pytest.fixture
def selection() -> Selection:
    """Chosen: launches 0 (a), 1 (b), 2 (c) and program exit."""
    return select_by_kernel(made_up_run(LAUNCHES))


def tracer_traces(kernel_range: str, kernel_id: int) -> bool:
    """Accel-Sim's tracer: tokens separated by spaces, `N`, `A-B` or `A-`; an end of 0 means
    open."""
    for token in kernel_range.split():
        numbers = token.partition("@")[0]
        start, dash, end = numbers.partition("-")
        low = int(start)
        high = (int(end) if end else 0) if dash else low
        if kernel_id >= low and (high == 0 or kernel_id <= high):
            return True
    return False


def simulator_commands(path: Path) -> list[str]:
    """Accel-Sim's trace parser: lines by their first letters, traces beside the list."""
    return [
        f"{path.parent}/{line}" if line.startswith("kernel") else line
        for line in path.read_text().split("\n")
        if line.startswith(("MemcpyHtoD", "kernel"))
    ]


def test_accelsim_without_a_list(selection: Selection, tmp_path: Path) -> None:
    accelsim.write(selection, tmp_path)
    assert simulator_commands(tmp_path / "kernelslist.g") == [
        f"{tmp_path}/kernel-{n}.traceg" for n in (1, 2, 3)
    ]
    assert simulator_commands(tmp_path / "kernelslist-v2.g") == [
        f"{tmp_path}/kernel-{n}.tracez" for n in (1, 2, 3)
    ]
    variable, _, value = (tmp_path / "tracer.env").read_text().strip().partition("=")
    assert variable == "DYNAMIC_KERNEL_RANGE"
    (kernel_range,) = shlex.split(value)
    assert [n for n in range(1, 9) if tracer_traces(kernel_range, n)] == [1, 2, 3]


def test_accelsims_own_parser_reads_our_lists(selection: Selection, tmp_path: Path) -> None:
    """GIVEN lists with the tracer's names, with warm-up, and filtered from a whole run's WHEN
    Accel-Sim's trace parser reads them THEN it gets the copies and the traces of the launches."""
    whole = tmp_path / "whole"
    whole.write_text(
        "MemcpyHtoD,0x00007efe7b500000,2052\nkernel-1-ctx_0x55d0.traceg.xz\nkernel-2.traceg\n"
        "MemcpyDtoH,0x1,2\nkernel-3-ctx_0x55d0.traceg.xz\nkernel-4.traceg\n"
    )
    accelsim.write(selection, tmp_path / "named", warmup={2: 1})
    accelsim.write(selection, tmp_path / "filtered", kernelslist=whole)
    copy = "copy MemcpyHtoD,0x00007efe7b500000,2052"
    for name, expected in (
        ("named/kernelslist.g", [f"kernel-{n}.traceg" for n in (1, 2, 3)]),
        ("named/kernelslist-v2.g", [f"kernel-{n}.tracez" for n in (1, 2, 3)]),
        (
            "filtered/kernelslist.g",
            [copy, "kernel-1-ctx_0x55d0.traceg.xz", "kernel-2.traceg",
             "kernel-3-ctx_0x55d0.traceg.xz"],
        ),
    ):  # fmt: skip
        found = accelsim_commands(tmp_path / name, tmp_path / "parser")
        folder = str((tmp_path / name).parent)
        assert [line.removeprefix(f"{folder}/") for line in found] == expected


def test_accelsim_filters_a_list(selection: Selection, tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    whole.write_text(
        "MemcpyHtoD,0x00007efe7b500000,2052\nkernel-1-ctx_0x55d0.traceg.xz\nkernel-10.traceg\n"
        "MemcpyHtoD,0x00007efe7b500a00,64\nMemcpyDtoH,0x1,2\nkernel-2-ctx_0x55d0.traceg.xz\n"
        "kernel-3-ctx_0x55d0.traceg.xz\nMemcpyHtoD,0x00007efe7b500b00,64\nkernel-4.traceg\n"
    )
    accelsim.write(selection, tmp_path / "out", kernelslist=whole)
    assert simulator_commands(tmp_path / "out" / "kernelslist.g") == [
        "MemcpyHtoD,0x00007efe7b500000,2052",
        f"{tmp_path}/out/kernel-1-ctx_0x55d0.traceg.xz",
        "MemcpyHtoD,0x00007efe7b500a00,64",
        f"{tmp_path}/out/kernel-2-ctx_0x55d0.traceg.xz",
        f"{tmp_path}/out/kernel-3-ctx_0x55d0.traceg.xz",
    ]
    whole.write_text("kernel-1.traceg\nkernel-3.traceg\n")
    with pytest.raises(InputError, match=r'lacks kernel 2, .*DYNAMIC_KERNEL_RANGE="1-3"'):
        accelsim.write(selection, tmp_path / "other", kernelslist=whole)
    assert not (tmp_path / "other").exists()


def test_warm_up_launches_are_listed(selection: Selection, tmp_path: Path) -> None:
    """GIVEN warm-up before one launch THEN those before it are listed, too, from the first on."""
    accelsim.write(selection, tmp_path, warmup={2: 5})
    assert simulator_commands(tmp_path / "kernelslist.g") == [
        f"{tmp_path}/kernel-{n}.traceg" for n in (1, 2, 3)
    ]
    last = tuple(r for r in selection.representatives if r.end.kernel == "c")
    alone = replace(selection, representatives=last)
    for warmup, expected in (({}, [3]), ({2: 1}, [2, 3]), ({2: 5}, [1, 2, 3])):
        accelsim.write(alone, tmp_path, force=True, warmup=warmup)
        kernels = simulator_commands(tmp_path / "kernelslist.g")
        assert kernels == [f"{tmp_path}/kernel-{n}.traceg" for n in expected]
    assert len((tmp_path / "weights.csv").read_text().splitlines()) == 2


def test_weights_beside_the_list(selection: Selection, tmp_path: Path) -> None:
    accelsim.write(selection, tmp_path)
    rows = list(csv.DictReader((tmp_path / "weights.csv").open()))
    assert [(r["region"], r["launch"], r["kernel"], float(r["multiplier"])) for r in rows] == [
        ("1", "1", "a", 2.0),
        ("2", "2", "b<int>(float*, int)", 2.0),
        ("3", "3", "c", 1.0),
    ]


def macsim_reads(path: Path) -> list[int]:
    """MacSim's NVBit tool skips two lines, then reads size, number and that many launches per
    line."""
    launches: list[int] = []
    for line in path.read_text().split("\n")[2:]:
        if not line:
            break
        _, number, *ids = (int(word) for word in line.split())
        assert number == len(ids)
        launches += ids
    return launches


def drawn_thrice(selection: Selection) -> Selection:
    """The same with one representative drawn three times."""
    drawn = tuple(
        replace(r, draws=3) if r.end.kernel == "c" else r for r in selection.representatives
    )
    return replace(selection, representatives=drawn)


def test_macsims_own_reader_reads_our_list(selection: Selection, tmp_path: Path) -> None:
    """GIVEN a list WHEN MacSim's NVBit tool reads it THEN it gets the launches."""
    macsim.write(drawn_thrice(selection), tmp_path / "m")
    assert macsim_samples(tmp_path / "m", tmp_path / "reader") == [0, 1, 2, 2, 2]


def test_macsim(selection: Selection, tmp_path: Path) -> None:
    macsim.write(drawn_thrice(selection), tmp_path / "m")
    assert macsim_reads(tmp_path / "m") == [0, 1, 2, 2, 2]
    sizes = [int(line.split()[0]) for line in (tmp_path / "m").read_text().splitlines()[2:]]
    assert sizes == [2, 2, 1]


def sourced(path: Path) -> dict[str, str]:
    """The variables that a shell reads from the file."""
    script = f"set -a; env -0 > before; . {shlex.quote(str(path))}; env -0"
    out = subprocess.run(
        ["bash", "-c", script], capture_output=True, check=True, cwd=path.parent
    ).stdout
    pairs = (item.partition("=") for item in out.decode().split("\0") if item)
    return {name: value for name, _, value in pairs}


def test_regions_of_an_earlier_selection_do_not_stay(selection: Selection, tmp_path: Path) -> None:
    """GIVEN the regions of a longer selection WHEN replaced THEN none of them is left; other files
    are."""
    for name in ("region-99.env", "region-mine.env"):
        (tmp_path / name).touch()
    nvbit_ranges.write(selection, tmp_path)
    assert (tmp_path / "region-99.env").exists()
    nvbit_ranges.write(selection, tmp_path, force=True)
    assert not (tmp_path / "region-99.env").exists()
    assert (tmp_path / "region-1.env").exists() and (tmp_path / "region-mine.env").exists()


def test_nvbit_ranges(selection: Selection, tmp_path: Path) -> None:
    nvbit_ranges.write(selection, tmp_path)
    everything = sourced(tmp_path / "all.env")
    assert [n for n in range(1, 9) if tracer_traces(everything["DYNAMIC_KERNEL_RANGE"], n)] == [
        1,
        2,
        3,
    ]
    second = sourced(tmp_path / "region-2.env")
    begin, end = int(second["KERNEL_BEGIN"]), int(second["KERNEL_END"])
    assert [n for n in range(8) if begin <= n < end] == [1]
    assert (second["DYNAMIC_KERNEL_LIMIT_START"], second["DYNAMIC_KERNEL_LIMIT_END"]) == ("2", "2")
    wanted = second["CUTRACER_KERNEL_FILTERS"].split(",")
    assert [name for name in ("a", "b<int>(float*, int)") if any(w in name for w in wanted)] == [
        "b<int>(float*, int)"
    ]


def gem5_reads(simpoints: Path, weights: Path) -> list[tuple[int, float]]:
    """gem5's configs/common/Simulation.py: both files line by line, in lockstep."""
    pairs = []
    with simpoints.open() as points, weights.open() as shares:
        for line in points:
            interval = re.match(r"(\d+)\s+(\d+)", line)
            weight = re.match(r"([0-9\.e\-]+)\s+(\d+)", shares.readline())
            assert interval
            assert weight
            assert interval[2] == weight[2]
            pairs.append((int(interval[1]), float(weight[1])))
        assert not shares.readline()
    return pairs


def test_simpoint(selection: Selection, tmp_path: Path) -> None:
    tiny = tuple(
        replace(r, weight=1e-9) if r.end.kernel == "c" else r for r in selection.representatives
    )
    write_simpoints(replace(selection, representatives=tiny), tmp_path / "t")
    pairs = gem5_reads(tmp_path / "t.simpoints", tmp_path / "t.weights")
    assert sorted(interval for interval, _ in pairs) == [0, 1, 2, 5]
    assert sum(weight for _, weight in pairs) == pytest.approx(1.0)
    assert (tmp_path / "t.labels").read_text().count("\n") == 6


def test_gem5s_own_reader_reads_our_simpoints(selection: Selection, tmp_path: Path) -> None:
    """GIVEN SimPoint's files WHEN gem5's configs/common/Simulation.py reads them THEN it gets each
    slice's start and weight, in order, and warm-up where there is room for it."""
    write_simpoints(selection, tmp_path / "t")
    found = gem5_simpoints(tmp_path / "t", interval=1000, warmup=1500)
    assert [(i, start, warm) for i, _, start, warm in found] == [
        (0, 0, 0), (1, 0, 1000), (2, 500, 1500), (5, 3500, 1500),
    ]  # fmt: skip
    total = sum(r.weight for r in selection.representatives)
    weights = {r.slice: r.weight / total for r in selection.representatives}
    assert {i: w for i, w, _, _ in found} == pytest.approx(weights)


def test_ranges() -> None:
    assert ranges([1, 2, 3, 7, 9, 10]) == [(1, 3), (7, 7), (9, 10)]
    assert ranges([]) == []


def test_a_program_without_kernels_has_no_list(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no kernel"):
        macsim.write(select_by_kernel(made_up_run([])), tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_replaced_unasked(selection: Selection, tmp_path: Path) -> None:
    (tmp_path / "weights.csv").write_text("mine")
    with pytest.raises(UsageError, match="force=True"):
        accelsim.write(selection, tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["weights.csv"]
    assert (tmp_path / "weights.csv").read_text() == "mine"
    accelsim.write(selection, tmp_path, force=True)
    assert "region" in (tmp_path / "weights.csv").read_text()


# ---- profilers of the chosen launches ------------------------------------------------------------


def commands(folder: Path, program: str) -> list[list[str]]:
    """What run.sh calls, by stand-ins that print their arguments."""
    tools = folder / "tools"
    tools.mkdir()
    for name in ("ncu", "rocprofv3", "rocprof-compute"):
        (tools / name).write_text('#!/bin/sh\nprintf "%s\\036" "$@"; printf "\\035"\n')
        (tools / name).chmod(0o755)
    done = run(
        ["sh", folder / "run.sh", program, "--size 3"],
        environment={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"},
        check=True,
    )
    calls = done.stdout.decode().split("\x1d")[:-1]
    return [call.split("\x1e")[:-1] for call in calls]


def after(arguments: list[str], option: str) -> str:
    return arguments[arguments.index(option) + 1]


@pytest.fixture
def calls_of_two(selection: Selection) -> Selection:
    """Chosen: calls 1 to 3 and 7 of a, call 2 of b<int>(float*, int)."""
    profile = made_up_run(["a", "b<int>(float*, int)"] * 8)
    whole = select_by_kernel(profile)
    ends = [("a", 3), ("b<int>(float*, int)", 2), ("a", 1), ("a", 7), ("a", 2)]
    chosen = tuple(
        replace(
            whole.representatives[0],
            slice=JobRow(2 * (call - 1) + kernel.startswith("b")),
            end=Marker(kernel, call),
        )
        for kernel, call in ends
    )
    return replace(whole, representatives=chosen)


def test_ncu_profiles_the_chosen_launches(calls_of_two: Selection, tmp_path: Path) -> None:
    ncu.write(calls_of_two, tmp_path)
    one, two = commands(tmp_path, "./app")
    assert one[-2:] == ["./app", "--size 3"]
    for arguments, name, numbers in (
        (one, "a", {1, 2, 3, 7}), (two, "b<int>(float*, int)", {2}),
    ):  # fmt: skip
        context, stream, operator, kernel, invocation = after(arguments, "--kernel-id").split(":")
        assert (context, stream, operator) == ("", "", "regex")
        assert re.search(kernel, name)
        assert {n for n in range(1, 20) if re.search(invocation, str(n))} == numbers


def test_rocprofv3_profiles_the_chosen_launches(calls_of_two: Selection, tmp_path: Path) -> None:
    rocprofv3.write(calls_of_two, tmp_path)
    one, two = commands(tmp_path, "./app")
    assert one[-3:] == ["--", "./app", "--size 3"]
    assert after(one, "--kernel-iteration-range") == "[[1-3], 7]"
    assert after(two, "--kernel-iteration-range") == "[2]"
    assert re.search(after(two, "--kernel-include-regex"), "b<int>(float*, int)")
    assert not re.search(after(one, "--kernel-include-regex"), "ab")


def test_rocprofiler_compute_profiles_the_chosen_launches(
    calls_of_two: Selection, tmp_path: Path
) -> None:
    rocprof_compute.write(calls_of_two, tmp_path)
    one, two = commands(tmp_path, "./app")
    assert one[one.index("-d") + 1 : one.index("--")] == ["1:3", "7"]
    assert two[two.index("-d") + 1 : two.index("--")] == ["2"]
    assert re.search(after(two, "-k"), "b<int>(float*, int)")
    assert not re.search(after(one, "-k"), "ab")
    assert after(two, "--output-directory") == f"{tmp_path}/kernel-2"


def gem5_simulates(arguments: list[str], launches: list[str]) -> list[str]:
    """gem5's src/gpu-compute/gpu_command_processor.cc skips a kernel that is not a copy while its
    number is below the target; configs/example/gpufs/runfs.py ends after the kernel whose number
    it has completed."""
    target = int(after(arguments, "--skip-until-gpu-kernel"))
    last = int(after(arguments, "--exit-after-gpu-kernel"))
    counted = [name for name in launches if not name.startswith("__amd_rocclr_")]
    return [name for number, name in enumerate(counted) if target <= number <= last]


def test_gem5_simulates_one_launch_a_run(tmp_path: Path) -> None:
    """GIVEN launches among copy kernels of ROCm, which gem5 does not number THEN each run simulates
    its launch only, in a folder with the number of its region."""
    fill = "__amd_rocclr_fillBufferAligned"
    names = ["a", fill, "b", fill, "c", "a"]
    whole = select_by_kernel(made_up_run(names))
    chosen = tuple(r for r in whole.representatives if r.end.kernel != fill)
    gem5_gpu.write(replace(whole, representatives=chosen), tmp_path / "out")
    (tmp_path / "gem5.opt").write_text('#!/bin/sh\nprintf "%s\\036" "$@"; printf "\\035"\n')
    (tmp_path / "gem5.opt").chmod(0o755)
    script = ["sh", tmp_path / "out" / "run.sh"]
    done = run([*script, tmp_path / "gem5.opt", "mi300.py", "--app", "./a b"], check=True)
    runs = [one.split("\x1e")[:-1] for one in done.stdout.decode().split("\x1d")[:-1]]
    assert [gem5_simulates(one, names) for one in runs] == [["a"], ["b"], ["c"]]
    assert [after(one, "-d") for one in runs] == [f"{tmp_path}/out/region-{n}" for n in (1, 2, 3)]
    assert all(one[2:5] == ["mi300.py", "--app", "./a b"] for one in runs)
    assert run([*script, "gem5.opt"]).returncode == 2
    with pytest.raises(InputError, match="a copy kernel of ROCm"):
        gem5_gpu.write(whole, tmp_path / "other")


def test_run_sh_without_a_program_says_so(calls_of_two: Selection, tmp_path: Path) -> None:
    unknown = replace(calls_of_two, identity=Identity())
    ncu.write(unknown, tmp_path)
    done = run(["sh", tmp_path / "run.sh"])
    assert done.returncode == 2 and b"usage: sh " in done.stderr
    known = replace(calls_of_two, identity=Identity(Program(("./app", "a b"))))
    ncu.write(known, tmp_path, force=True)
    assert "set -- ./app 'a b'" in (tmp_path / "run.sh").read_text()
