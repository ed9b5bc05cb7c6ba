# SPDX-License-Identifier: Apache-2.0
"""The commands import and compare, on sources made here and on public recordings if present."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.support.paths import ROOT
from tests.support.run import xpuprof
from xpuprof.cli import cli
from xpuprof.cli.ends import sentence
from xpuprof.clustering.executors import DaskExecutor
from xpuprof.errors import UsageError, XpuprofError
from xpuprof.workflow.imports import import_one

DATA = ROOT.parent / "shared" / "data"
NSYS = sorted((DATA / "nsys").glob("*.sqlite"))
KINETO = sorted((DATA / "kineto").glob("*.json.gz"))
METRICS = sorted((DATA / "metrics").glob("*.csv.gz"))
KEYS = {
    "method",
    "error_mean",
    "error_max",
    "time_speedup",
    "samples",
    "interval_rel",
    "coverage",
    "selection_s",
}

needs_data = pytest.mark.skipif(not NSYS, reason=f"no public recordings in {DATA}")


def call(*arguments: str | Path) -> tuple[int, str, str]:
    """(exit code, stdout, stderr) of a command, in this process: starting one costs more than the
    work. Our errors appear as `main` prints them; anything else fails the test."""
    result = CliRunner().invoke(cli, [str(argument) for argument in arguments])
    if isinstance(result.exception, XpuprofError):
        return result.exception.exit_code, result.stdout, sentence(result.exception)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


def last_json(done: tuple[int, str, str]) -> dict[str, Any]:
    assert done[0] == 0, done
    value = json.loads(done[1].splitlines()[-1])
    assert isinstance(value, dict)
    return value


def csv(path: Path, rows: int = 300) -> Path:
    lines = ["kernel,duration_us,inst_executed,block_x"]
    lines += [
        f"k{i % 3},{10 + i % 3 * 5 + (i * 7919) % 11 / 10},{1000 + i % 3},64" for i in range(rows)
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_table_becomes_a_run_that_every_command_reads(tmp_path: Path) -> None:
    run = tmp_path / "run"
    made = last_json(call("import", csv(tmp_path / "t.csv"), "-o", run, "--json"))
    assert (made["format"], made["slices"]) == ("csv", 300)
    info = last_json(call("info", run, "--json"))
    assert (info["status"], info["slices"]) == ("complete", 300)
    done = call("select", run, "--method", "stem-root", "--seed", "2", "--json")
    assert done[0] == 0, done
    assert json.loads((run / "selection.json").read_text())["method"] == "stem-root"


def test_compare_lists_every_method_or_its_reason(tmp_path: Path) -> None:
    run = tmp_path / "run"
    call("import", csv(tmp_path / "t.csv"), "-o", run)
    picture = tmp_path / "methods.svg"
    result = last_json(call("compare", run, "--repeats", "3", "--plot", picture, "--json"))
    assert set(result) == {"run", "metric", "slices", "timed", "methods", "notes"}
    assert (result["metric"], result["slices"]) == ("gpu_time", 300)
    by_name = {entry["method"]: entry for entry in result["methods"]}
    assert set(by_name) >= {
        "xpu-point", "gpu-point", "pka", "sieve", "photon", "tbpoint", "stem-root", "allegro",
        "xpu-stem", "random", "first-n",
    }  # fmt: skip
    for entry in by_name.values():
        assert "reason" in entry or set(entry) >= KEYS
    assert "basic-block vectors" in by_name["photon"]["reason"]
    assert "#instructions" not in by_name["sieve"]
    assert by_name["stem-root"]["error_mean"] <= 0.05
    assert by_name["pka"]["reason"].startswith("pka needs counters")
    assert b"<svg" in picture.read_bytes()
    again = call("compare", run, "--plot", picture)
    assert again[0] == 2
    assert "--force" in again[2]


def test_another_metric_is_projected_with_the_same_selection(tmp_path: Path) -> None:
    run = tmp_path / "run"
    call("import", csv(tmp_path / "t.csv"), "-o", run)
    result = last_json(
        call("compare", run, "--methods", "stem-root", "--metric", "inst_executed", "--json")
    )
    assert result["metric"] == "inst_executed"
    assert result["methods"][0]["error_mean"] < 0.01
    wrong = call("compare", run, "--metric", "misses")
    assert wrong[0] == 2
    assert "no metric 'misses'; it has: gpu_time, inst_executed" in wrong[2]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("import", "@none.csv", "-o", "@x"), "does not exist"),
        (("compare", "@none"), "does not exist"),
        (("compare", "@run", "--methods", "best"), "no method 'best'"),
        (("import", "@t.csv", "-o", "@run"), "--force"),
        (("import", "@t.csv", "-o", "@x", "--format", "nsys"), "Nsight Systems export"),
        (("import", "@t.csv", "-o", "@x", "--format", "kineto"), "not a Chrome trace"),
        (("import", "@t.csv", "-o", "@x", "--format", "ncu"), "no column 'Kernel Name'"),
    ],
)
def test_bad_input_is_one_sentence(
    tmp_path: Path, arguments: tuple[str, ...], sentence: str
) -> None:
    """`@` is the test's folder."""
    call("import", csv(tmp_path / "t.csv", 5), "-o", tmp_path / "run")
    before = (tmp_path / "run" / "manifest.json").read_bytes()
    code, _, error = call(*(argument.replace("@", f"{tmp_path}/") for argument in arguments))
    assert code == 2
    assert sentence in error
    assert "\n" not in error.strip()
    assert (tmp_path / "run" / "manifest.json").read_bytes() == before
    assert not (tmp_path / "x").exists()


def test_exit_code_and_streams_of_the_command(tmp_path: Path) -> None:
    done = xpuprof("import", tmp_path / "none.csv", "-o", tmp_path / "x")
    assert done.returncode == 2
    assert done.stdout == b""
    assert done.stderr.startswith(b"xpuprof: ")
    assert b"Traceback" not in done.stderr


def test_a_failed_import_leaves_the_old_run_alone(tmp_path: Path) -> None:
    run = tmp_path / "run"
    call("import", csv(tmp_path / "t.csv"), "-o", run)
    (tmp_path / "bad.csv").write_text("kernel,time_s\nk,oops\n")
    done = call("import", tmp_path / "bad.csv", "-o", run, "--force")
    assert done[0] == 2
    assert last_json(call("info", run, "--json"))["slices"] == 300
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.csv", "run", "t.csv"]


@needs_data
@pytest.mark.data
@pytest.mark.parametrize("source", [*NSYS, *KINETO], ids=lambda p: p.name.split(".")[0])
def test_stem_root_stays_within_its_bound_on_public_recordings(
    source: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    assert call("import", source, "-o", run)[0] == 0
    result = last_json(
        call("compare", run, "--methods", "stem-root,xpu-stem,allegro", "--repeats", "5", "--json")
    )
    by_name = {entry["method"]: entry for entry in result["methods"]}
    # A bound of 5 % at 95 %, all of which the joint sizes use, is a mean error of 2 %.
    assert by_name["stem-root"]["error_mean"] < 0.04
    assert by_name["xpu-stem"]["error_mean"] < 0.05
    assert by_name["xpu-stem"]["time_speedup"] > by_name["stem-root"]["time_speedup"]
    assert by_name["allegro"]["error_mean"] < 0.05


@needs_data
@pytest.mark.data
def test_public_counters_serve_pka_sieve_and_tbpoint(tmp_path: Path) -> None:
    run = tmp_path / "run"
    made = last_json(call("import", METRICS[0], "-o", run, "--json"))
    assert made["format"] == "nvprof"
    result = last_json(
        call("compare", run, "--methods", "pka,sieve,tbpoint", "--repeats", "1", "--json")
    )
    assert all(entry["error_mean"] < 0.1 for entry in result["methods"])


def test_several_sources_become_a_run_each(tmp_path: Path) -> None:
    """Each is named by the distinguishing part of its path; a bad source is named and does not stop
    the others."""
    for rank in range(3):
        (tmp_path / f"rank{rank}").mkdir()
        csv(tmp_path / f"rank{rank}" / "t.csv", 100 + rank)
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "t.csv").write_text("a,b\n1,2\n")
    sources = [tmp_path / name / "t.csv" for name in ("rank0", "bad", "rank1", "rank2")]
    done = call("import", *sources, "-o", tmp_path / "runs", "--json")
    assert done[0] == 2 and "1 of 4 sources" in done[2]
    made = json.loads(done[1].splitlines()[-1])
    assert [run["slices"] for run in made["runs"]] == [100, 101, 102]
    assert [Path(run["run"]).name for run in made["runs"]] == [f"rank{r}-t" for r in range(3)]
    assert [failed["source"] for failed in made["failed"]] == [str(sources[1])]
    assert sorted(p.name for p in (tmp_path / "runs").iterdir()) == [f"rank{r}-t" for r in range(3)]
    twice = call("import", sources[0], sources[0], "-o", tmp_path / "x")
    assert twice[0] == 2 and "named twice" in twice[2]


def test_several_runs_are_compared_on_workers_as_here(tmp_path: Path) -> None:
    """One table of means and each run; on Dask workers the same, except for elapsed times."""
    pytest.importorskip("distributed", reason="needs Dask: pip install 'xpuprof[dask]'")
    sources = [csv(tmp_path / f"t{rank}.csv", 100 + 40 * rank) for rank in range(3)]
    call("import", *sources, "-o", tmp_path / "here")
    made = call("import", *sources, "-o", tmp_path / "there", "--workers", "2", "--json")
    assert made[0] == 0, made
    results = []
    for where, more in (("here", ()), ("there", ("--workers", "2"))):
        runs = [tmp_path / where / f"t{rank}" for rank in range(3)]
        arguments = ("--methods", "random,stem-root,sieve", "--repeats", "3", "--json", *more)
        result = last_json(call("compare", *runs, *arguments))
        for table in (*result["runs"], result["together"]):
            table.pop("run")
            for method in table["methods"]:
                method.pop("selection_s", None)
        results.append(result)
    assert results[0] == results[1]
    together, each = results[0]["together"], results[0]["runs"]
    assert together["slices"] == sum(run["slices"] for run in each) == 420
    for number, method in enumerate(together["methods"]):
        errors = [run["methods"][number]["error_mean"] for run in each]
        assert method["error_mean"] == pytest.approx(sum(errors) / 3)


def test_compare_of_imports_names_a_select_that_works(tmp_path: Path) -> None:
    """GIVEN several imports THEN the next step selects from one of them: together it is refused."""
    sources = [csv(tmp_path / f"t{rank}.csv", 100) for rank in range(2)]
    call("import", *sources, "-o", tmp_path / "runs")
    runs = [tmp_path / "runs" / f"t{rank}" for rank in range(2)]
    assert call("select", *runs, "-o", tmp_path / "s")[0] == 2
    shown = call("compare", *runs, "--methods", "random", "--repeats", "2")[2]
    line = shown.partition("next: xpuprof ")[2].partition(" (")[0].replace("NAME", "random")
    assert call(*line.split())[0] == 0


def test_a_rate_is_not_projected_as_a_sum(tmp_path: Path) -> None:
    """GIVEN a metric that does not add up over slices THEN compare refuses it by name and lists
    those that do; it is never the metric by default."""
    source = tmp_path / "t.csv"
    source.write_text("kernel,executed_ipc,misses\n" + "a,1.5,10\nb,0.5,20\n" * 20)
    assert call("import", source, "-o", tmp_path / "run")[0] == 0
    arguments = ("compare", tmp_path / "run", "--methods", "random", "--repeats", "2")
    refused = call(*arguments, "--metric", "executed_ipc")
    assert refused[0] == 2 and "is a rate" in refused[2] and "--metric: misses" in refused[2]
    assert "projected metric: misses" in call(*arguments)[1]


def killed_once(marker: str, *arguments: Any) -> Any:
    """import_one on a worker that dies, the first time, after creating the run directory but before
    reporting it."""
    made = import_one(*arguments)
    if not Path(marker).exists():
        Path(marker).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return made


def test_an_import_whose_worker_is_killed_is_done_once(tmp_path: Path) -> None:
    """The next worker recognises its own command's work and no other."""
    pytest.importorskip("distributed", reason="needs Dask: pip install 'xpuprof[dask]'")
    sources = [csv(tmp_path / f"t{rank}.csv", 100 + rank) for rank in range(3)]
    outputs = [tmp_path / "runs" / f"{rank}" for rank in range(3)]
    dead = str(tmp_path / "died")
    with DaskExecutor(2) as workers:
        items = [[dead] * 3, sources, outputs, [None] * 3, [()] * 3, [False] * 3, ["a1"] * 3]
        done = list(workers.results(workers.map(killed_once, *items)))
    assert Path(dead).exists()
    assert [each.slices for each in done] == [100, 101, 102]
    assert sorted(p.name for p in (tmp_path / "runs").iterdir()) == ["0", "1", "2"]
    with pytest.raises(UsageError, match="exists; name another path"):
        import_one(sources[0], outputs[0], None, (), False, "b2")
