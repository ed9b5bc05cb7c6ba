# SPDX-License-Identifier: Apache-2.0
"""Timeline and databases of a made-up run directory."""

from __future__ import annotations

import errno
import gc
import json
import os
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner

from tests.support import traces
from tests.support.run import run as run_program
from tests.support.run import xpuprof_line
from tests.support.runs_made_up import select_by_kernel
from xpuprof.cli.export import command
from xpuprof.errors import InputError, TraceError, UsageError
from xpuprof.formats.exporters import parquet
from xpuprof.formats.exporters.chrome_trace import events
from xpuprof.formats.exporters.source import ExportSource
from xpuprof.formats.output import write_files
from xpuprof.trace.run import Run
from xpuprof.trace.run_writer import create_run
from xpuprof.trace.slice_times import main_process, slice_times
from xpuprof.validation.timed import open_timed


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A profile, two timer runs and a selection."""
    writer = create_run(tmp_path / "run", argv=["./app"])
    traces.add_execution(writer, "profile", "profile", traces.events(), traces.cpu())
    for i in range(2):
        traces.add_execution(writer, f"time-{i}", "time", traces.events(), None)
    writer.finish("complete")
    select_by_kernel(open_timed(tmp_path / "run")).write(tmp_path / "run/selection.json")
    return tmp_path / "run"


def test_timed_run_is_opened_for_transfer(run: Path) -> None:
    timed = open_timed(run)
    assert timed.times.shape == (2, 4)
    execution = Run.open(run).times[0]
    hz = execution.record.tsc_hz
    assert timed.mean.sum() == pytest.approx((traces.END - traces.START) / hz)


def test_a_run_without_times_is_named(tmp_path: Path) -> None:
    traces.write_run(tmp_path / "run", traces.events(), None)
    with pytest.raises(TraceError, match="holds no timer run; make one with: xpuprof time"):
        open_timed(tmp_path / "run")


def export(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(command, [str(a) for a in arguments], standalone_mode=True)
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout


def test_chrome_trace(run: Path, tmp_path: Path) -> None:
    export(run, "--format", "chrome", "-o", tmp_path / "t.json")
    document = json.loads((tmp_path / "t.json").read_text())
    spans = [e for e in document["traceEvents"] if e["ph"] == "X"]
    tracks: dict[int, list[dict]] = {}
    for event in spans:
        assert event["dur"] >= 0
        assert {"name", "cat", "pid", "tid", "ts"} <= event.keys()
        tracks.setdefault(event["tid"], []).append(event)
    # Slices and representatives do not overlap; Perfetto would nest them.
    named = {e["tid"]: e["args"]["name"] for e in document["traceEvents"]
             if e["name"] == "thread_name"}  # fmt: skip
    assert sorted(named.values()) == ["launch calls", "queue 7", "representatives", "slices"]
    for tid in (t for t, n in named.items() if n != "launch calls"):
        for a, b in zip(tracks[tid], tracks[tid][1:], strict=False):
            assert a["ts"] + a["dur"] <= b["ts"] + 0.002
    slices = next(v for t, v in tracks.items() if named[t] == "slices")
    execution = Run.open(run).times[0]
    times = slice_times(execution, main_process(execution))
    assert [e["dur"] for e in slices] == pytest.approx(times * 1e6, abs=0.002)
    queue = next(v for t, v in tracks.items() if named[t] == "queue 7")
    hz = execution.record.tsc_hz
    assert [e["dur"] for e in queue] == pytest.approx([100 / hz * 1e6] * 3, abs=0.001)
    assert [e["name"] for e in queue] == ["a", "b", "a"]
    assert sum(e["ph"] == "i" for e in document["traceEvents"]) == 3


def test_chrome_trace_without_a_selection(run: Path) -> None:
    (run / "selection.json").unlink()
    found = list(events(ExportSource(run)))
    assert not any(e.get("cat") == "representative" for e in found)
    assert sum(e.get("cat") == "slice" for e in found) == 4


def check_tables(tables: dict[str, pd.DataFrame]) -> None:
    slices, vectors = tables["slices"], tables["cpu_vectors"]
    assert len(slices) == 12
    profile = slices[slices["execution"] == "profile"]
    blocks = tables["cpu_blocks"].set_index("block")["instructions"]
    total = (vectors["count"] * vectors["block"].map(blocks)).groupby(vectors["slice"]).sum()
    assert total.tolist() == profile["cpu_instructions"].tolist()
    runs = tables["gpu_grid_runs"].merge(tables["gpu_vectors"], on="vector")
    per_block = tables["gpu_blocks"].set_index("block")["instructions"]
    runs["n"] = runs["warps"] * runs["count"] * runs["block"].map(per_block)
    per_grid = runs.groupby("grid")["n"].sum()
    launched = tables["gpu_launch_grids"]["grid"].map(per_grid)
    assert launched.tolist() == profile["gpu_instructions"].tolist()[:-1]
    assert len(tables["representatives"]) == 3
    assert tables["clusters"]["cluster"].tolist() == [1, 2, 1, 0]
    assert tables["cpu_blocks"]["offset"].tolist() == [f"{n:016x}" for n in (16, 32, 64)]


def test_sqlite(run: Path, tmp_path: Path) -> None:
    export(run, "--format", "sqlite", "-o", tmp_path / "t.db")
    with sqlite3.connect(tmp_path / "t.db") as database:
        names = [row[0] for row in database.execute("select name from sqlite_master")]
        check_tables({n: pd.read_sql(f"select * from {n}", database) for n in names})
        (total,) = database.execute(
            "select sum(time_s) from slices where execution = 'time-1'"
        ).fetchone()
    execution = Run.open(run).times[1]
    assert total == pytest.approx(slice_times(execution, main_process(execution)).sum())
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run", "t.db"]


def test_parquet(run: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    export(run, "--format", "parquet", "-o", tmp_path / "t")
    check_tables({p.stem: pd.read_parquet(p) for p in (tmp_path / "t").iterdir()})
    with pytest.raises(UsageError, match="force=True"):
        export(run, "--format", "parquet", "-o", tmp_path / "t")
    export(run, "--format", "parquet", "-o", tmp_path / "t", "--force")


def test_a_database_that_cannot_be_written(run: Path, tmp_path: Path) -> None:
    """GIVEN a limit of 1 KB on files WHEN exporting THEN one sentence says so, and neither the file
    nor a journal remains."""
    out = tmp_path / "out"
    out.mkdir()
    command = xpuprof_line("export", run, "--format", "sqlite", "-o", out / "x.db")
    done = run_program(["bash", "-c", 'ulimit -f 1; exec "$@"', "bash", *command])
    said = done.stderr.decode()
    assert done.returncode == 2 and said.count("\n") == 1, said
    assert said.startswith(f"xpuprof: error: cannot write {out / 'x.db'}: ")
    assert "Execution failed" not in said and said.endswith("; free space, or name another path\n")
    assert list(out.iterdir()) == []


def test_parquet_on_a_full_disk(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN a disk that is full when the tables are closed THEN one error says so: no writer tries
    again when Python forgets it, and prints that it failed."""
    pq = pytest.importorskip("pyarrow.parquet", reason="Parquet needs pyarrow")

    class Full(pq.ParquetWriter):  # type: ignore[misc, name-defined]
        def close(self) -> None:
            if self.is_open:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    printed: list[object] = []
    monkeypatch.setattr(pq, "ParquetWriter", Full)
    monkeypatch.setattr(sys, "unraisablehook", printed.append)
    with pytest.raises(UsageError, match="No space left on device; free space"):
        parquet.write(Run.open(run), None, tmp_path / "out")
    gc.collect()
    assert printed == [] and not (tmp_path / "out").exists()


@pytest.mark.parametrize("format", ["sqlite", "chrome", "parquet"])
def test_a_failed_export_leaves_no_folder(run: Path, tmp_path: Path, format: str) -> None:
    """GIVEN a run whose stream is cut WHEN it is exported into folders that do not exist THEN none
    of them remains; one that was there before does."""
    if format == "parquet":
        pytest.importorskip("pyarrow")
    (tmp_path / "there").mkdir()
    for stream in run.glob("profile/*/*.xpt"):
        stream.write_bytes(b"not a stream" * 100)
    for target in ("new/a/b/out", "there/out"):
        with pytest.raises(TraceError):
            export(run, "--format", format, "-o", tmp_path / target)
    assert not (tmp_path / "new").exists() and list((tmp_path / "there").iterdir()) == []


def test_several_files_are_written_together_or_not_at_all(tmp_path: Path) -> None:
    """GIVEN two files of which the second cannot be written THEN the first does not appear, and no
    folder that was made for them remains."""
    texts = {tmp_path / "new" / "a": "text", tmp_path / "new" / ("b" * 300): "text"}
    with pytest.raises(UsageError, match="File name too long"):
        write_files(texts, force=False)
    assert list(tmp_path.iterdir()) == []


def test_a_script_has_the_bytes_of_a_name(tmp_path: Path) -> None:
    """GIVEN a program whose name is not UTF-8 THEN a script that runs it has the same bytes."""
    write_files({tmp_path / "run.sh": os.fsdecode(b"./bad\xff")}, force=False)
    assert (tmp_path / "run.sh").read_bytes() == b"./bad\xff"


def many_kernels(number: int) -> list[traces.Record]:
    """A launch of each of so many kernels."""
    made = [traces.program(0), *(traces.kernel(i, 0, f"k{i}", [5]) for i in range(number))]
    made += [traces.launch(i, i, traces.START + 100 * (i + 1)) for i in range(number)]
    return [*made, traces.end(number, number)]


def test_parquet_of_processes_with_few_and_many_kernels(tmp_path: Path) -> None:
    """GIVEN a process with two kernels and one with 200 THEN one table holds both."""
    pytest.importorskip("pyarrow")
    writer = create_run(tmp_path / "run", argv=["./app"])
    record = {"name": "profile", "role": "profile", "cpu_engine": "none", "gpu_engine": "made-up"}
    folder = writer.begin_execution({**record, "timer": ""})
    for number, kernels in ((7, 2), (8, 200)):
        traces.write_process(folder / f"h-{number}", many_kernels(kernels), None)
    writer.end_execution("profile", traces.RESULT)
    writer.finish("complete")
    export(tmp_path / "run", "--format", "parquet", "-o", tmp_path / "t")
    names = pd.read_parquet(tmp_path / "t/launches.parquet")["kernel"].tolist()
    assert names == ["k0", "k1", *(f"k{i}" for i in range(200))]


def test_command(run: Path, tmp_path: Path) -> None:
    _, answer = export(run, "--format", "macsim", "-o", tmp_path / "m", "--json")
    assert json.loads(answer)["files"] == [f"{tmp_path}/m", f"{tmp_path}/m.weights.csv"]
    export(run / "selection.json", "--format", "nvbit", "-o", tmp_path / "n")
    with pytest.raises(UsageError, match="only a selection file; this format needs the run"):
        export(run / "selection.json", "--format", "sqlite", "-o", tmp_path / "x")
    with pytest.raises(UsageError, match="does not exist"):
        export(tmp_path / "none", "--format", "sqlite", "-o", tmp_path / "x")
    with pytest.raises(UsageError, match="--image-base x"):
        export(run, "--format", "looppoint", "-o", tmp_path / "x", "--image-base", "x")
    with pytest.raises(InputError, match="make a selection with"):
        export(run, "--format", "macsim", "-o", tmp_path / "x", "--selection", tmp_path / "none")
    assert not (tmp_path / "x").exists()


def test_executions_have_numbers(run: Path, tmp_path: Path) -> None:
    """GIVEN executions THEN their times and codes are numbers, unknown ones NULL."""
    export(run, "--format", "sqlite", "-o", tmp_path / "t.db")
    query = "SELECT exit_code, signal, tsc_end - tsc_start, wall_s, typeof(tsc_hz) FROM executions"
    with closing(sqlite3.connect(tmp_path / "t.db")) as database:
        rows = database.execute(query).fetchall()
    assert rows == [(0, None, traces.END - traces.START, 1.0, "real")] * 3
