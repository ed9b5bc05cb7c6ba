# SPDX-License-Identifier: Apache-2.0
"""Damaged and hostile files: every reader gives sound values or one sentence that names the file.
Each case once gave a traceback, or took gigabytes or minutes."""

from __future__ import annotations

import errno
import gzip
import json
import os
import random
import sqlite3
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.paths import ROOT
from tests.support.profiles import (
    ACCELSIM,
    EVENTS,
    NVPROF,
    PID,
    RAW,
    event,
    nsight,
    reference,
    rocpd,
)
from tests.support.run import run, xpuprof, xpuprof_line
from tests.support.runs_made_up import made_up_run, select_by_kernel
from xpuprof import inputs
from xpuprof.errors import InputError, UsageError
from xpuprof.formats.importers import database
from xpuprof.formats.registry import all_importers, recognised
from xpuprof.formats.results import read_results
from xpuprof.inputs import Source
from xpuprof.selection.selection import Selection
from xpuprof.trace.imported import ImportedSlices, ImportWriter
from xpuprof.workflow.imports import import_

KERNELS = [(100, 200, 0, 7, 1, PID), (300, 400, 0, 7, 2, PID)]
TRACE = json.dumps({"traceEvents": EVENTS})


def loads(path: Path, form: str = "") -> None:
    """Imports a file beside itself."""
    source = Source(path)
    importer = all_importers()[form] if form else recognised(source)
    with (
        tempfile.TemporaryDirectory(dir=path.parent) as folder,
        ImportWriter(Path(folder)) as writer,
    ):
        importer.load(source, writer)


def refused(path: Path, sentence: str, form: str = "") -> None:
    with pytest.raises(InputError, match=sentence) as caught:
        loads(path, form)
    assert str(path.parent) in str(caught.value) and "\n" not in str(caught.value)


@pytest.fixture
def selection() -> Selection:
    """Three regions: kernels a and b, and the program's exit."""
    return select_by_kernel(made_up_run(["a", "b", "a"]))


# ---- compressed files ----------------------------------------------------------------------------


def cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def flipped(data: bytes) -> bytes:
    return data[:40] + bytes(255 - byte for byte in data[40:80]) + data[80:]


def checksum(data: bytes) -> bytes:
    return data[:-8] + b"\0\0\0\0" + data[-4:]


@pytest.mark.parametrize("damage", [cut, flipped, checksum])
@pytest.mark.parametrize(
    ("name", "text"),
    [("t.json.gz", TRACE), ("n.csv.gz", NVPROF), ("c.csv.gz", RAW), ("app.bb.gz", "T:1:5 :2:3\n")],
)
def test_a_damaged_gzip_file_is_refused(
    tmp_path: Path, name: str, text: str, damage: Callable[[bytes], bytes]
) -> None:
    noise = random.Random(1).randbytes(60).hex()  # keeps the compressed text longer than the damage
    comment = "" if name.startswith("t") else f"# {noise}\n"
    (tmp_path / name).write_bytes(damage(gzip.compress((text + comment).encode())))
    form = {"t": "kineto", "n": "nvprof", "c": "ncu", "a": "simpoint"}[name[0]]
    refused(tmp_path / name, "cannot be read: .*; copy it again", form)


@pytest.mark.parametrize(
    ("form", "head", "body"),
    [
        ("csv", b"kernel,time_s\n", b"a,1\n"),
        ("kineto", b'{"traceEvents": [', b" "),
        ("nvprof", b"==1== NVPROF\n", b"==\n"),
        ("simpoint", b"T:1:1\n", b"#\n"),
    ],
)
def test_what_a_file_unpacks_to_has_a_limit(
    tmp_path: Path, form: str, head: bytes, body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIVEN a compressed file that unpacks to far more than its size WHEN the limit is lower THEN
    it is refused, naming the variable that raises it; WHEN that is set THEN it is read."""
    path = tmp_path / ("app.bb.gz" if form == "simpoint" else "x.gz")
    path.write_bytes(gzip.compress(head + body * (2_000_000 // len(body))))
    monkeypatch.setattr(inputs, "FLOOR", 1 << 20)
    refused(path, r"unpacks to more than 1 MiB, .* set XPUPROF_INPUT_LIMIT", form)
    monkeypatch.setenv("XPUPROF_INPUT_LIMIT", "1G")
    source = Source(path)
    assert source.limit == 1 << 30
    with source.binary() as file:
        assert len(file.read()) >= 1_900_000


def test_an_invalid_limit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XPUPROF_INPUT_LIMIT", "plenty")
    with pytest.raises(UsageError, match="XPUPROF_INPUT_LIMIT=plenty is not a size"):
        Source(tmp_path)


def test_what_is_held_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN more names, events, cells or values than the limit THEN each reader stops."""
    monkeypatch.setattr(inputs, "FLOOR", 1 << 14)
    monkeypatch.setattr(inputs, "FACTOR", 1)
    names = "\n".join(f"k{i},1" for i in range(200))
    (tmp_path / "a.csv").write_text("kernel,time_s\n" + names + "\n")
    refused(tmp_path / "a.csv", "takes more than 0 MiB of memory", "csv")
    (tmp_path / "b.json").write_text(json.dumps([event("kernel", "k", 1, 1)] * 150))
    refused(tmp_path / "b.json", "takes more than", "kineto")
    (tmp_path / "c.bb").write_text("T" + ":1:1 " * 4000 + "\n")
    refused(tmp_path / "c.bb", "takes more than", "simpoint")


def test_a_line_without_end_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("kernel,time_s\n" + "a," * (inputs.LONGEST_LINE // 2 + 1))
    refused(path, "line 2 is longer than 4 M characters")
    path.write_text('kernel,time_s\n"' + "a\n" * (inputs.LONGEST_LINE // 2 + 1))
    refused(path, "not a CSV table: line [0-9]+ never ends|field larger than", "csv")


# ---- Nsight Systems ------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["NULL", "'text'", "9e999", "-9e999", "x'ff'", "1.5"])
@pytest.mark.parametrize(
    ("table", "column"),
    [
        ("CUPTI_ACTIVITY_KIND_KERNEL", "start"),
        ("CUPTI_ACTIVITY_KIND_KERNEL", "end"),
        ("CUPTI_ACTIVITY_KIND_KERNEL", "deviceId"),
        ("CUPTI_ACTIVITY_KIND_KERNEL", "demangledName"),
        ("CUPTI_ACTIVITY_KIND_KERNEL", "gridX"),
        ("CUPTI_ACTIVITY_KIND_KERNEL", "blockZ"),
        ("CUPTI_ACTIVITY_KIND_RUNTIME", "start"),
        ("CUPTI_ACTIVITY_KIND_RUNTIME", "globalTid"),
        ("ANALYSIS_DETAILS", "duration"),
    ],
)
def test_nsys_values_of_the_wrong_type(tmp_path: Path, table: str, column: str, value: str) -> None:
    path = nsight(tmp_path / "r.sqlite", KERNELS)
    change(path, f"UPDATE {table} SET {column} = {value}")
    refused(path, f"{column} in row 1 of {table} is not a valid integer; make it again with `nsys")


def change(path: Path, statements: str) -> None:
    connection = sqlite3.connect(path)
    connection.executescript(statements)
    connection.close()


def test_nsys_row_numbers_cost_no_memory(tmp_path: Path) -> None:
    """GIVEN a kernel in row 2^33 THEN its range is found without an array of that length."""
    path = nsight(tmp_path / "r.sqlite", KERNELS)
    change(
        path,
        "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET rowid = rowid + 8589934592;"
        f"INSERT INTO NVTX_EVENTS VALUES (250, 500, 59, 'step', {PID | 1}, NULL)",
    )
    with ImportWriter(tmp_path / "run") as writer:
        all_importers()["nsys"].load(Source(path), writer)
    assert writer.rows == 3


@pytest.mark.parametrize("table", ["StringIds", "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS"])
def test_nsys_views_without_end_are_refused(tmp_path: Path, table: str) -> None:
    path = nsight(tmp_path / "r.sqlite", KERNELS)
    columns = "id, i AS value" if table == "StringIds" else "start, i AS end"
    change(
        path,
        f"DROP TABLE {table}; CREATE VIEW {table} AS WITH RECURSIVE n(i) AS "
        f"(SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS {columns} FROM n",
    )
    refused(path, f"{table}")


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (b"demangledName INTEGER", b"demangled\xffame INTEGER", "not a readable|no column"),
        (b"CREATE TABLE ANALYSIS_DETAILS", b"CREATE TABLE ANALYSIS_DE\xffAILS", "not a readable"),
        # SQLite's own message then quotes bytes that are not UTF-8.
        (b"CREATE TABLE ANALYSIS_DETAILS", b"CREATE T\xffBLE ANALYSIS_DETAILS", "not a readable"),
    ],
)
def test_nsys_names_that_are_not_text(
    tmp_path: Path, old: bytes, new: bytes, sentence: str
) -> None:
    path = nsight(tmp_path / "r.sqlite", KERNELS)
    data = path.read_bytes()
    assert old in data
    path.write_bytes(data.replace(old, new))
    refused(path, sentence, "nsys")


def test_nsys_a_schema_of_bytes_is_refused(tmp_path: Path) -> None:
    """GIVEN a table whose CREATE statement is stored as a blob THEN it is no table of ours."""
    path = nsight(tmp_path / "r.sqlite", KERNELS)
    change(
        path,
        "PRAGMA writable_schema = ON;"
        "UPDATE sqlite_master SET sql = CAST(sql AS BLOB) WHERE name = 'ANALYSIS_DETAILS'",
    )
    with suppress(InputError):
        loads(path, "nsys")


def test_rocpd_a_bad_row_that_no_search_finds(tmp_path: Path) -> None:
    """GIVEN a launch without an end, whose row number is out of order THEN it is refused all the
    same."""
    path = rocpd(tmp_path / "r.db", separate=False)
    change(path, 'UPDATE rocpd_kernel_dispatch_00ab SET "end" = NULL WHERE id = 2')
    data = path.read_bytes()
    cell = b"\x16\x02\x0d\x00"  # bytes of the row, its number, bytes of its types
    assert data.count(cell) == 1
    path.write_bytes(data.replace(cell, b"\x16\x00\x0d\x00"))
    refused(path, "row 0 of rocpd_kernel_dispatch_00ab is out of place; make it again", "rocpd")


def test_nsys_joins_that_multiply_are_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIVEN 3,000 kernels and calls with one correlation id (9,000,000 pairs) THEN it is
    refused."""
    monkeypatch.setattr(database, "LEAST_WORK", 20_000_000)
    monkeypatch.setattr(database, "WORK", 1)
    path = nsight(tmp_path / "r.sqlite", [KERNELS[0]] * 3000)
    change(
        path,
        "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET correlationId = 1;"
        "UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET correlationId = 1",
    )
    refused(path, "its rows have too many cross-references")


# ---- Kineto --------------------------------------------------------------------------------------

LAUNCH = event("cuda_runtime", "cudaLaunchKernel", 15, 2, correlation=5)


@pytest.mark.parametrize(
    ("damaged", "key"),
    [
        ({**LAUNCH, "args": [1, 2]}, "args"),
        (event("kernel", "k", 1, 1, device=1 << 40), "device"),
        (event("kernel", "k", 1, 1, stream=10**400), "stream"),
        (event("kernel", "k", 1, 1, correlation=str(10**30)), "correlation"),
        (event("kernel", "k", 1, 1, grid=[1, "x", 1]), "grid"),
        (event("kernel", "k", 1, 1, grid=[1, [], 1]), "grid"),
        (event("kernel", "k", 1, 1, block=[1, 1 << 33, 1]), "block"),
        (event("kernel", "k", 10**400, 1), "ts"),
        (event("kernel", "k", float("nan"), 1), "ts"),
        (event("kernel", "k", 1, float("inf")), "dur"),
        ({**event("kernel", "k", 1, 1), "name": ["k"]}, "name"),
        ({"ph": "X", "cat": "kernel", "name": "k", "ts": 1}, "dur"),
        ({**LAUNCH, "pid": {}}, "pid or tid"),
    ],
)
def test_kineto_events_with_wrong_values(
    tmp_path: Path, damaged: dict[str, object], key: str
) -> None:
    path = tmp_path / "t.json"
    path.write_text(json.dumps([*EVENTS, damaged]))
    refused(path, f"event 7 .*has no valid '{key}'; record or copy it again")


@pytest.mark.parametrize("text", ["[" * 100_000, '[{"a":' * 50_000, "[" + "9" * 5000])
def test_kineto_nested_or_endless_values(tmp_path: Path, text: str) -> None:
    (tmp_path / "t.json").write_text(text)
    refused(tmp_path / "t.json", "event 1 is not JSON")


def test_half_a_surrogate_pair_in_a_name_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text('[{"ph": "X", "cat": "kernel", "name": "k\\ud800", "ts": 1, "dur": 1}]')
    import_(path, tmp_path / "out")
    assert xpuprof("info", tmp_path / "out", check=True).returncode == 0


# ---- tables and vectors --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("nvprof", NVPROF.replace("4,1,1,32", "4,x,1,32")),
        ("nvprof", NVPROF.replace("4,1,1,32", "1e300,1,1,32")),
        ("nvprof", NVPROF.replace("10.0,4", "-10.0,4")),
        ("ncu", RAW.replace('"5.5"', '"-5.5"')),
        ("ncu", RAW.replace('"1,000.25"', '"n/a"')),
        ("ncu", RAW.replace("(10, 1, 1)", "(99999999999, 1, 1)")),
        ("csv", "kernel,time_s,gridx\na,1,8589934592\n"),
        ("csv", "kernel,time_s,device\na,1,1e30\n"),
        ("csv", "kernel,time_s\na,-1\n"),
        ("csv", f"kernel,time_s,stream\na,1,{'9' * 400}0\nb,1,{'9' * 40}\n"),
    ],
)
def test_launches_out_of_range(tmp_path: Path, form: str, text: str) -> None:
    (tmp_path / "t.csv").write_text(text)
    refused(tmp_path / "t.csv", r"has a bad launch [12] \('.*'\): .*; export it again", form)


@pytest.mark.parametrize(
    ("form", "text", "sentence"),
    [
        ("ncu", '"ID","Kernel Name"\n"1"\n', "1 field in row 1 below a header of 2"),
        ("ncu", '"Kernel Name","Metric Name"\n"k","x"\n', "no column 'ID'"),
        (
            "ncu",
            '"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"\n'
            '"0","k","Registers","","4"\n"1","k","Duration","ms","1.5"\n"1","k","Registers","","4"\n',
            "neither gpu__time_duration.sum nor",
        ),
        ("nvprof", '"Start","Duration","Name"\nms\n', "1 field in row 1 below a header of 3"),
        ("csv", "kernel" + ",x" * 20_000 + "\n", "has 20001 columns in line 1"),
    ],
)
def test_invalid_tables_are_refused(tmp_path: Path, form: str, text: str, sentence: str) -> None:
    (tmp_path / "t.csv").write_text(text)
    refused(tmp_path / "t.csv", sentence, form)


def test_a_table_may_have_more_columns_than_a_process_descriptors(tmp_path: Path) -> None:
    names = [f"m{i}" for i in range(200)]
    row = ",".join(map(str, range(200)))
    table = tmp_path / "t.csv"
    table.write_text(f"kernel,time_s,{','.join(names)}\na,1,{row}\nb,2,{row}\n")
    line = xpuprof_line("import", table, "-o", tmp_path / "out")
    run(["sh", "-c", 'ulimit -n 64; exec "$@"', "sh", *line], check=True)
    slices = ImportedSlices(tmp_path / "out")
    assert [slices.column(name).tolist() for name in names] == [[i, i] for i in range(200)]


def test_a_second_column_of_a_name_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("kernel,kernel,gpu_time_s,range,x\na,7,1,8,2\n")
    import_(tmp_path / "t.csv", tmp_path / "out")
    slices = ImportedSlices(tmp_path / "out")
    assert slices.metrics == ["gpu_time", "x"]
    assert slices.table()["kernel"].tolist() == ["a"]


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("T.0.bb", "call: 1", "call: 99999999999"),
        ("T.0.bb", "T:1:100", "T:1:1e999"),
        ("T.0.bb", "T:1:100", "T:-1:100"),
        ("T.0.bb", "T:1:100", "T:" + "9" * 5000 + ":1"),
        ("thread.bbv", "T:1:4 :2:4", "T:1:nan"),
        ("timer.txt", "TSC 450", "TSC " + "9" * 30),
        ("T.0.bb", "SYS_exit call: 1\nT", "SYS_exit call:" + " " * 300_000 + "x\nT:x\nT"),
    ],
)
def test_vectors_with_numbers_out_of_range(tmp_path: Path, name: str, old: str, new: str) -> None:
    folder = reference(tmp_path / "reference")
    (folder / name).write_text((folder / name).read_text().replace(old, new))
    refused(folder, f"{name} is damaged: .*; copy it again")


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(
    lines=st.lists(
        st.lists(
            st.one_of(
                st.sampled_from(["kernel", "time", "Name", "Duration", "T", "ID", "", '"', "{"]),
                st.integers().map(str),
                st.floats().map(str),
                st.text(max_size=5),
            ),
            max_size=6,
        ),
        max_size=6,
    ),
    separator=st.sampled_from([",", ";", ":", " :"]),
    form=st.sampled_from(["", *all_importers()]),
)
def test_any_text_is_imported_or_refused(
    tmp_path_factory: pytest.TempPathFactory, lines: list[list[str]], separator: str, form: str
) -> None:
    path = tmp_path_factory.mktemp("any") / "source"
    path.write_text("\n".join(map(separator.join, lines)), encoding="utf-8", errors="replace")
    try:
        loads(path, form)
    except InputError as error:
        assert str(path) in str(error)


# ---- results -------------------------------------------------------------------------------------


def test_a_value_that_the_simulator_could_not_compute_is_left_out(
    selection: Selection, tmp_path: Path
) -> None:
    """Accel-Sim prints 0/0 as -nan: other regions' values do not replace it."""
    log = tmp_path / "log"
    log.write_text(
        ACCELSIM.format(first=1, name="a").replace("gpu_ipc =       4.0", "gpu_ipc = -nan")
    )
    found = read_results([log], selection)
    assert found[0]["gpu_sim_cycle"] == 1000
    assert all("gpu_ipc" not in metrics for metrics in found.values())


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[" * 100_000, "nested too deeply"),
        ('{"a":' * 100_000, "nested too deeply"),
        (f'[{{"region": 1, "x": {"9" * 400}}}]', "not a finite number"),
        (f'[{{"region": {"9" * 5000}, "x": 1}}]', "not valid JSON"),
        ('[{"region": {}, "x": 1}]', "not a whole number"),
        ('[{"region": 1, "x": []}]', "not a finite number"),
        (f"region,x\n{'9' * 5000},1\n", "not a whole number"),
        ("kernel_launch_uid = 1\n", "holds no result"),
        ("kernel_launch_uid = " + "9" * 5000 + "\n", "holds no result"),
    ],
)
def test_invalid_results_are_refused(
    selection: Selection, tmp_path: Path, text: str, sentence: str
) -> None:
    (tmp_path / "r").write_text(text)
    with pytest.raises(InputError, match=sentence):
        read_results([tmp_path / "r"], selection)


def test_results_from_a_device_are_refused_and_from_a_pipe_read(
    selection: Selection, tmp_path: Path
) -> None:
    selection.write(tmp_path / "s.json")
    estimate = ("estimate", tmp_path / "s.json", "--results")
    endless = xpuprof(*estimate, "/dev/zero")
    assert endless.returncode == 2 and b"/dev/zero is a folder or a device" in endless.stderr
    table = b"region,x\n1,2\n2,3\n3,4\n"
    piped = xpuprof(*estimate, "/dev/stdin", "--json", stdin=table)
    assert piped.returncode == 0 and b'"x"' in piped.stdout, piped.stderr


# ---- writing -------------------------------------------------------------------------------------


def test_a_full_disk_is_told_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIVEN a disk that fills up while slices are written THEN the error names the output, not the
    source, and no partial output remains."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    (tmp_path / "t.csv").write_text("kernel,time_s\na,1\n")
    monkeypatch.setattr(ImportWriter, "append", full)
    with pytest.raises(
        UsageError, match=r"cannot write .*out: No space left on device; free space"
    ):
        import_(tmp_path / "t.csv", tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


@pytest.mark.parametrize("form", ["simpoint", "macsim"])
def test_an_export_is_never_written_over_a_device(
    selection: Selection, tmp_path: Path, form: str
) -> None:
    selection.write(tmp_path / "s.json")
    out = Path("/dev/full")
    done = xpuprof("export", tmp_path / "s.json", "--format", form, "-o", out, "--force")
    if form == "macsim":
        assert done.returncode == 2 and b"/dev/full is a device or a pipe" in done.stderr
    assert out.is_char_device()
    for path in Path("/dev").glob("full.*"):
        path.unlink()


def test_a_limit_on_the_size_of_files_is_told_in_one_sentence(tmp_path: Path) -> None:
    """GIVEN `ulimit -f 1` WHEN a profile is imported THEN no traceback."""
    (tmp_path / "t.csv").write_text("kernel,time_s\n" + "a,1\n" * 5000)
    command = xpuprof_line("import", "t.csv", "-o", "out")
    done = run(["bash", "-c", 'ulimit -f 1; exec "$@"', "bash", *command], cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert b"Traceback" not in done.stderr and done.stderr.count(b"\n") == 1


# ---- the fuzzer ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_fuzzer_finds_nothing(tmp_path: Path) -> None:
    """GIVEN some hundred damaged files of every reader THEN each is read or refused."""
    fuzzer = ROOT / "tools" / "fuzz" / "importers.py"
    done = run([sys.executable, fuzzer, "--runs", "660", "--keep", tmp_path / "findings"])
    assert done.returncode == 0, done.stderr.decode()
    assert b"0 findings" in done.stdout
