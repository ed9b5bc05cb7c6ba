# SPDX-License-Identifier: Apache-2.0
"""A command that cannot do its work gives one sentence and exit code 2, and overwrites nothing."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from tests.support import traces
from tests.support.run import run_text, xpuprof_line, xpuprof_text
from tests.support.runs_made_up import select_by_kernel
from xpuprof.cli import cli, main
from xpuprof.cli.ends import guarded
from xpuprof.errors import InputError, MissingRegionError, UsageError
from xpuprof.launch import ending
from xpuprof.launch.ending import Ending
from xpuprof.launch.program import resolve
from xpuprof.selection.selection import Selection
from xpuprof.trace.run_writer import create_run
from xpuprof.validation.timed import open_timed


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in: a run `R` with times and a selection, a `file`, a folder `folder.*` of
    each kind of output."""
    writer = create_run(tmp_path / "R", argv=["./app"])
    traces.add_execution(writer, "profile", "profile", traces.events(), traces.cpu())
    traces.add_execution(writer, "time-0", "time", traces.events(), None)
    writer.finish("complete", "")
    select_by_kernel(open_timed(tmp_path / "R")).write(tmp_path / "R/selection.json")
    (tmp_path / "file").write_text("mine\n")
    (tmp_path / "app.bb").write_text("T:1:5 :2:3\nT:1:4 :2:4\nT:3:9\n")
    for suffix in ("html", "svg", "json", "db"):
        (tmp_path / f"folder.{suffix}").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def contents(folder: Path) -> dict[str, bytes | None]:
    """Every path below, with its bytes."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


@pytest.fixture
def refused(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[[str], str]:
    """The sentence of a command that exits with 2 and changes no file."""

    def refuse(line: str) -> str:
        before = contents(here)
        monkeypatch.setattr(sys, "argv", ["xpuprof", *line.split()])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr().err.strip()
        assert ended.value.code == 2, said
        assert said.startswith("xpuprof: error: ") and "\n" not in said
        assert "[Errno" not in said and "Error:" not in said
        assert contents(here) == before
        return said

    return refuse


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("report R -o file/r.html", "cannot write file/r.html: "),
        ("report R -o file/r.svg", "cannot write file/r.svg: "),
        ("report R -o /proc/r.html", "cannot write /proc/r.html"),
        ("report R -o folder.html --force", "folder.html is a directory: name a file"),
        ("report R -o folder.svg --force", "folder.svg is a directory: name a file"),
        ("report R -o r.xyz", "r.xyz has no known suffix"),
        ("report R -o -", "output to stdout is not supported; name a file or folder"),
        ("compare R --methods random --plot file/x.svg", "cannot write file/x.svg"),
        ("compare R --methods random --plot folder.svg --force", "folder.svg is a directory"),
        ("compare R --methods random --plot x.xyz", "x.xyz has no known suffix"),
        ("import app.bb -o /proc/x", "cannot write /proc/x: "),
        ("import app.bb -o file/x", "cannot write file/x: Not a directory; name another path"),
        (
            "select R --force --method stem-root -k 5",
            "-k is for xpu-point, gpu-point and xpu-point-published; stem-root",
        ),
        (
            "select R --force --method pka --budget 3",
            "--budget is for xpu-point and gpu-point; pka",
        ),
        ("select R --force --method sieve --target-error 0.02", "--target-error is for xpu-point"),
        ("select R --force --method random --per-cluster 2", "--per-cluster is for xpu-point"),
        ("select R --force --method sieve --no-ends", "--ends/--no-ends is for xpu-point"),
        (
            "select R --force --method gpu-point --cpu-weight 0.3",
            "--cpu-weight is for xpu-point and xpu-point-published; gpu-point takes",
        ),
        ("select R -o file/x", "cannot write file/x/selection.json: "),
        ("export R --format sqlite -o file/x.db", "cannot write file/x.db: "),
        ("export R --format sqlite -o folder.db --force", "folder.db is a directory"),
        ("export R --format chrome -o file/x.json", "cannot write file/x.json: "),
        ("export R --format chrome -o folder.json --force", "folder.json is a directory"),
        ("export R --format parquet -o file", "file is a file, not a folder"),
        ("export R --format parquet -o file --force", "file is a file, not a folder"),
        ("export R --format nvbit -o file --force", "file is a file, not a folder"),
        ("export R --format nvbit -o R --force", "R is a part of what is exported; name another"),
        ("export R/selection.json --format nvbit -o R --force", "R is a part of what is exported"),
        ("export R --format parquet -o R --force", "R is a part of what is exported"),
        ("export R --format parquet -o R/profile", "R/profile is a part of what is exported"),
    ],
)
def test_an_output_that_cannot_be_written(
    refused: Callable[[str], str], line: str, sentence: str
) -> None:
    """One sentence names the path; no file changes."""
    if "parquet" in line:
        pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    if "html" in line or "svg" in line:
        pytest.importorskip("matplotlib", reason="pictures need matplotlib")
    assert sentence in refused(line)


NVBIT = "export R -o out --format nvbit"
CHROME = "export R -o out.json --format chrome"


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("validate file -- true", "file is not a selection file"),
        ("validate folder.db -- true", "make a selection with `xpuprof select RUN`"),
        (
            "validate nope -- true",
            "nope does not exist; make a selection with `xpuprof select RUN`",
        ),
        (
            "validate cut.json -- true",
            "copy the whole file, or make it again with `xpuprof select RUN --force`",
        ),
        (
            "validate damaged -- true",
            "damaged/selection.json is not a selection file: it is not valid JSON",
        ),
        ("time --regions nope -- true", "nope does not exist; make a selection"),
        ("estimate R --results foo=file", "foo=file: 'foo' is no region; name it by its number"),
        ("estimate R/selection.json --results nope", "name what the simulator wrote"),
        (f"{CHROME} --selection nope", "nope does not exist; make a selection"),
        ("export R -o out --format accelsim --kernelslist nope", "name the kernelslist.g of the"),
        ("import nope -o I", "nope does not exist; check its name"),
        (
            "compare moved.json",
            "moved.json is a selection, not a run directory; name the run that it",
        ),
        ("info damaged", "damaged holds only a selection; name the run that it was chosen from"),
        ("select R -o sel.json", "sel.json looks like a file; name a folder"),
        ("import moved.json -o I", "moved.json is a selection of xpuprof, not a profile; show its"),
        ("report loop/selection.json", "error: loop cannot be read: Too many levels of symbolic"),
        ("info R/profile", "R/profile is a part of a run directory; name the whole, R"),
        ("import folder.db -o I", "xpuprof import folder.db/PROFILE -o RUN"),
        ("profile --gpu-tool file -o T -- true", "shared library; name the tool's .so"),
        ("profile --output= -- true", "--output is empty; is a shell variable unset?"),
        ("time --kernel : -o T -- true", "invalid --kernel ':': give NAME:CALL"),
        ("import empty -o I", "empty is empty; copy it or export it again"),
        ("import binary -o I", "binary has none of the known formats"),
        ("import binary --format csv -o I", "binary is not text; name a table (CSV or Parquet)"),
        ("estimate bare --results file", "make a selection with `xpuprof select bare`"),
        ("run -- ./lost", "./lost needs /no/such, which does not exist; correct its #! line"),
        ("run -- ./shim", "./lost needs /no/such, which does not exist; correct its #! line"),
        ("run -- ./itself", "./itself needs more than 5 interpreters; correct its #! line"),
        ("run -- ./nothing", "./nothing is neither a program nor a script with a #! line"),
        (f"{CHROME} --warmup 3", "--warmup is for accelsim, gpgpusim, looppoint and pinpoints"),
        (f"{NVBIT} --image-base 0x1000", "--image-base is for looppoint and pinpoints"),
        (f"{NVBIT} --kernelslist file", "--kernelslist is for accelsim"),
        ("time --warmup 2 -o T -- true", "--warmup requires --regions or --kernel; add one"),
        ("profile --routine= -o T -- true", "--routine is empty; omit it or give a value"),
        ("profile --include-image= -o T -- true", "--include-image is empty"),
        ("compare R --methods=", "no method ''; choose one of"),
    ],
)
def test_what_a_command_cannot_use(
    here: Path, refused: Callable[[str], str], line: str, sentence: str
) -> None:
    """One sentence with the remedy; nothing is created."""
    (here / "empty").touch()
    (here / "binary").write_bytes(b"\x81,\xfe\x00,\x1b[2J\n" * 9)
    scripts = {"lost": "/no/such -x", "shim": "./lost\t-x", "itself": "./itself", "nothing": " "}
    for name, line_of_it in scripts.items():
        (here / name).write_text(f"#!{line_of_it}\n")
        (here / name).chmod(0o755)
    create_run(here / "bare", argv=["./app"]).finish("complete", "")
    (here / "moved.json").write_bytes((here / "R/selection.json").read_bytes())
    (here / "cut.json").write_bytes((here / "R/selection.json").read_bytes()[:300])
    (here / "loop").symlink_to("loop")  # root may read every folder, but not this
    (here / "damaged").mkdir()
    (here / "damaged/selection.json").write_bytes((here / "cut.json").read_bytes())
    assert sentence in refused(line)


@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        (lambda text: text.replace('"seed": ', '"seed": 9'), "was changed after it was written"),
        (lambda text: text[:300], "is not a selection file: it is not valid JSON"),
        (lambda text: "{}", "is not a selection file"),
        (lambda text: "\udcff", "is not text"),
    ],
)
def test_a_damaged_selection_is_made_again_as_advised(
    here: Path, damage: Callable[[str], str], fault: str
) -> None:
    """GIVEN a selection that was damaged THEN the command in the sentence replaces it."""
    file = here / "R/selection.json"
    file.write_text(damage(file.read_text()), errors="surrogateescape")
    with pytest.raises(InputError) as refusal:
        Selection.read(here / "R")
    assert str(refusal.value).startswith(f"{file} {fault}")
    (advised,) = re.findall("`xpuprof (.*)`", str(refusal.value))
    again = CliRunner().invoke(cli, advised.replace("RUN", "R").split(), catch_exceptions=False)
    assert again.exit_code == 0, again.output
    assert Selection.read(here / "R").slices


def test_threads_are_numbered_from_0(here: Path) -> None:
    """Negative numbers are refused."""
    result = CliRunner().invoke(cli, ["profile", "--thread", "-1", "-o", "T", "--", "true"])
    assert result.exit_code == 2 and "-1 is not in the range x>=0" in result.stderr
    assert not (here / "T").exists()


@pytest.mark.parametrize(
    "line",
    [
        "select R -o a/b",
        "export R --format chrome -o a/b/x.json",
        "export R --format sqlite -o a/b/x.db",
        "export R --format nvbit -o a/b",
        "report R -o a/b/r.html",
        "compare R --methods random --plot a/b/x.svg",
        "import app.bb -o a/b/I",
    ],
)
def test_folders_of_an_output_are_made(here: Path, line: str) -> None:
    """One rule for all commands."""
    if "html" in line or "svg" in line:
        pytest.importorskip("matplotlib", reason="pictures need matplotlib")
    result = CliRunner().invoke(cli, line.split(), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert any((here / "a/b").iterdir())


@pytest.mark.parametrize(
    "line",
    [
        "report R* -o R*.html",
        "compare R* --methods random --repeats 1 -o R*.html",
        "compare R* --methods random --repeats 1 --plot R*.svg",
        "export R* --format nvbit -o R*.nvbit",
        "export R* --format chrome -o R*.json",
        "export R* --format sqlite -o R*.db",
        "export R* --format parquet -o R*.parquet",
    ],
)
def test_names_need_not_be_utf_8(here: Path, line: str) -> None:
    """GIVEN a byte in a run's name that is no text THEN what tells of it is written."""
    if "svg" in line:
        pytest.importorskip("matplotlib", reason="pictures need matplotlib")
    if "parquet" in line:
        pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    (here / "R").rename(here / "R\udcff")
    words = line.replace("*", "\udcff").split()
    result = CliRunner().invoke(cli, [*words, "--json", "-q"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert (here / words[-1]).exists()


@pytest.mark.parametrize(
    ("method", "parameter"),
    [("xpu-stem", "epsilon"), ("stem-root", "epsilon"), ("pka", "target"), ("tbpoint", "target")],
)
def test_a_target_error_is_the_methods_own_bound(here: Path, method: str, parameter: str) -> None:
    """As `compare --error-bound` sets it."""
    line = f"select R --force --method {method} --target-error 0.02"
    result = CliRunner().invoke(cli, line.split(), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert Selection.read(here / "R/selection.json").parameters[parameter] == 0.02


def test_fewer_clusters_than_were_asked_for_are_said(here: Path) -> None:
    """There cannot be more clusters than slices."""
    line = ["select", "R", "--force", "-k", "500"]
    result = CliRunner().invoke(cli, line, catch_exceptions=False)
    assert "-k 500 gave " in result.stderr


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("selct R", "no command 'selct'; did you mean select? choose one of: run, "),
        ("help selct", "no command 'selct'; did you mean select?"),
        ("select R --metod pka", "no option --metod; did you mean --method?"),
        ("select R --method xpu-pont", "no method 'xpu-pont'; did you mean xpu-point?"),
        ("export R --format loopoint -o x", "no format 'loopoint'; did you mean looppoint?"),
        ("profile --cpu valgrin -o T -- true", "no CPU engine 'valgrin'; did you mean valgrind?"),
        ("export", "RUN|SELECTION is missing; usage: xpuprof export [OPTIONS] RUN|SELECTION"),
        ("export R --format chrome", "--output is missing; xpuprof export --help describes it"),
        ("compare R --repeats 0", "--repeats takes a whole number from 1, not 0"),
        ("compare R --error-bound x", "--error-bound takes a number, not x"),
        ("select R --processes eac", "--processes takes one of job, each, not eac"),
        ("select R --seed -1", "--seed takes a whole number from 0 to 4294967295, not -1"),
        ("select app.bb app.bb -o J", "app.bb is named twice"),
        ("info file", "file is a file, not a run directory; to use another tool's profile: xpupr"),
        ("info R/selection.json", "is a file, not a run directory; name its folder, R"),
        ("import R -o x", "R is a run directory already; show it with: xpuprof info R"),
        ("run -- ls|wc", "ls|wc needs a shell; give it one, as in: -- sh -c 'ls|wc'"),
        ("run -- A=1 true", "A=1 is not a program; set variables with env, as in: -- env A=1 true"),
        ("run --max-size 5X -- true", "--max-size takes a size like 500M or 2G, not 5X"),
        ("run -- no-such", "no-such is not on PATH; give its path, as in: -- ./no-such"),
        ("run -- .", "error: . is a folder; name the program in it"),
        ("run -- ..", "error: .. is a folder; name the program in it"),
        ("run -- folder.db", "error: folder.db is a folder; name the program in it"),
        ("profile", "no program was given; put it after --, as in: -- ./app args"),
        ("select R -k 0 --force", "-k must be at least 1, not 0"),
        ("select R --per-cluster 0 --force", "--per-cluster must be at least 1, not 0"),
        ("run --repeat x -- true", "--repeat takes a whole number from 1, or auto, not x"),
        ("info R R", "unexpected argument R; usage: xpuprof info [OPTIONS] RUN"),
        ("folder.db", "no command 'folder.db'; choose one of: run, "),
        ("profile --cpu opencl -o T -- true", "opencl is a GPU engine; name it with --gpu opencl"),
        ("profile --gpu valgrind -o T -- true", "valgrind is a CPU engine; name it with --cpu"),
        ("import file -o x --format pytroch", "no format 'pytroch'; did you mean pytorch?"),
        ("profile --kernels [ -o T -- true", "put a backslash before a character that stands for"),
        ("select R --method", "--method needs a value"),
        ("info R --json=1", "--json takes no value; omit it"),
        ("select R --scheduler x:1", "--workers and --scheduler need a folder for the selection"),
        ("select R folder.db", "several runs need a folder for the selection; name it with -o DIR"),
        ("select R --input nope --force", "No such file or directory; check the path after --inp"),
        ("select R --set =3 --force", "--set takes NAME=VALUE, not '=3'"),
        ("select R --set k --force", "--set takes NAME=VALUE, not 'k'"),
        ("select R --set length_weight=nan --force", "length_weight takes a finite number"),
        ("select R --set length_weight=-1 --force", "length_weight must lie between 0 and 1,000,"),
        ("select R --force --method pka --set max_k=0", "max_k must be at least 1, not 0"),
        (
            "select R --force --method pka --set variance=2",
            "variance must lie between 0.01 and 0.9",
        ),
        (
            "select R --force --method pka --set target=-1",
            "target must lie between 0 and 1 (0.05 is 5 %), not -1",
        ),
        ("select R --force --method allegro --set m_Th=-3", "m_Th must be at least 1, not -3"),
        (
            "select R --force --method ranked-set --set ranks=999",
            "ranks must lie between 1 and 100",
        ),
        ("select R --budget inf --force", "--budget takes a finite number, not inf"),
        ("R", "no command 'R'; to see a run: xpuprof report R"),
        ("./file arg", "no command './file'; to run a program: xpuprof run -- ./file arg"),
        ("--json info R", "--json is an option of info; put it after the command: xpuprof info "),
        ("info R --bogus", "no option --bogus; xpuprof info --help lists the options"),
        ("profile --bogus -- ./app", "no option --bogus; xpuprof profile --help lists the options"),
        ("validate R/selection.json ./app 3", "xpuprof validate R/selection.json -- ./app 3"),
        ("validate R/selection.json --repaet 3", "no option --repaet; did you mean --repeat?"),
        ("select app.bb --method pka", "--method is for run directories; omit it with a .bb file"),
        ("select R R -o J", "R is named twice; name each once"),
        ("select R ./R -o J", "R is named twice; name each once"),
        ("compare R R", "R is named twice; name each once"),
        ("compare R --methods random,random", "method random is named twice; name each once"),
    ],
)
def test_a_mistyped_command_line(refused: Callable[[str], str], line: str, sentence: str) -> None:
    """One dialect: what is wrong; the closest name or what is expected. Nothing is created."""
    assert sentence in refused(line)


def test_a_quoted_command_line_is_told_apart_from_a_program() -> None:
    """`run -- "sh -c true"` names no program; its words do."""
    with pytest.raises(UsageError, match="is one word; give it without quotes, as in: -- sh -c t"):
        resolve(["sh -c true"])


def test_help_of_a_command_is_its_own(here: Path) -> None:
    """`xpuprof help select` is `xpuprof select --help`."""
    named = CliRunner().invoke(cli, ["help", "select"], prog_name="xpuprof")
    own = CliRunner().invoke(cli, ["select", "--help"], prog_name="xpuprof")
    assert named.exit_code == own.exit_code == 0
    assert named.output == own.output
    assert "select " in CliRunner().invoke(cli, ["help"]).output


@pytest.mark.parametrize(("separator", "said"), [([], True), (["--"], False)])
def test_our_option_behind_the_program_is_pointed_out(
    tmp_path: Path, separator: list[str], said: bool
) -> None:
    """`run ./app --repeat 2` gives --repeat to the program; -- says that this is meant."""
    line = ["profile", "-o", str(tmp_path / "R"), *separator, "./absent", "--force", "--gpu=none"]
    result = CliRunner().invoke(cli, line)
    note = "--force, --gpu=none is passed to ./absent; to give it to "
    assert (note in result.stderr) == said


def test_report_writes_and_prints(here: Path) -> None:
    """With -o and --json it does both, and -o alone says what it wrote."""
    both = CliRunner().invoke(cli, ["report", "R", "--json", "-o", "r.html"])
    assert both.exit_code == 0, both.output
    assert json.loads(both.stdout)["run"] == "R" and (here / "r.html").exists()
    assert "wrote r.html" in both.stderr


def test_report_without_timer_runs_shows_the_selection(tmp_path: Path) -> None:
    """profile, select, report: no error is stated, and the note says how to measure it."""
    writer = create_run(tmp_path / "P", argv=["./app"])
    traces.add_execution(writer, "profile", "profile", traces.events(), traces.cpu())
    writer.finish("complete", "")
    assert CliRunner().invoke(cli, ["select", str(tmp_path / "P")]).exit_code == 0
    shown = CliRunner().invoke(cli, ["report", str(tmp_path / "P")])
    assert shown.exit_code == 0, shown.output
    assert "representative" in shown.stdout and "sampling error" not in shown.stdout
    assert f"xpuprof validate {tmp_path}/P/selection.json -- ./app" in shown.stderr


def test_report_finds_the_times_of_the_selection(tmp_path: Path) -> None:
    """GIVEN times in a folder of their own WHEN selected by THEN report knows the error; the next
    command keeps the options that were given."""
    for name, role in (("P", "profile"), ("T", "time")):
        writer = create_run(tmp_path / name, argv=["./app"])
        cpu = traces.cpu() if role == "profile" else None
        traces.add_execution(writer, f"{role}-0", role, traces.events(), cpu)
        writer.finish("complete", "")
    p, t = str(tmp_path / "P"), str(tmp_path / "T")
    assert CliRunner().invoke(cli, ["select", p, "--times", t]).exit_code == 0
    shown = CliRunner().invoke(cli, ["report", p])
    assert "sampling error" in shown.stdout and "unknown" not in shown.stderr
    moved = ["--selection", str(tmp_path / "P/selection.json"), "--times", t]
    shown = CliRunner().invoke(cli, ["report", p, *moved])
    assert f"next: xpuprof report {p} {' '.join(moved)} -o P.html" in shown.stderr
    page = CliRunner().invoke(cli, ["report", p, "-o", str(tmp_path / "p.html")])
    assert page.exit_code == 0 and "sampling error" in (tmp_path / "p.html").read_text()


@pytest.mark.parametrize("cpu", [traces.cpu(), None])
def test_a_timer_run_that_was_lost_is_left_out(tmp_path: Path, cpu: Any) -> None:
    """By report, select and compare, which say so. GIVEN no other THEN report names the loss."""
    writer = create_run(tmp_path / "R", argv=["./app"])
    traces.add_execution(writer, "profile", "profile", traces.events(), cpu)
    for name in ("time-0", "time-1"):
        traces.add_execution(writer, name, "time", traces.events(), None)
    writer.finish("complete", "")
    run = str(tmp_path / "R")
    assert CliRunner().invoke(cli, ["select", run]).exit_code == 0
    for stream in tmp_path.glob("R/time-0/*/events.xpt"):
        stream.write_bytes(b"")
    for command in (["report"], ["select", "--force"], ["compare"]):
        shown = CliRunner().invoke(cli, [*command, run], catch_exceptions=False)
        assert "sampling error" in shown.stdout or command == ["compare"]
        assert "time-0 is left out, because its recording is incomplete" in shown.stderr
    for stream in tmp_path.glob("R/time-1/*/events.xpt"):
        stream.write_bytes(b"")
    with pytest.raises(InputError, match=r"no timer run with times: time-0/.*xpt is empty"):
        CliRunner().invoke(cli, ["report", run], catch_exceptions=False)


@pytest.mark.parametrize(("error", "code"), [(MissingRegionError, 3), (InputError, 42)])
def test_a_missing_region_counts_for_more_than_the_programs_exit_code(
    monkeypatch: pytest.MonkeyPatch, error: type[Exception], code: int
) -> None:
    """GIVEN a program that ended with 42 THEN validate's answer is 3; other errors of ours do not
    hide the program's."""
    monkeypatch.setattr(ending, "_of_user", Ending(1, 42, None, 0, 1, 1.0))
    with pytest.raises(SystemExit) as ended, guarded():
        raise error("a sentence")
    assert ended.value.code == code


def test_a_refused_value_is_json(tmp_path: Path) -> None:
    """GIVEN --json behind a value that is refused THEN the refusal is JSON all the same."""
    done = xpuprof_text("select", tmp_path, "--maxk", "x", "--json")
    told = json.loads(done.stdout)
    assert (done.returncode, told["exit_code"]) == (2, 2) and "--maxk" in told["error"]


def test_too_little_memory_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended, guarded():
        np.zeros(1 << 60, np.uint8)
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert told.startswith("xpuprof: error: Unable to allocate") and "ulimit -v" in told
    assert told.count("\n") == 1


def test_a_refused_source_is_named_once(tmp_path: Path) -> None:
    sources = [tmp_path / "a.csv", tmp_path / "b.csv"]
    for source in sources:
        source.write_text("a,b\n")
    done = CliRunner().invoke(cli, ["import", *map(str, sources), "-o", str(tmp_path / "R")])
    lines = [line for line in done.stderr.splitlines() if "looks like a kernel's name" in line]
    assert [line.count(str(source)) for line, source in zip(lines, sources, strict=True)] == [1, 1]


def test_a_run_under_way_is_not_told_to_select(here: Path) -> None:
    """GIVEN a run that a process still records THEN info says to look again, not to select."""
    traces.add_execution(
        create_run(here / "U", argv=["./app"]), "profile", "profile", traces.events(), traces.cpu()
    )
    shown = CliRunner().invoke(cli, ["info", "U"])
    assert "next: xpuprof info U (once the recording has ended)" in shown.stderr


def test_a_run_without_kernels_is_not_told_to_profile(tmp_path: Path) -> None:
    writer = create_run(tmp_path / "R", argv=["./app"])
    writer.finish("partial", "no kernel was seen: GPU engine opencl watches libOpenCL.so")
    for command in ("report", "select", "compare"):
        with pytest.raises(InputError, match=r"holds no (result|profile): no kernel was seen"):
            CliRunner().invoke(cli, [command, str(tmp_path / "R")], catch_exceptions=False)
    assert "next: xpuprof doctor" in CliRunner().invoke(cli, ["info", str(tmp_path / "R")]).stderr


def test_a_profile_without_kernels_is_not_told_to_select(tmp_path: Path) -> None:
    run = str(traces.write_run(tmp_path / "P", traces.events(0), None, gpu_engine="opencl"))
    assert "next: xpuprof doctor" in CliRunner().invoke(cli, ["info", run]).stderr
    with pytest.raises(InputError, match="no kernel was seen"):
        CliRunner().invoke(cli, ["report", run], catch_exceptions=False)


def test_a_map_needs_a_unit_of_time(here: Path, refused: Callable[[str], str]) -> None:
    """GIVEN --map time=COLUMN without a unit, or with another word THEN units are named."""
    (here / "t.csv").write_text("Name,took\na,10\n")
    line = "import t.csv -o I --map kernel=Name --map"
    assert "as in --map time=took:us" in refused(f"{line} time=took")
    said = refused(f"{line} time=took:furlong")
    assert "'furlong' is not a unit of time; use one of: s, ms, us, ns" in said


def test_a_database_that_cannot_be_written(here: Path) -> None:
    """GIVEN a folder that nobody can write to THEN the export says so, and what to do."""
    shown = CliRunner().invoke(cli, ["export", "R", "--format", "sqlite", "-o", "/proc/x.db"])
    assert isinstance(shown.exception, UsageError)
    assert re.fullmatch(r"cannot write /proc/x.db: [\w ]+; name another path", str(shown.exception))


def test_an_existing_page_is_seen_before_the_work(tmp_path: Path) -> None:
    """GIVEN the page WHEN reporting without --force THEN that is refused before a run is read."""
    (tmp_path / "p.html").touch()
    (tmp_path / "R").mkdir()
    shown = CliRunner().invoke(cli, ["report", str(tmp_path / "R"), "-o", str(tmp_path / "p.html")])
    assert "p.html exists" in str(shown.exception)


def test_the_next_step_after_a_kept_validation_keeps_its_times(tmp_path: Path) -> None:
    """GIVEN a validation, which starts as `run` does, but has no profile THEN a profile is the next
    step, beside it: `run --force` would remove the times."""
    writer = create_run(tmp_path / "V", argv=["./app"])
    for name, role in (("first", "first"), ("time-0", "time")):
        traces.add_execution(writer, name, role, traces.events(), None)
    writer.finish("complete")
    said = CliRunner().invoke(cli, ["info", str(tmp_path / "V")]).stderr
    assert "next: xpuprof profile -o P" in said and "--force" not in said


def test_force_keeps_a_file_that_the_program_is_given(tmp_path: Path) -> None:
    """GIVEN an argument that names a file of the run that --force would remove THEN it is refused;
    an argument that names nothing is no reason."""
    path = traces.write_run(tmp_path / "R", traces.events(), traces.cpu())
    data = path / "input.txt"
    data.touch()
    command = ["time", "--gpu", "none", "-o", str(path), "--force", "--repeat", "1", "--", "true"]
    with pytest.raises(UsageError, match=f"which holds {data}"):
        CliRunner().invoke(cli, [*command, str(data)], catch_exceptions=False)
    assert data.exists()
    data.unlink()
    done = CliRunner().invoke(cli, [*command, str(data)])
    assert "which holds" not in str(done.exception)


def test_a_deleted_working_directory_is_named(here: Path, tmp_path: Path) -> None:
    """GIVEN a shell in a folder that was deleted WHEN an output is named relative to it THEN the
    sentence says so."""
    gone = tmp_path / "gone"
    gone.mkdir()
    line = f'cd {gone} && rmdir {gone} && exec "$@"'
    done = run_text(["bash", "-c", line, "-", *xpuprof_line("report", here / "R", "-o", "r.html")])
    assert done.returncode == 2
    assert (
        done.stderr == "xpuprof: error: the working directory was deleted; change to another one\n"
    )
