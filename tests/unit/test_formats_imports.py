# SPDX-License-Identifier: Apache-2.0
"""Imports of other tools' profiles, from small sources written here."""

from __future__ import annotations

import gzip
import json
import sqlite3
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support import consumers, profiles
from tests.support.paths import DATA
from tests.support.profiles import (
    COUNTERS,
    CPU,
    DETAILS,
    EVENTS,
    NVPROF,
    PID,
    RAW,
    ROCPROF,
    TIMER,
    event,
    nsight,
    reference,
)
from xpuprof.errors import InputError, TraceError, UsageError
from xpuprof.formats.importers import (
    chakra,
    gpgpusim,
    kineto,
    mgpusim,
    ncu,
    nsys,
    nvprof,
    rocpd,
    rocprof,
    rocprof_compute,
    tabular,
    xpupoint,
)
from xpuprof.formats.registry import recognised
from xpuprof.inputs import Source
from xpuprof.trace.imported import ImportedSlices, ImportWriter


def imported(load: Any, source: Path, folder: Path) -> ImportedSlices:
    with ImportWriter(folder) as writer:
        load(Source(source), writer)
    return ImportedSlices(folder)


# ---- Nsight Systems ------------------------------------------------------------------------------


def test_nsys_gaps_become_cpu_parts(tmp_path: Path) -> None:
    # Two streams: the second kernel overlaps the first; then a gap of 100 ns of CPU work.
    source = nsight(
        tmp_path / "a.sqlite",
        [(100, 200, 0, 7, 1, PID), (150, 300, 0, 8, 2, PID), (400, 450, 0, 7, 1, PID)],
    )
    run = imported(nsys.load, source, tmp_path / "run")
    table = run.table()
    assert table["kernel"].tolist() == ["add", "mul", "add", "SYS_exit"]
    assert table["call"].tolist() == [1, 1, 2, 1]
    assert table["gx"].tolist() == [128, 128, 128, 0]
    np.testing.assert_allclose(run.column("time"), [200e-9, 100e-9, 150e-9, 550e-9])
    np.testing.assert_allclose(run.column("gpu_time"), [100e-9, 150e-9, 50e-9, 0])
    np.testing.assert_allclose(run.column("cpu_time"), [100e-9, 0, 100e-9, 550e-9])
    np.testing.assert_allclose(run.column("api_time")[:3], 10e-9)
    np.testing.assert_allclose(run.column("queue_time")[:3], 10e-9)
    assert float(run.column("time").sum()) == pytest.approx(1000e-9)


def test_nsys_every_process_has_its_slices(tmp_path: Path) -> None:
    source = nsight(
        tmp_path / "a.sqlite",
        [(100, 200, 0, 7, 1, PID), (120, 260, 1, 7, 1, 2 * PID), (300, 400, 0, 7, 1, PID)],
    )
    table = imported(nsys.load, source, tmp_path / "run").table()
    assert table["process"].tolist() == [0, 0, 0, 1, 1]
    assert table["device"].tolist() == [0, 0, -1, 1, -1]
    assert table["kernel"].tolist() == ["add", "add", "SYS_exit", "add", "SYS_exit"]


def test_nsys_innermost_range(tmp_path: Path) -> None:
    source = nsight(tmp_path / "a.sqlite", [(100, 200, 0, 7, 1, PID), (400, 450, 0, 7, 2, PID)])
    with sqlite3.connect(source) as database:
        database.executemany(
            "INSERT INTO NVTX_EVENTS VALUES (?,?,59,?,?,?)",
            [
                (10, 900, "outer", PID | 1, None),
                (70, 95, None, PID | 1, 4),  # closed when the second launches
                (375, 385, "other thread", PID | 2, None),
            ],
        )
    table = imported(nsys.load, source, tmp_path / "run").table()
    assert table["range"].tolist() == ["step", "outer", ""]


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN globalPid",
        "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET globalPid = NULL",
    ],
    ids=["absent", "empty"],
)
def test_nsys_ranges_of_kernels_without_a_process(tmp_path: Path, change: str) -> None:
    """GIVEN an export that does not name the kernels' process WHEN it has NVTX ranges THEN the
    launching call tells each kernel's range."""
    source = nsight(tmp_path / "a.sqlite", [(100, 200, 0, 7, 1, PID), (400, 450, 0, 7, 2, PID)])
    with sqlite3.connect(source) as database:
        database.execute(f"INSERT INTO NVTX_EVENTS VALUES (70, 95, 59, NULL, {PID | 1}, 4)")
        database.execute(change)
    run = imported(nsys.load, source, tmp_path / "run")
    assert run.table()["range"].tolist() == ["step", "", ""]
    np.testing.assert_allclose(run.column("api_time")[:2], 10e-9)


def test_nsys_bad_sources(tmp_path: Path) -> None:
    text = tmp_path / "a.sqlite"
    text.write_text("SQLite format 3\0 but not really" * 40)
    with pytest.raises(InputError, match="not a readable Nsight Systems export"):
        imported(nsys.load, text, tmp_path / "r1")
    other = tmp_path / "b.sqlite"
    sqlite3.connect(other).execute("CREATE TABLE t (x)").connection.close()
    with pytest.raises(InputError, match="no CUDA kernel was recorded"):
        imported(nsys.load, other, tmp_path / "r2")
    with pytest.raises(InputError, match="holds no kernel"):
        imported(nsys.load, nsight(tmp_path / "c.sqlite", []), tmp_path / "r3")
    damaged = nsight(tmp_path / "d.sqlite", [(100, 200, 0, 7, 1, PID)] * 200)
    body = bytearray(damaged.read_bytes())
    body[4096:] = b"\xff" * (len(body) - 4096)
    damaged.write_bytes(body)
    with pytest.raises(InputError, match="not a readable Nsight Systems export"):
        imported(nsys.load, damaged, tmp_path / "r4")


# ---- Kineto --------------------------------------------------------------------------------------


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("bare", [False, True], ids=["object", "array"])
def test_kineto(tmp_path: Path, packed: bool, bare: bool) -> None:
    document = EVENTS if bare else {"schemaVersion": 1, "traceEvents": EVENTS, "after": {"x": []}}
    text = json.dumps(document, indent=2).encode()
    source = tmp_path / ("t.json.gz" if packed else "t.json")
    source.write_bytes(gzip.compress(text) if packed else text)
    assert recognised(Source(source)).name == "kineto"
    run = imported(kineto.load, source, tmp_path / "run")
    table = run.table()
    assert table["kernel"].tolist() == ["early", "gemm", "SYS_exit"]
    assert table["gx"].tolist() == [0, 128, 0]
    assert table["gy"].tolist() == [0, 3, 0]
    assert table["range"].tolist() == ["", "aten::mm", ""]
    assert run.column("range_call")[1] == 1
    np.testing.assert_allclose(run.column("gpu_time"), [4e-6, 10.25e-6, 0])
    np.testing.assert_allclose(run.column("time"), [14e-6, 16.75e-6, 169.25e-6])
    np.testing.assert_allclose(run.column("cpu_time"), [10e-6, 6.5e-6, 169.25e-6])


def test_kineto_windows_do_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    many = EVENTS[:4] + [event("kernel", f"k{i % 3}", 100 + i, 0.5) for i in range(300)]
    source = tmp_path / "t.json"
    source.write_text(json.dumps({"traceEvents": many}))
    whole = imported(kineto.load, source, tmp_path / "a").column("gpu_time").copy()
    monkeypatch.setattr(kineto, "WINDOW", 37)
    assert np.array_equal(imported(kineto.load, source, tmp_path / "b").column("gpu_time"), whole)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('{"traceEvents": [{"ph": "X", "cat": "kernel"', "cut short"),
        ('{"traceEvents": [{"ph": "X"} {]}', "damaged"),
        ('{"other": []}', "no list `traceEvents`"),
        ('{"traceEvents": []}', "no device kernel"),
        (
            '{"traceEvents": [{"ph": "X", "name": "k", "ts": "soon", "dur": 1}]}',
            "event 1 .* has no valid 'ts'",
        ),
    ],
)
def test_kineto_bad_sources(tmp_path: Path, text: str, sentence: str) -> None:
    source = tmp_path / "t.json"
    source.write_text(text)
    with pytest.raises(InputError, match=sentence):
        imported(kineto.load, source, tmp_path / "run")


def test_kineto_damaged_gzip(tmp_path: Path) -> None:
    source = tmp_path / "t.json.gz"
    source.write_bytes(gzip.compress(json.dumps({"traceEvents": EVENTS * 50}).encode())[:-40])
    with pytest.raises(InputError, match=r"cannot be read|cut short"):
        imported(kineto.load, source, tmp_path / "run")


# ---- Nsight Compute ------------------------------------------------------------------------------


def test_ncu_raw(tmp_path: Path) -> None:
    source = tmp_path / "n.csv"
    source.write_text(RAW)
    assert recognised(Source(source)).name == "ncu"
    run = imported(ncu.load, source, tmp_path / "run")
    table = run.table()
    assert table["kernel"].tolist() == ["add(int *)", "mul"]
    assert table["gx"].tolist() == [1280, 192]
    assert table["ly"].tolist() == [1, 2]
    np.testing.assert_allclose(run.column("gpu_time"), [5.5e-6, 1000.25e-6])
    assert run.column("smsp__inst_executed.sum").tolist() == [1024, 512]
    assert run.column("dram__bytes.sum").tolist() == [2e6, 1e6]


def test_ncu_details_with_units_that_differ(tmp_path: Path) -> None:
    source = tmp_path / "n.csv"
    source.write_text(DETAILS)
    assert recognised(Source(source)).name == "ncu"
    run = imported(ncu.load, source, tmp_path / "run")
    np.testing.assert_allclose(run.column("gpu_time"), [5.5e-6, 1.5e-3])
    assert run.column("L1/TEX Hit Rate").tolist() == [40, 50]


def hit_rates_as(*measured: tuple[str, str, str]) -> str:
    """DETAILS with another metric (name, unit, value) of each launch."""
    text = DETAILS
    for rate, (name, unit, value) in zip((40, 50), measured, strict=True):
        text = text.replace(f'"L1/TEX Hit Rate","%","{rate}"', f'"{name}","{unit}","{value}"')
    return text


@pytest.mark.parametrize(
    ("first", "second", "values", "unit"),
    [
        (("cycle/nsecond", "1.20"), ("cycle/usecond", "950"), [1.2e9, 0.95e9], "cycle/s"),
        (("Ghz", "1.20"), ("Mhz", "950"), [1.2e9, 0.95e9], "hz"),
        (("Gbyte/second", "2"), ("byte/nsecond", "3"), [2e9, 3e9], "byte/s"),
        (("Kbyte/block", "2"), ("byte/block", "30"), [2000, 30], "byte/block"),
    ],
)
def test_ncu_rates_with_units_that_differ(
    tmp_path: Path,
    first: tuple[str, str],
    second: tuple[str, str],
    values: list[float],
    unit: str,
) -> None:
    """GIVEN a details page with another unit of a rate in each launch THEN its column has one."""
    source = tmp_path / "n.csv"
    source.write_text(hit_rates_as(("rate", *first), ("rate", *second)))
    run = imported(ncu.load, source, tmp_path / "run")
    np.testing.assert_allclose(run.column("rate"), values)
    assert run.units["rate"] == unit


def test_ncu_sections_with_one_name_for_two_metrics(tmp_path: Path) -> None:
    """GIVEN a metric's name that another section uses with another unit THEN the first counts."""
    again = '"0","1","add","1","7","(128, 1, 1)","(10, 1, 1)","Memory","L1/TEX Hit Rate","byte","7"'
    source = tmp_path / "n.csv"
    source.write_text(DETAILS.replace('"1","1","mul"', f'{again}\n"1","1","mul"', 1))
    run = imported(ncu.load, source, tmp_path / "run")
    assert run.column("L1/TEX Hit Rate").tolist() == [40, 50]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (RAW.replace('"usecond"', '"cycle"'), "not a unit of time"),
        (
            hit_rates_as(("x", "sector", "1"), ("x", "warp", "2")),
            "gives 'x' in 'warp' and in 'sector', which cannot be converted",
        ),
        (RAW.replace("gpu__time_duration.sum", "other"), "neither gpu__time_duration"),
        (RAW[:-20], "cut short"),
        (DETAILS.rsplit("\n", 2)[0], "lacks 'L1/TEX Hit Rate'"),
        (RAW.split('"0"')[0], "no kernel launch"),
        ('"ID","x"\n', "no column 'Kernel Name'"),
    ],
)
def test_ncu_bad_sources(tmp_path: Path, text: str, sentence: str) -> None:
    source = tmp_path / "n.csv"
    source.write_text(text)
    with pytest.raises(InputError, match=sentence):
        imported(ncu.load, source, tmp_path / "run")


# ---- nvprof --------------------------------------------------------------------------------------


def test_nvprof(tmp_path: Path) -> None:
    """GIVEN a trace, whose names end in the launches' correlation ids THEN launches of one kernel
    are its calls."""
    source = tmp_path / "n.csv"
    source.write_text(NVPROF)
    assert recognised(Source(source)).name == "nvprof"
    run = imported(nvprof.load, source, tmp_path / "run")
    assert run.table()["kernel"].tolist() == ["add(int)"] * 2
    assert run.table()["gx"].tolist() == [128, 256]
    np.testing.assert_allclose(run.column("gpu_time"), [10e-6, 20.5e-6])
    assert run.column("inst_executed").tolist() == [100, 200]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (NVPROF.replace("20.5", "20.5ms"), "bad launch 2 .* duration '20.5ms' is not a number"),
        (NVPROF.replace("ms,us", "ms,fortnight"), "not a unit of time"),
        (NVPROF.replace('"Duration"', '"Length"'), "no column Name and Duration"),
        ("\n".join(NVPROF.splitlines()[:5]), "no kernel launch"),
    ],
)
def test_nvprof_bad_sources(tmp_path: Path, text: str, sentence: str) -> None:
    source = tmp_path / "n.csv"
    source.write_text(text)
    with pytest.raises(InputError, match=sentence):
        imported(nvprof.load, source, tmp_path / "run")


# ---- tables --------------------------------------------------------------------------------------


def test_table_with_a_map(tmp_path: Path) -> None:
    source = tmp_path / "t.csv"
    source.write_text("op;took;misses;note\na;5;10;x\nb;7;20;y\na;9;30;z\n")
    assert recognised(Source(source)).name == "csv"
    columns = tabular.parse_map(("kernel=op", "time=took:ms"))
    run = imported(lambda s, w: tabular.load(s, w, columns), source, tmp_path / "run")
    assert run.table()["call"].tolist() == [1, 1, 2]
    np.testing.assert_allclose(run.column("gpu_time"), [0.005, 0.007, 0.009])
    assert run.metrics == ["gpu_time", "misses"]


@pytest.mark.parametrize(
    "header",
    [
        "kernel,duration_us,gridx",
        "Kernel,Duration (us),GrdX",
        "KernelName,DurUs,grid_x",
        "name,Duration [usec],grid x",
        "kernel,time_microseconds,gridx",
    ],
)
def test_table_without_a_map_takes_common_names_and_their_unit(tmp_path: Path, header: str) -> None:
    source = tmp_path / "t.csv"
    source.write_text(f"{header}\na,5,4\n")
    run = imported(tabular.load, source, tmp_path / "run")
    np.testing.assert_allclose(run.column("gpu_time"), [5e-6])
    assert run.table()["gx"].tolist() == [4] and run.metrics == ["gpu_time"]


SIZES = ["gx", "gy", "gz", "lx", "ly", "lz"]


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("kernel,time_s\na,1\n", [0, 0, 0, 0, 0, 0]),
        ("kernel,time_s,gridx\na,1,4\n", [4, 1, 1, 0, 0, 0]),
        ("kernel,time_s,gridx,gridy,lx\na,1,4,,32\n", [128, 1, 1, 32, 1, 1]),
        ("kernel,time_s,gridx,gridy,lx\na,1,,,\n", [0, 0, 0, 0, 0, 0]),
        ("kernel,time_s,lx\na,1,32\n", [0, 0, 0, 32, 1, 1]),
    ],
    ids=["none", "grid alone", "one missing", "empty", "block alone"],
)
def test_sizes_that_a_table_lacks_are_unknown(tmp_path: Path, text: str, sizes: list[int]) -> None:
    """GIVEN a table without a grid or a block THEN it is 0; one size of it tells that the others
    are 1."""
    source = tmp_path / "t.csv"
    source.write_text(text)
    table = imported(tabular.load, source, tmp_path / "run").table()
    assert table[SIZES].to_numpy().tolist() == [sizes]


def test_a_simulators_log_without_grids(tmp_path: Path) -> None:
    lines = profiles.GPGPUSIM.splitlines(keepends=True)
    source = tmp_path / "log"
    source.write_text("".join(line for line in lines if "gridDim" not in line))
    table = imported(gpgpusim.load, source, tmp_path / "run").table()
    assert not table[SIZES].to_numpy().any()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a,b\n1,2\n", "--map kernel=COLUMN; the columns are a, b"),
        ("kernel,time\nk,1\n", "does not tell the unit of 'time'; .* --map time=time:us"),
        (
            "kernel,time_s\nk,1\nk,2ms\n",
            "duration '2ms' is not a number of 0 or more",
        ),
        ("kernel,time_s\nk,1,7\n", "3 fields in row 1 below a header of 2"),
        ("kernel,time_s\nk\n", "1 field in row 1 below a header of 2"),
        ('kernel,time_s\nk,"5,5"\n', "duration '5,5' is not a number"),
        ("kernel;time_s\nk;5,5\n", "'5,5' in row 1, a number with a comma; .* decimal point"),
        ("kernel;time_s\nk;1,234\n", "'1,234' in row 1, a number with a comma"),
        ("kernel,time_s\n", "holds no kernel launch"),
        ("kernel,time_s,time_s\nk,1,2\n", "several columns 'time_s'; rename"),
    ],
)
def test_table_bad_sources(tmp_path: Path, text: str, sentence: str) -> None:
    source = tmp_path / "t.csv"
    source.write_text(text)
    with pytest.raises(InputError, match=sentence):
        imported(tabular.load, source, tmp_path / "run")


def test_thousands_separators_are_read(tmp_path: Path) -> None:
    source = tmp_path / "t.csv"
    source.write_text('kernel,time_us\nk,"1,234,567.5"\nk,"1,000"\n')
    run = imported(tabular.load, source, tmp_path / "run")
    np.testing.assert_allclose(run.column("gpu_time"), [1.2345675, 1e-3])


def test_maps_that_make_no_sense() -> None:
    with pytest.raises(UsageError, match="not FIELD=COLUMN"):
        tabular.parse_map(("kernel",))
    with pytest.raises(UsageError, match="knows no field 'speed'"):
        tabular.parse_map(("speed=x",))


# ---- the reference implementation's folder -------------------------------------------------------


def test_xpupoint(tmp_path: Path) -> None:
    source = reference(tmp_path / "ref")
    assert recognised(Source(source)).name == "xpupoint"
    run = imported(xpupoint.load, source, tmp_path / "run")
    assert run.table()["kernel"].tolist() == ["void k<int, 2>(x)", "b", "SYS_exit"]
    assert run.column("cpu_instructions").tolist() == [300, 0, 8]
    assert run.column("gpu_instructions").tolist() == [12, 9, 0]
    assert run.column("warps").tolist() == [2, 1, 0]
    assert run.column("cycles").tolist() == [100, 250, 50]
    gpu = run.vectors("gpu")
    assert gpu is not None
    # Block 1 of the two kernels is not the same block.
    assert gpu.shape == (3, 3)


def test_xpupoint_bad_sources(tmp_path: Path) -> None:
    source = reference(tmp_path / "ref")
    (source / "timer.txt").write_text(TIMER.replace("1 OnComplete b TSC 450\n", ""))
    with pytest.raises(InputError, match="different runs"):
        imported(xpupoint.load, source, tmp_path / "r1")
    (source / "T.0.bb").write_text(CPU.replace("2:50", "2:"))
    with pytest.raises(InputError, match="not block:count"):
        imported(xpupoint.load, source, tmp_path / "r2")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="neither"):
        imported(xpupoint.load, tmp_path / "empty", tmp_path / "r3")


# ---- ROCm, simulators, Chakra --------------------------------------------------------------------


def times(run: ImportedSlices, name: str) -> list[float]:
    return [round(value * 1e9, 3) for value in run.column(name).tolist()]


def test_rocprofv3_kernel_trace(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(ROCPROF)
    assert recognised(Source(tmp_path / "t.csv")).name == "rocprofv3"
    run = imported(rocprof.load, tmp_path / "t.csv", tmp_path / "run")
    table = run.table()
    assert [name.partition("_")[0] for name in table["kernel"]] == [
        "void addition", "subtract", "multiply", "SYS",
    ]  # fmt: skip
    assert table["gx"].tolist()[:3] == [1024] * 3 and table["lx"].tolist()[:3] == [64] * 3
    assert table["stream"].tolist()[:3] == [1, 1, 2]
    # Nanoseconds since 1970 do not fit a double: differences are exact all the same.
    assert times(run, "gpu_time") == [16157, 10464, 10183, 0]
    assert round(float(run.column("time").sum()) * 1e9) == 2414192765497669 - 2414192765353337


def test_rocprofv3_grids_are_work_items(tmp_path: Path) -> None:
    """GIVEN grids that their work-groups do not divide, in one case smaller than one THEN the
    work-items are those of the file; without columns of sizes they are unknown."""
    text = ROCPROF.replace("64,1,1,1024,1024,1", "64,4,1,100,10,1", 1)
    text = text.replace("64,1,1,1024,1024,1", "64,1,1,10,1,1", 1)
    (tmp_path / "t.csv").write_text(text)
    table = imported(rocprof.load, tmp_path / "t.csv", tmp_path / "run").table()
    assert table["gx"].tolist() == [100, 1024, 10, 0] and table["gy"].tolist() == [10, 1024, 1, 0]
    assert table["lx"].tolist() == [64, 64, 64, 0] and table["ly"].tolist() == [4, 1, 1, 0]
    for what in ("Grid_Size", "Workgroup_Size"):
        text = text.replace(what, "Other")
    (tmp_path / "t.csv").write_text(text)
    table = imported(rocprof.load, tmp_path / "t.csv", tmp_path / "sizeless").table()
    assert not table[SIZES].to_numpy().any()


def test_rocprofv3_counters(tmp_path: Path) -> None:
    (tmp_path / "c.csv").write_text(COUNTERS)
    assert recognised(Source(tmp_path / "c.csv")).name == "rocprofv3"
    run = imported(rocprof.load, tmp_path / "c.csv", tmp_path / "run")
    assert run.table()["kernel"].tolist() == ["a", "b"]
    assert run.table()[SIZES].to_numpy().tolist() == [[1048576, 1, 1, 64, 1, 1]] * 2
    assert times(run, "gpu_time") == [52151, 49780]
    assert run.column("SQ_WAVES").tolist() == [16384, 16385]
    assert run.column("SQ_INSTS_VALU").tolist() == [7, 9]
    (tmp_path / "c.csv").write_text(COUNTERS.replace("1048576", str(1 << 40)))
    run = imported(rocprof.load, tmp_path / "c.csv", tmp_path / "large")
    assert run.table()["gx"].tolist() == [1 << 40] * 2


@pytest.mark.parametrize("separate", [False, True])
def test_rocpd(tmp_path: Path, separate: bool) -> None:
    source = profiles.rocpd(tmp_path / "r.db", separate)
    assert recognised(Source(source)).name == "rocpd"
    run = imported(rocpd.load, source, tmp_path / "run")
    table = run.table()
    assert table["kernel"].tolist() == ["add", "mul", "add", "SYS_exit"]
    assert table["gx"].tolist() == [128, 128, 128, 0] and table["lx"].tolist() == [64, 64, 64, 0]
    assert (table["device"][0], table["stream"][0]) == (2, 3)
    assert times(run, "gpu_time") == [400, 300, 100, 0]
    assert times(run, "cpu_time") == [0, 100, 200, 0]


def test_rocpd_grids_are_work_items(tmp_path: Path) -> None:
    """GIVEN grids that their work-groups do not divide, in one case smaller than one THEN the
    work-items are those of the file."""
    source = profiles.rocpd(tmp_path / "r.db", separate=False)
    with sqlite3.connect(source) as database:
        database.execute(
            "UPDATE rocpd_kernel_dispatch_00ab SET grid_size_x = 100 WHERE start < 2000"
        )
        database.execute(
            "UPDATE rocpd_kernel_dispatch_00ab SET grid_size_x = 10 WHERE start = 2000"
        )
    table = imported(rocpd.load, source, tmp_path / "run").table()
    assert table["gx"].tolist() == [100, 100, 10, 0] and table["lx"].tolist() == [64, 64, 64, 0]


def test_rocpd_with_counters(tmp_path: Path) -> None:
    source = profiles.counted_rocpd(tmp_path / "r.db", ["add", "mul"])
    run = imported(rocpd.load, source, tmp_path / "run")
    assert run.table()["kernel"].tolist() == ["add", "mul"]
    assert run.table()[SIZES].to_numpy().tolist() == [[128, 2, 1, 64, 1, 1]] * 2
    assert times(run, "gpu_time") == [400, 400]
    assert run.column("SQ_WAVES").tolist() == [10, 20]
    assert run.column("TCC_HIT").tolist() == [6, 7]


def test_rocpd_in_the_schema_that_rocprofv3_executes(tmp_path: Path) -> None:
    """GIVEN the tables that rocprofv3 creates, and two launches in its own columns THEN the
    importer finds all that it needs."""
    folder = "rocm-systems/projects/rocprofiler-sdk/source/share/rocprofiler-sdk-rocpd"
    schema = consumers.source(f"{folder}/rocpd_tables.sql").read_text()
    with sqlite3.connect(tmp_path / "r.db") as database:
        database.executescript(schema.replace("{{uuid}}", "_00ab").replace("{{guid}}", "00ab"))
        database.execute("PRAGMA foreign_keys = OFF")
        symbol = {"id": 11, "nid": 1, "pid": 1, "code_object_id": 1, "display_name": "add"}
        launch = {"nid": 1, "pid": 1, "agent_id": 2, "kernel_id": 11, "queue_id": 1, "stream_id": 3}
        sizes = {f"{what}_size_{axis}": 64 for what in ("workgroup", "grid") for axis in "xyz"}
        for table, row in (
            ("info_kernel_symbol", symbol),
            ("kernel_dispatch", {"dispatch_id": 2, "start": 1500, "end": 1800, **launch, **sizes}),
            ("kernel_dispatch", {"dispatch_id": 1, "start": 1000, "end": 1400, **launch, **sizes}),
        ):
            names, marks = ", ".join(f'"{name}"' for name in row), ", ".join("?" * len(row))
            database.execute(
                f"INSERT INTO rocpd_{table}_00ab ({names}) VALUES ({marks})", [*row.values()]
            )
    assert recognised(Source(tmp_path / "r.db")).name == "rocpd"
    run = imported(rocpd.load, tmp_path / "r.db", tmp_path / "run")
    assert run.table()["kernel"].tolist() == ["add", "add", "SYS_exit"]
    assert times(run, "gpu_time") == [400, 300, 0]
    assert times(run, "cpu_time") == [0, 100, 0]


def test_files_that_rocprofv3_wrote(tmp_path: Path) -> None:
    """GIVEN a kernel trace that is not in order, and counters of a version that gave them no times
    THEN slices follow the starts, and the counters of a launch are one row."""
    trace = DATA / "rocprofv3-kernel-trace.csv"
    assert recognised(Source(trace)).name == "rocprofv3"
    run = imported(rocprof.load, trace, tmp_path / "trace")
    starts = run.column("start").tolist()
    assert len(starts) == 10 and starts == sorted(starts)
    counters = DATA / "rocprofv3-counters-6.2.csv"
    assert recognised(Source(counters)).name == "rocprofv3"
    run = imported(rocprof.load, counters, tmp_path / "counters")
    assert run.metrics == ["SQ_WAVES"]
    assert run.column("SQ_WAVES").tolist() == [16384] * 7
    assert [name.split("(")[0] for name in run.table()["kernel"]][:3] == [
        "void addition_kernel<float>", "subtract_kernel", "multiply_kernel",
    ]  # fmt: skip


def test_a_file_that_rocprofiler_compute_wrote(tmp_path: Path) -> None:
    """GIVEN counters of seven runs in one table THEN what describes the launch is no metric."""
    source = DATA / "rocprof-compute-pmc_perf.csv"
    assert recognised(Source(source)).name == "rocprof-compute"
    run = imported(rocprof_compute.load, source, tmp_path / "run")
    assert set(run.table()["kernel"]) == {"vecCopy(double*, double*, double*, int, int)"}
    assert times(run, "gpu_time") == [24000, 18880, 19040]
    assert run.table()[SIZES].to_numpy().tolist() == [[1048576, 1, 1, 256, 1, 1]] * 3
    assert run.column("GRBM_COUNT").tolist() == [49986, 43132, 44034]
    assert not [name for name in run.metrics if not name.startswith(("gpu_", "CPC", "SQ", "GRBM"))]


def test_mgpusim(tmp_path: Path) -> None:
    source = profiles.mgpusim(tmp_path / "m.sqlite3")
    assert recognised(Source(source)).name == "mgpusim"
    run = imported(mgpusim.load, source, tmp_path / "run")
    assert run.table()["call"].tolist() == [1, 2, 1]
    assert times(run, "gpu_time") == [2000, 1000, 0]
    assert times(run, "cpu_time") == [1000, 2000, 0]


def test_a_database_that_mgpusim_wrote(tmp_path: Path) -> None:
    """GIVEN bitonicsort of 256 numbers on the MI300A, its driver's tasks only THEN the launches
    add up to the driver's own kernel_time."""
    source = tmp_path / "akita_sim.sqlite3"
    source.write_bytes(gzip.decompress((DATA / "mgpusim-bitonicsort.sqlite3.gz").read_bytes()))
    assert recognised(Source(source)).name == "mgpusim"
    run = imported(mgpusim.load, source, tmp_path / "run")
    assert len(run.table()) == 36 + 1
    assert float(run.column("gpu_time").sum()) == pytest.approx(9.4945e-05)


def test_gpgpusim_log(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(profiles.GPGPUSIM)
    assert recognised(Source(tmp_path / "log")).name == "gpgpusim"
    run = imported(gpgpusim.load, tmp_path / "log", tmp_path / "run")
    table = run.table()
    assert table["kernel"].tolist() == ["_Z3addPf", "_Z3mulPf"]
    assert table["gx"].tolist() == [512, 256] and table["lx"].tolist() == [64, 64]
    assert run.column("cycles").tolist() == [1000, 500]
    assert run.column("gpgpu_n_mem_read_global").tolist() == [70, 70]


def test_chakra(tmp_path: Path) -> None:
    (tmp_path / "rank0.et").write_bytes(profiles.CHAKRA)
    assert recognised(Source(tmp_path / "rank0.et")).name == "chakra"
    run = imported(chakra.load, tmp_path / "rank0.et", tmp_path / "run")
    assert run.table()["kernel"].tolist() == ["gemm", "gemm", "SYS_exit"]
    assert times(run, "gpu_time") == [150000, 140000, 0]
    assert times(run, "cpu_time") == [100000, 150000, 0]


def test_a_trace_that_chakras_converter_wrote(tmp_path: Path) -> None:
    """GIVEN a training step, in the test data of Chakra itself, THEN its device nodes are the
    kernels. The figures are those of a parser made by protoc from Chakra's schema."""
    with tarfile.open(consumers.source("chakra/tests/data/feeder_tests_trace.tar.gz")) as archive:
        archive.extract("tests/data/chakra.0.et", tmp_path, filter="data")
    source = tmp_path / "tests/data/chakra.0.et"
    assert recognised(Source(source)).name == "chakra"
    run = imported(chakra.load, source, tmp_path / "run")
    kernels = run.table()["kernel"].tolist()[:-1]
    assert (len(kernels), len(set(kernels))) == (1059, 69)
    assert float(run.column("gpu_time").sum()) == pytest.approx(329_543e-6)


@pytest.mark.parametrize(
    ("name", "data", "sentence"),
    [
        ("t.csv", ROCPROF.replace("2414192765369494", "soon"), "has End_Timestamp 'soon'"),
        ("t.csv", ROCPROF.replace("2414192765369494", "1"), "ends before it starts"),
        ("c.csv", "\n".join(COUNTERS.splitlines()[:-1]), "lacks counter SQ_INSTS_VALU"),
        ("log", profiles.GPGPUSIM.replace("gpu_sim_cycle", "x"), "no kernel with gpu_sim_cycle"),
        ("a.et", profiles.CHAKRA[:-3], "damaged or not a Chakra trace"),
        ("a.et", b"\xff" * 20, "damaged or not a Chakra trace"),
        ("u.csv", "kernel,time_s\nk,1\n".encode("utf-16"), "UTF-16 text; .* iconv -f UTF-16"),
        ("a.et", profiles.CHAKRA.replace(b"is_cpu_op", b"is_gpu_op"), "no device node"),
    ],
)
def test_what_is_refused(tmp_path: Path, name: str, data: str | bytes, sentence: str) -> None:
    (tmp_path / name).write_bytes(data if isinstance(data, bytes) else data.encode())
    with pytest.raises(InputError, match=sentence):
        imported(recognised(Source(tmp_path / name)).load, tmp_path / name, tmp_path / "run")


# ---- what is stored ------------------------------------------------------------------------------


def stored(folder: Path) -> Path:
    with ImportWriter(folder) as writer:
        for names in (["a", "b"], ["b"]):
            count = len(names)
            writer.append(
                {
                    "kernel": writer.codes("kernel", names),
                    "call": np.ones(count, dtype=np.int32),
                    "x/y": np.arange(count, dtype=np.float64),
                }
            )
    return folder


def test_chunks_become_one_table(tmp_path: Path) -> None:
    run = ImportedSlices(stored(tmp_path / "run"))
    assert run.table()["kernel"].tolist() == ["a", "b", "b"]
    assert run.column("x/y").tolist() == [0, 1, 0]
    assert run.metrics == ["x/y"]


def test_damage_is_seen(tmp_path: Path) -> None:
    folder = stored(tmp_path / "run")
    (folder / "imported" / "1.bin").write_bytes(b"short")
    with pytest.raises(TraceError, match="not 12 bytes long"):
        ImportedSlices(folder).table()
    header = folder / "imported" / "columns.json"
    header.write_text(header.read_text().replace('"version": 1', '"version": 9'))
    with pytest.raises(TraceError, match="newer xpuprof"):
        ImportedSlices(folder)
    header.write_text("{}")
    with pytest.raises(TraceError, match="was not written by xpuprof"):
        ImportedSlices(folder)


def test_detect_says_how_to_export_a_report(tmp_path: Path) -> None:
    for name, command in (("a.nsys-rep", "nsys export"), ("a.ncu-rep", "ncu --import")):
        source = tmp_path / name
        source.write_bytes(b"\x01\x02binary")
        with pytest.raises(InputError, match=command):
            recognised(Source(source))
    with pytest.raises(InputError, match="does not exist"):
        recognised(Source(tmp_path / "none"))
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(InputError, match="is empty"):
        recognised(Source(tmp_path / "empty"))
    (tmp_path / "text").write_text("hello world\n")
    with pytest.raises(InputError, match="none of the known formats"):
        recognised(Source(tmp_path / "text"))


def test_parquet(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="the extra `parquet` is not installed")
    import pandas as pd

    source = tmp_path / "t.parquet"
    frame = pd.DataFrame({"kernel": ["a", "b"], "duration_us": [5.0, 6.5], "misses": [1, 2]})
    frame.to_parquet(source)
    assert recognised(Source(source)).name == "csv"
    run = imported(tabular.load, source, tmp_path / "run")
    np.testing.assert_allclose(run.column("gpu_time"), [5e-6, 6.5e-6])
    assert run.metrics == ["gpu_time", "misses"]
    source.write_bytes(b"PAR1 and no more")
    with pytest.raises(InputError, match="not a readable Parquet file"):
        imported(tabular.load, source, tmp_path / "again")
