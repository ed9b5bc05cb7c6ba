# SPDX-License-Identifier: Apache-2.0
"""Output of commands for runs that are short, killed, narrowed, imported or different."""

from __future__ import annotations

import json
import re
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

import xpuprof
from tests.support import traces
from tests.support.runs_made_up import made_up_run, select_by_kernel
from xpuprof.cli import cli
from xpuprof.engines.cuda_driver import _fault
from xpuprof.errors import InputError, TraceError, UsageError
from xpuprof.estimation.estimate import Estimate
from xpuprof.estimation.typical_times import typical_times
from xpuprof.methods.registry import names
from xpuprof.report.compare import as_text as compare_text
from xpuprof.report.compare import draw
from xpuprof.report.projected import interval
from xpuprof.report.self_contained import Head
from xpuprof.report.self_contained import write as write_page
from xpuprof.report.text import number_of, table, times
from xpuprof.report.validation import regions_text
from xpuprof.report.warnings import warnings
from xpuprof.selection.identity import Program
from xpuprof.selection.selection import Selection
from xpuprof.signals import signal_name
from xpuprof.trace.kinds import Key
from xpuprof.trace.manifest import REDACTED
from xpuprof.trace.processes import job_of
from xpuprof.trace.run import Run
from xpuprof.trace.run_writer import create_run
from xpuprof.validation.regions import RegionTime
from xpuprof.validation.timed import arranged
from xpuprof.workflow.compare import Compared, Row, compare
from xpuprof.workflow.subjects import open_subject, profiled_job

REMEDIES = (
    "add", "check", "copy", "export", "give", "name", "pass", "profile", "quote", "record", "take",
    "write",
)  # fmt: skip
"""What a sentence about an import may ask for."""


def call(*arguments: object) -> Result:
    """A command that succeeds."""
    result = CliRunner().invoke(cli, list(map(str, arguments)), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


def timed_run(path: Path, repeats: int = 1) -> Path:
    """The made-up program, profiled and timed."""
    writer = create_run(path, argv=["./app", "a b"])
    traces.add_execution(writer, "profile", "profile", traces.events(), traces.cpu())
    for i in range(repeats):
        traces.add_execution(writer, f"time-{i}", "time", traces.events(), None)
    writer.finish("complete", "")
    return path


def disturbed_run(path: Path) -> Path:
    """The same, timed three times; the last run was disturbed before its last kernel."""
    writer = create_run(path, argv=["./app"])
    traces.add_execution(writer, "profile", "profile", traces.events(), traces.cpu())
    for i, late in enumerate((0, 10, 5_000)):
        traces.add_execution(writer, f"time-{i}", "time", traces.events(late=late), None)
    writer.finish("complete", "")
    return path


def imported(path: Path, header: str, *rows: str) -> Path:
    """A table, imported."""
    table = path.with_suffix(".csv")
    table.write_text("\n".join([header, *rows]) + "\n")
    more = ["--map", "time=Duration:us"] if "Duration" in header else []
    call("import", table, "-o", path, "--map", "kernel=Name", *more)
    return path


# ---- wording -------------------------------------------------------------------------------------


def test_singular_and_plural() -> None:
    assert [number_of(n, "slice") for n in (0, 1, 2000)] == ["0 slices", "1 slice", "2,000 slices"]
    assert number_of(2, "process") == "2 processes"
    assert [times(n) for n in (1, 3)] == ["once", "3 times"]


def test_control_characters_in_kernel_names_are_escaped(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text('kernel,time_s\n"two\nlines",2\n\x1b[31mred,1\nblürp核,1\n', encoding="utf-8")
    xpuprof.import_(path, tmp_path / "run")
    text = str(call("info", tmp_path / "run").stdout)
    assert r"two\nlines       1 " in text and r"\x1b[31mred  " in text and "blürp核" in text


def test_a_kernel_name_cannot_extend_a_pages_script(tmp_path: Path) -> None:
    write_page(tmp_path / "p.html", "page", Head("t", "s"), {"kernel": "<!--<script>"})
    assert "<!--<script>" not in (tmp_path / "p.html").read_text(encoding="utf-8")


def test_every_signal_has_a_name() -> None:
    """Also real-time signals, of which Python's list has only the first and the last."""
    assert signal_name(9) == "SIGKILL"
    assert signal_name(signal.SIGRTMIN + 3) == "SIGRTMIN+3"
    assert _fault(-(signal.SIGRTMIN + 3), b"") == "ended by SIGRTMIN+3"


@pytest.mark.parametrize(
    ("repeats", "sentence"),
    [(1, " one native run\n"), (2, " mean of 2 native runs ("), (3, " median of 3 native runs (")],
)
def test_how_many_runs_were_measured(tmp_path: Path, repeats: int, sentence: str) -> None:
    run = timed_run(tmp_path / "run", repeats)
    call("select", run)
    assert sentence in call("report", run).stdout


# ---- select, report, compare ---------------------------------------------------------------------


def test_select_tells_measured_time_and_error(tmp_path: Path) -> None:
    """GIVEN a timed run THEN projected and measured time are shown, and the hint has the program's
    command."""
    run = timed_run(tmp_path / "run")
    done = call("select", run)
    for word in ("measured  ", "projected  ", "sampling error  "):
        assert word in done.stdout
    assert "validate" in done.stderr and "-- ./app 'a b'" in done.stderr
    result = json.loads(call("select", run, "--force", "--json").stdout)
    hz = Run.open(run).times[0].record.tsc_hz
    assert result["measured_s"] == pytest.approx((traces.END - traces.START) / hz)
    assert result["sampling_error"] == pytest.approx(
        abs(1 - result["projected_s"] / result["measured_s"])
    )


def test_select_tells_one_more_run_and_what_a_target_cannot_promise(tmp_path: Path) -> None:
    """GIVEN timer runs THEN from two on there is an interval for one more; with a target error, a
    note says what one run says about others."""
    done = call("select", timed_run(tmp_path / "one"), "--target-error", "0.02")
    assert "one more run" not in done.stdout
    assert "holds in the only timer run" in done.stderr
    two = timed_run(tmp_path / "two", 2)
    done = call("select", two, "--target-error", "0.02")
    assert "one more run    95 % interval" in done.stdout and "kept in" not in done.stderr
    result = json.loads(call("select", two, "--target-error", "0.02", "--force", "--json").stdout)
    low, high = result["next_run_interval_s"]
    assert low <= result["measured_s"] <= high and result["one_run_error"] >= 0.0


def test_several_runs_are_selected_by_their_times(tmp_path: Path) -> None:
    """GIVEN two timed runs THEN a target error and stability cover both; an untimed run is
    named."""
    runs = [timed_run(tmp_path / "a", 2), timed_run(tmp_path / "b", 3)]
    asked = ("--target-error", "0.02", "--stability", "--json", "-o")
    result = json.loads(call("select", *runs, *asked, tmp_path / "J").stdout)
    each = [job_of(Run.open(run).times[0]).times().sum() for run in runs]
    assert result["measured_s"] == pytest.approx(sum(each))
    assert set(result["stability"]) == {"seeds", "bootstrap"}
    bare = timed_run(tmp_path / "bare", 0)
    with pytest.raises(UsageError, match="bare holds no timer run of its slices"):
        call("select", runs[0], bare, *asked, tmp_path / "K")
    assert not (tmp_path / "K").exists()


def test_several_runs_have_no_command_in_common(tmp_path: Path) -> None:
    """GIVEN a selection over the runs of two ranks THEN no rank's command is taken for that of the
    job, or of the other rank; a selection of one run has its command."""
    runs = [timed_run(tmp_path / "a", 2), timed_run(tmp_path / "b", 2)]
    call("select", *runs, "-o", tmp_path / "J")
    assert Selection.read(tmp_path / "J").identity.arguments == ()
    with pytest.raises(UsageError, match="the selection does not name its own; put the program"):
        call("validate", tmp_path / "J")
    call("export", tmp_path / "J/selection.json", "--format", "ncu", "-o", tmp_path / "ncu")
    scripts = list((tmp_path / "ncu").rglob("run.sh"))
    assert scripts and all("usage: sh $0 ./app args" in path.read_text() for path in scripts)
    call("select", runs[0])
    assert Selection.read(runs[0]).identity.arguments


def test_methods_are_listed_in_the_help() -> None:
    for command in ("select", "run"):
        shown = " ".join(call(command, "--help").stdout.split())
        listed = f"How slices are chosen: {', '.join(names())}"
        assert "".join(listed.split()) in "".join(shown.split())  # lines may break at hyphens


def test_profile_tells_what_valgrind_hides() -> None:
    """The help says so where it says that the program's output is its own."""
    shown = " ".join(call("profile", "--help").stdout.split())
    assert "has no AVX2, FMA and AVX-512" in shown
    assert "the last digits of floating-point results" in shown


def test_profile_has_no_seed() -> None:
    """A profile draws no random numbers."""
    assert "--seed" not in call("profile", "--help").stdout


def test_report_of_an_import(tmp_path: Path) -> None:
    """GIVEN an imported run THEN its selection is shown with its projection, in its own metric;
    pictures are refused, naming the command that draws them."""
    run = imported(tmp_path / "run", "Name,Duration", "a,10", "b,20", "a,11")
    call("select", run, "--method", "stem-root")
    assert "41.0 us   (gpu_time)" in call("report", run).stdout
    result = json.loads(call("report", run, "--json").stdout)
    assert result["metric"] == "gpu_time"
    assert result["measured_s"] == pytest.approx(41e-6)
    with pytest.raises(UsageError, match=r"xpuprof report .*run -o .*run.html"):
        call("report", run, "-o", tmp_path / "run.png")


@pytest.mark.parametrize("method", ["xpu-point", "first-n", "stem-root", "random"])
def test_every_command_has_the_same_times(tmp_path: Path, method: str) -> None:
    """GIVEN timer runs, one of them disturbed, THEN select, report and compare state the same error
    for a seed, based on the slices' typical times."""
    run = disturbed_run(tmp_path / "run")
    chosen = json.loads(call("select", run, "--method", method, "--json").stdout)
    shown = json.loads(call("report", run, "--json").stdout)
    asked = ("--methods", method, "--repeats", 1, "--json")
    compared = json.loads(call("compare", run, *asked).stdout)["methods"][0]
    assert shown["sampling_error"] == pytest.approx(chosen["sampling_error"], abs=1e-12)
    assert compared["error_mean"] == pytest.approx(chosen["sampling_error"], abs=1e-12)
    times = np.stack([job_of(execution).times() for execution in Run.open(run).times])
    assert np.ptp(times, axis=0).max() > 2 * np.median(times[:, 1])  # the disturbance is there
    opened = open_subject(run).profile.times
    assert opened is not None and opened.tolist() == typical_times(times).tolist()


@pytest.mark.parametrize("method", ["stem-root", "allegro", "xpu-stem", "random"])
def test_every_command_states_the_same_interval(tmp_path: Path, method: str) -> None:
    """GIVEN random draws from slices with unequal times THEN select, report, transfer and compare
    state the same interval for the same draw."""
    rows = [f"k{i % 3},{5 + (i * i) % 17 + 60 * (i % 11 == 0)}" for i in range(400)]
    run = imported(tmp_path / "run", "Name,Duration", *rows)
    chosen = json.loads(call("select", run, "--method", method, "--seed", 3, "--json").stdout)
    low, high = chosen["interval_s"]
    assert low < chosen["projected_s"] < high
    shown = json.loads(call("report", run, "--json").stdout)
    assert shown["interval_s"] == chosen["interval_s"]
    moved = call("transfer", run / "selection.json", run, "--json").stdout
    assert json.loads(moved)["runs"][0]["interval_s"] == pytest.approx([low, high], rel=1e-12)
    asked = ("--methods", method, "--repeats", 1, "--seed", 3, "--json")
    compared = json.loads(call("compare", run, *asked).stdout)["methods"][0]
    assert [compared["low_rel"], compared["high_rel"]] == pytest.approx(
        [end / chosen["projected_s"] - 1.0 for end in (low, high)], rel=1e-12
    )


@pytest.mark.parametrize("method", ["first-n", "sieve", "photon", "tbpoint"])
def test_methods_without_a_theory_have_no_interval(tmp_path: Path, method: str) -> None:
    """GIVEN a method without an interval THEN select, report and compare state none, nor one for
    the next run."""
    run = disturbed_run(tmp_path / "run")
    told = call("select", run, "--method", method).stdout
    assert "no interval: " in told and "one more run" not in told and "95 %" not in told
    chosen = json.loads(call("report", run, "--json").stdout)
    assert chosen["interval_s"] == [None, None] and chosen["confidence"] is None
    compared = call("compare", run, "--methods", method, "--repeats", 1, "--json").stdout
    assert json.loads(compared)["methods"][0]["interval_rel"] is None


def test_stability_counts_clusters_as_the_selection_does(tmp_path: Path) -> None:
    """GIVEN slices in clear clusters THEN both count those of the first and the last slice."""
    run = timed_run(tmp_path / "run")
    chosen = json.loads(call("select", run, "--stability", "--json").stdout)
    assert chosen["k"] >= 3 and set(chosen["stability"]["seeds"]["k"]) == {chosen["k"]}


def test_compare_without_times_says_so(tmp_path: Path) -> None:
    """GIVEN an untimed profile THEN a sentence above the table names the projected metric; a timed
    one has no such sentence."""
    bare = call("compare", timed_run(tmp_path / "bare", 0), "--methods", "random,sieve").stdout
    assert "no time was measured: errors and speedups refer to gpu_instructions" in bare
    assert bare.index("no time was measured") < bare.index("  speedup  samples")
    timed = call("compare", timed_run(tmp_path / "timed"), "--methods", "random").stdout
    assert "no time was measured" not in timed and "time speedup" in timed


def test_compare_shows_no_speedup_of_samples_without_time(tmp_path: Path) -> None:
    """GIVEN a first slice that takes no time THEN the method that takes it has an empty cell."""
    run = imported(tmp_path / "run", "Name,Duration", "a,0", "b,3", "c,4", "d,5")
    found = call("compare", run, "--methods", "first-n,random", "--plot", tmp_path / "p.svg")
    cells = next(line for line in found.stdout.splitlines() if line.startswith("first-n")).split()
    assert cells[-4:-2] == ["1", "none"] and not any("inf" in cell for cell in cells)


def test_compare_takes_times_from_another_folder(tmp_path: Path) -> None:
    """GIVEN a profile and a folder of timer runs THEN --times compares errors in time, and the next
    step takes the same times; without them the methods that need some share a line. It is for one
    run, as the help says."""
    profile = timed_run(tmp_path / "profile", 0)
    writer = create_run(tmp_path / "times", argv=["./app", "a b"])
    traces.add_execution(writer, "time-0", "time", traces.events(), None)
    writer.finish("complete", "")
    bare = call("compare", profile, "--methods", "random,stem-root,allegro").stdout
    assert "  stem-root, allegro need slice times: record them with `xpuprof time -o TIMES`" in bare
    timed = call("compare", profile, "--times", tmp_path / "times", "--methods", "random,stem-root")
    assert "left out" not in timed.stdout and "projected metric: time\n" in timed.stdout
    assert f"--times {tmp_path / 'times'} --method NAME" in timed.stderr
    with pytest.raises(UsageError, match="--times is for one run"):
        compare([profile, tmp_path / "times"], timed=[tmp_path / "times"])
    for command in ("compare", "report"):
        shown = " ".join(call(command, "--help").stdout.split())
        assert "Folder of `xpuprof time`, if not the only RUN; one per rank." in shown


def test_compare_states_no_interval_below_zero(tmp_path: Path) -> None:
    """GIVEN few samples of widely spread times THEN both ends of the interval are shown, the lower
    one is not negative, and no zero has a sign."""
    run = imported(tmp_path / "run", "Name,Duration", *("k,1" for _ in range(299)), "k,90000")
    errors = {"error_mean": 0.1, "error_max": 0.2, "time_speedup": 2.0, "samples": 3.0}
    errors |= {"coverage": 1.0, "selection_s": 0.1}
    wide = Row("random", interval_rel=9.66, low_rel=-0.9, high_rel=18.4, **errors)
    exact = Row("allegro", interval_rel=-1e-16, low_rel=1e-16, high_rel=-1e-16, **errors)
    told = compare_text(Compared("run", "time", 300, [wide, exact]))
    assert "-90.00 % +1840.00 %" in told and " ±0.00 %" in told
    for seed in range(5):
        asked = ("--methods", "random,allegro,xpu-stem", "--repeats", 1, "--json", "--seed", seed)
        for found in json.loads(call("compare", run, *asked).stdout)["methods"]:
            assert -1.0 < found["low_rel"] <= 0.0 <= found["high_rel"]


def test_a_kernel_by_hand_has_no_multiplier() -> None:
    """GIVEN regions without cluster and multiplier THEN no column is empty."""
    region = RegionTime(3, "a", 2, None, 1e-3, 0, 0.0)
    headers = regions_text([region]).splitlines()[0]
    assert headers.split() == ["slice", "ends", "with", "kernel", "call", "time"]
    told = regions_text([region, replace(region, multiplier=2.0, warmup=1, warmup_s=2e-3)])
    assert "multiplier" in told and "2.00 ms in 1" in told


def test_transfer_projects_the_metric_of_the_selection(tmp_path: Path) -> None:
    """GIVEN a selection from an import by kernel time THEN that is projected, on the same source
    with the error that select stated; another metric is named."""
    rows = [f"k{i % 3},{100 + i},{10 + i % 3 * 5}" for i in range(30)]
    one = imported(tmp_path / "one", "Name,insts,Duration", *rows)
    chosen = json.loads(call("select", one, "--method", "stem-root", "--json").stdout)
    assert chosen["metric"] == "gpu_time"
    asked = ("transfer", one / "selection.json", one, one)
    moved = json.loads(call(*asked, "--json").stdout)
    assert moved["metric"] == "gpu_time"
    assert moved["runs"][0]["measured_s"] == pytest.approx(chosen["measured_s"])
    assert moved["runs"][0]["sampling_error"] == pytest.approx(chosen["sampling_error"], abs=1e-12)
    assert "projected metric: gpu_time" in call(*asked).stdout
    other = call(*asked, "--metric", "insts")
    assert "made by gpu_time, so the error in insts may be larger" in other.stderr


def test_transfer_of_an_import_without_the_metric(tmp_path: Path) -> None:
    """The sentence names the metrics that the import has, or what to import."""
    timed = imported(tmp_path / "timed", "Name,Duration", "a,10", "b,20", "a,11")
    counted = imported(tmp_path / "counted", "Name,insts", "a,10", "b,20", "a,11")
    bare = imported(tmp_path / "bare", "Name,Comment", "a,x", "b,y", "a,z")
    call("select", timed)
    for other, remedy in ((counted, "with --metric: insts"), (bare, "import a profile with dur")):
        with pytest.raises(TraceError, match=f"without gpu_time; .*{remedy}"):
            call("transfer", timed / "selection.json", other)


def test_a_target_error_of_an_import_does_not_ask_for_timer_runs(tmp_path: Path) -> None:
    run = imported(tmp_path / "run", "Name,Duration", "a,10", "b,20", "a,11")
    said = call("select", run, "--target-error", "0.02").stderr
    assert "holds for the imported profile" in said and "timer run" not in said


def test_intervals_too_wide_say_so() -> None:
    estimate = Estimate(2.0, 0.0, 4.82, 0.95, "two runs")
    assert interval(estimate) == "95 % interval 0 us to 4.82 s, too wide to be of use"
    assert interval(replace(estimate, low=1.9, high=2.1)) == "95 % interval 1.90 s to 2.10 s"


@pytest.mark.parametrize("option", ["--error-bound", "--confidence"])
def test_compare_takes_fractions(tmp_path: Path, option: str) -> None:
    """Also for methods that ignore them."""
    run = imported(tmp_path / "run", "Name,Duration", "a,10", "b,20", "a,11")
    with pytest.raises(UsageError, match=r"takes a fraction between 0 and 1 .*, not 5"):
        call("compare", run, "--methods", "random", option, 5)


def test_compare_tells_what_it_wrote_and_a_next_step_that_works(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="pictures need matplotlib")
    run = imported(tmp_path / "run", "Name,Duration", "a,10", "b,20", "a,11")
    asked = ("compare", run, "--methods", "random", "--repeats", 1)
    said = call(*asked, "--plot", tmp_path / "plot.PDF").stderr
    assert f"wrote {tmp_path}/plot.PDF" in said and "--method NAME (NAME: " in said
    call("select", run)
    assert "--method NAME --force (NAME: " in call(*asked).stderr


def test_the_plot_names_each_method_once_and_has_plain_ticks(tmp_path: Path) -> None:
    """GIVEN methods with like errors THEN a legend names them, where no label hides another."""
    matplotlib = pytest.importorskip("matplotlib", reason="pictures need matplotlib")
    rows = [Row(name, time_speedup=1.5 + i, error_mean=0.02, error_max=0.03)
            for i, name in enumerate(("pka", "sieve"))]  # fmt: skip
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        draw("RUN", "time", [*rows, Row("photon", reason="none")], tmp_path / "plot.svg")
        draw("RUN", "time", [], tmp_path / "empty.svg")
    svg = (tmp_path / "plot.svg").read_text()
    assert svg.count(">pka<") == svg.count(">sieve<") == 1 and "photon" not in svg
    assert ">1.5<" in svg and ">2<" in svg and "10^" not in svg and "<tspan" not in svg


def test_compare_projects_what_all_runs_have(tmp_path: Path) -> None:
    """GIVEN runs with different metrics THEN the best that all have is projected; without one the
    sentence names what each has."""
    one = imported(tmp_path / "one", "Name,insts", "a,10", "b,20", "a,12")
    two = imported(tmp_path / "two", "Name,insts,Duration", "a,10,1", "b,20,1", "a,11,3")
    three = imported(tmp_path / "three", "Name,Duration", "a,1", "b,1", "a,3")
    shared = call("compare", one, two, "--methods", "random", "--repeats", 2, "--json").stdout
    assert json.loads(shared)["together"]["metric"] == "insts"
    timed = call("compare", two, three, "--methods", "random", "--repeats", 2, "--json").stdout
    assert json.loads(timed)["together"]["metric"] == "gpu_time"
    with pytest.raises(InputError, match=r"one has insts; .*three has gpu_time"):
        call("compare", one, three, "--methods", "random")


BAD = {
    "empty.csv": "",
    "other.txt": "no table at all\n",
    "short.csv": "Name,Duration\n",
    "ragged.csv": "Name,Duration\na,10\nb,20,30\n",
    "words.csv": "Name,Duration\na,long\n",
    "trace.json": "{}",
    "events.json": '{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k"}]}',
    "counters.csv": '"ID","Kernel Name"\n',
}


@pytest.mark.parametrize("name", ["missing.csv", *BAD])
def test_what_cannot_be_imported_is_said_with_a_remedy(tmp_path: Path, name: str) -> None:
    """GIVEN a source that is not a profile THEN one sentence states the fault and, after a
    semicolon or colon, the remedy; no run directory is created."""
    if name in BAD:
        (tmp_path / name).write_text(BAD[name])
    with pytest.raises(InputError) as caught:
        call("import", tmp_path / name, "-o", tmp_path / "run")
    remedy = re.split("[;:] ", str(caught.value))[-1]
    assert remedy.split()[0] in REMEDIES, str(caught.value)
    assert not (tmp_path / "run").exists()


# ---- filters -------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["--kernels", "--window"])
def test_an_empty_specification_is_refused(tmp_path: Path, option: str) -> None:
    """GIVEN an option with an empty value THEN nothing is run, and the option is named."""
    with pytest.raises(UsageError, match=f"{option} is empty"):
        call("profile", option, "", "-o", tmp_path / "run", "--", "true")
    assert not (tmp_path / "run").exists()


def test_filters_that_chose_nothing_are_named(tmp_path: Path) -> None:
    """GIVEN --kernels and --routine that match nothing THEN both are named."""
    left = 2  # XP_LAUNCH_LEFT_OUT
    records = [traces.program(0), traces.kernel(0, 0, "k", [])]
    for i in range(3):
        tsc = traces.START + 1000 * (i + 1)
        records.append(traces.launch(i, 0, tsc, reason="left out by --kernels", flags=left))
    path = tmp_path / "run"
    traces.write_run(
        path,
        [*records, traces.end(3, 0)],
        None,
        filters={"kernels": "nosuch", "routines": ["f", "g"]},
    )
    found = warnings(profiled_job(Run.open(path)))
    assert any("--kernels nosuch chose none of the 3 launches" in text for text in found)
    assert any("passes its filters (routines f, g)" in text for text in found)


def test_kernels_that_the_timer_could_not_place_are_reported(tmp_path: Path) -> None:
    """GIVEN kernels without a launch, and kernels without times THEN both numbers are given."""
    records = [traces.program(0), traces.kernel(0, 0, "k", [])]
    records.append(traces.launch(0, 0, traces.START + 1000))
    records += [
        traces.meta("kernels_without_launch", "3"),
        traces.meta("kernels_without_times", "1"),
    ]
    traces.write_run(tmp_path / "run", [*records, traces.end(1, 0)], None)
    found = warnings(profiled_job(Run.open(tmp_path / "run")))
    assert any(text.startswith("3 kernels ran without a launch that was seen") for text in found)
    assert any(text.startswith("CUPTI gave no times for 1 kernel,") for text in found)


# ---- killed runs, broken runs, other jobs --------------------------------------------------------


def test_info_of_a_killed_program(tmp_path: Path) -> None:
    """GIVEN a program killed before its first launch THEN info names the signal, and does not say
    that it launches nothing."""
    start = [traces.meta("engine", "made-up"), traces.SEAL]
    path = tmp_path / "run"
    traces.write_run(path, start, None, status="partial", signal=9, exit_code=-1)
    shown = call("info", path).stdout
    assert "SIGKILL" in shown and " -1 " not in shown
    assert "was ended before it launched a kernel: no slice was finished." in shown
    assert "slices    0" in shown and "one slice" not in shown


@pytest.mark.parametrize("role", ["first", "profile", "time"])
def test_the_next_step_after_a_crash_before_the_first_kernel(tmp_path: Path, role: str) -> None:
    """GIVEN a program killed before its first launch THEN info and check name the command that runs
    it again; the engines are not to blame."""
    path = tmp_path / "run"
    traces.write_run(path, None, None, status="partial", role=role, signal=11, exit_code=-1)
    name = "run" if role == "first" else role
    for command in ("info", "check"):
        told = call(command, path).stderr
        assert f"next: xpuprof {name} --force -o {path} -- ./app\n" in told


def test_the_next_step_after_a_profile_that_a_signal_ended(tmp_path: Path) -> None:
    """GIVEN a program that only the profile's interrupt ended THEN the run is recorded again: its
    profile is that of a part."""
    writer = create_run(tmp_path / "run", argv=["./app"])
    traces.add_execution(writer, "first", "first", traces.events(), None)
    traces.add_execution(
        writer, "profile", "profile", traces.events(), traces.cpu(), signal=2, exit_code=-1
    )
    writer.finish("partial", "the program was ended by SIGINT")
    told = call("info", tmp_path / "run").stderr
    assert f"next: xpuprof run --force -o {tmp_path / 'run'} -- ./app" in told


def test_the_next_step_has_the_filters_and_no_redacted_program(tmp_path: Path) -> None:
    """GIVEN times of a window, recorded without the program's arguments THEN the profile to make is
    that of the window, and a word stands for the arguments."""
    extra = {"settings": {"window": "2-3"}}
    writer = create_run(tmp_path / "run", argv=["./app", REDACTED, REDACTED], extra=extra)
    traces.add_execution(writer, "time-0", "time", traces.events(), None)
    writer.finish("complete", "")
    told = call("info", tmp_path / "run").stderr
    assert "next: xpuprof profile -o P --window 2-3 -- ./app ARGS, then: xpuprof select" in told


def test_info_of_a_program_killed_before_its_counts_were_read(tmp_path: Path) -> None:
    """GIVEN launches without counts THEN info neither denies them nor calls them a slice."""
    events = [record for record in traces.events()[:-1] if record[0] != 9]  # LAUNCH_GRID
    path = traces.write_run(tmp_path / "run", events, None, status="partial", signal=9)
    shown = call("info", path).stdout
    assert "launches  0, 0 instrumented; 3 more were not finished" in shown
    assert "ended before the counts of its 3 launches were read: no slice was finished." in shown


def test_info_of_timer_runs_counts_no_instructions(tmp_path: Path) -> None:
    """GIVEN timer runs alone THEN the kernels have no columns of zeros, and no line says that
    nothing was counted."""
    writer = create_run(tmp_path / "run", argv=["./app"])
    timed = traces.launch(0, 0, traces.START + 1_000, reason="timed, not instrumented")
    events = [
        timed if record[0] == timed[0] and record[2] == 0 else record
        for record in traces.events(1)
        if record[0] not in (7, 8, 9)  # vectors, grids and their launches
    ]
    traces.add_execution(writer, "time-0", "time", events, None)
    writer.finish("complete", "")
    shown = call("info", tmp_path / "run").stdout
    assert "instructions" not in shown and "instrumented" not in shown
    assert "launches  1\n" in shown


def test_time_of_each_kernel(tmp_path: Path) -> None:
    """GIVEN a profile WHEN shown THEN a kernel's time is that of the profiled launches; GIVEN a
    timer run too THEN it is the native one, of the launches in the window; report has it too."""
    writer = create_run(tmp_path / "run", argv=["./app"])
    traces.add_execution(writer, "profile", "profile", traces.events(5), None)
    writer.finish("complete", "")
    hz = Run.open(tmp_path / "run").executions[0].record.tsc_hz

    def times(key: str) -> dict[str, float]:
        kernels = json.loads(call("info", tmp_path / "run", "--json").stdout)["kernels"]
        return {row["kernel"]: row[key] * hz for row in kernels}

    assert times("profiled_s") == pytest.approx({"a": 300, "b": 200})
    assert "profiled time" in call("info", tmp_path / "run").stdout
    writer, events = traces.resume(tmp_path / "run"), traces.events(5)
    early = {i: traces.launch(i, i % 2, traces.START + 1_000 * (i + 1), flags=4) for i in range(3)}
    windowed = [
        traces.meta("window", "begin@end"),
        traces.window(0, False, 900),
        *(early.get(r[2], r) if r[0] == early[0][0] else r for r in events[:21]),
        traces.window(3, True, traces.START + 3_500),
        *events[21:],
    ]
    traces.add_execution(writer, "time-0", "time", windowed, None)
    writer.finish("complete", "")
    assert times("device_s") == pytest.approx({"a": 100, "b": 100})
    assert "device time" in call("info", tmp_path / "run").stdout


def test_report_shows_the_time_of_each_kernel(tmp_path: Path) -> None:
    """GIVEN an import with a selection THEN report lists its kernels by time, like info."""
    run = imported(tmp_path / "run", "Name,Duration", "a,10", "b,30", "a,10")
    call("select", run, "--method", "stem-root")
    assert re.search(r"b +1 +30.0 us +60.00 %\n.*a +2 ", call("report", run).stdout)


def test_info_of_a_window_that_never_opened(tmp_path: Path) -> None:
    """GIVEN launches outside the window only THEN info does not say that there were none."""
    events = [traces.meta("window", "9-"), traces.window(0, False, traces.START)]
    events += [
        traces.launch(r[2] or 0, 0, traces.START + 1, flags=4) if r[0] == 4 else r
        for r in traces.events(2)
        if r[0] not in (9, 15)
    ]
    path = traces.write_run(tmp_path / "run", [*events, traces.end(2, 0)], None)
    shown = call("info", path).stdout
    assert "9- never opened" in shown and "no kernel" not in shown


def test_check_states_the_broken_rule(tmp_path: Path) -> None:
    """GIVEN a stream whose number of launches differs from its END record THEN the message states
    the broken rule as a requirement, not as a fact."""
    path = traces.write_run(tmp_path / "run", [*traces.events()[:-1], traces.end(4, 4)], None)
    assert "launch-totals requires: " in call("check", path).stderr


def test_a_jobs_selection_against_one_process() -> None:
    """GIVEN a selection over two ranks WHEN one process without a rank is timed THEN the sentence
    names the processes and the job's command."""
    one = made_up_run(["a/64", "b/64"])
    digest = "0" * 64
    keys = tuple(Key(f"rank{i}", i, digest, 3) for i in (0, 1))
    chosen = select_by_kernel(made_up_run(["a/64", "b/64"] * 2))
    identity = replace(chosen.identity, program=Program(("mpirun", "./app")), processes=keys)
    job = replace(chosen, labels=np.zeros(6, np.int32), identity=identity)
    with pytest.raises(InputError, match=r"rank0, rank1 of the selection had .*: mpirun ./app"):
        arranged(one, job)


def test_an_import_is_described_as_one(tmp_path: Path) -> None:
    """GIVEN an import THEN info names its source, check reports only what it checked, and no
    command suggests running its program."""
    run = imported(tmp_path / "run", "Name,Duration", "a,10", "b,20", "a,11")
    shown = call("info", run).stdout
    assert f"source    {tmp_path / 'run.csv'} (csv)" in shown
    assert "program" not in shown and "recorded" not in shown
    said = call("check", run).stdout
    assert said.startswith("all 2 invariants hold (checked: slices 3, columns ")
    chosen = call("select", run, "--method", "stem-root")
    assert f"next: xpuprof export {run}/selection.json" in chosen.stderr
    assert "validate" not in chosen.stderr


def test_report_of_times_alone_asks_for_a_profile(tmp_path: Path) -> None:
    """There is no profile to select from."""
    writer = create_run(tmp_path / "T", argv=["./app", "a b"])
    traces.add_execution(writer, "time-0", "time", traces.events(), None)
    writer.finish("complete", "")
    with pytest.raises(InputError, match=r"xpuprof profile -o P -- ./app 'a b', then: .* --times"):
        call("report", tmp_path / "T")


def test_a_profile_without_device_stamps_says_where_kernel_times_come_from(tmp_path: Path) -> None:
    """GIVEN a profile whose device stamped no launch THEN info and report name the commands that
    give kernel times; GIVEN that timer run THEN report has the times, also after `select --times`
    alone."""
    stamped = traces.complete(0, 0)[0]
    bare = [
        traces.complete(r[2], traces.START + 1_000 * (r[2] + 1) + 500) if r[0] == stamped else r
        for r in traces.events(5)
    ]
    run, timed = traces.write_run(tmp_path / "run", bare, traces.cpu(6)), tmp_path / "TIMES"
    how = "to see them: xpuprof time -o TIMES -- "
    assert how in call("info", run).stdout
    call("select", run, "--method", "first-n", "-q")
    shown = call("report", run).stdout
    assert how in shown and f"then: xpuprof report {run} --times TIMES" in shown
    writer = create_run(timed, argv=["./app"])
    traces.add_execution(writer, "time-0", "time", traces.events(5), None)
    writer.finish("complete", "")
    shown = call("report", run, "--times", timed).stdout
    assert "device time" in shown and "to see them" not in shown
    call("select", run, "--times", timed, "--method", "random", "-q", "--force")
    assert "device time" in call("report", run).stdout


def test_another_programs_selection_is_refused(tmp_path: Path) -> None:
    """GIVEN a selection of as many slices THEN no command takes it for the run's own."""
    run, other = timed_run(tmp_path / "run"), tmp_path / "other"
    writer = create_run(other, argv=["./other"])
    named = traces.kernel(0, 0, "a", [5, 7]), traces.kernel(0, 0, "c", [5, 7])
    turned = [named[1] if record == named[0] else record for record in traces.events()]
    traces.add_execution(writer, "profile", "profile", turned, traces.cpu())
    writer.finish("complete")
    call("select", run)
    call("select", other)
    own, foreign = run / "selection.json", other / "selection.json"
    call("report", run, "--selection", own)
    for arguments in (
        ("report", run, "--selection", foreign),
        ("report", run, "--selection", foreign, "-o", tmp_path / "page.html"),
        ("export", run, "--selection", foreign, "--format", "chrome", "-o", tmp_path / "t.json"),
        ("export", run, "--selection", foreign, "--format", "looppoint", "-o", tmp_path / "l"),
        ("estimate", foreign, "--timeline", run),
    ):
        result = CliRunner().invoke(cli, list(map(str, arguments)))
        assert f"not one of {run}: slice 0: kernel c and kernel a" in str(result.exception)
    with pytest.raises(InputError, match="kernel c and kernel a"):
        xpuprof.open(run).estimate(foreign)
    assert not (tmp_path / "t.json").exists() and not (tmp_path / "page.html").exists()


def test_wide_characters_keep_columns_aligned() -> None:
    """GIVEN names whose characters take two columns of a terminal, or none THEN what follows a name
    is aligned."""
    names = ["plain", "\u6838\u5fc3", "e\u0301toile"]  # two wide ones; an accent of its own
    shown = table(["kernel", "calls"], [[name, "1"] for name in names], right="lr").splitlines()
    columns_taken_less_characters = [0, 0, 0, 2, -1]
    widths = [len(line) for line in shown]
    assert [w + d for w, d in zip(widths, columns_taken_less_characters, strict=True)] == [13] * 5
