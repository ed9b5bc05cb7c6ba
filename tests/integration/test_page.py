# SPDX-License-Identifier: Apache-2.0
"""The page that `report` writes: what it holds, and what it does in a browser."""

from __future__ import annotations

import csv
import html
import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from tests.support import traces
from tests.support.run import run_text
from xpuprof.cli import cli
from xpuprof.errors import UsageError
from xpuprof.trace.run_writer import create_run
from xpuprof.workflow.opened import open as open_run

CLOSING = "void evil<'</script><b>'>(int*)"
"""A kernel's name that would end a script."""


def invoke(*words: str | Path) -> str:
    """Output of a command that must succeed."""
    done = CliRunner().invoke(cli, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An imported run of three kernels, selected."""
    folder = tmp_path_factory.mktemp("page")
    random = np.random.default_rng(1)
    with (folder / "t.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["kernel", "time"])
        for i in range(600):
            name, seconds = [("gemm", 3e-3), ("ns::sum<float>(float*)", 1e-4), (CLOSING, 2e-5)][
                i % 3
            ]
            rows.writerow([name, seconds * random.uniform(0.9, 1.1)])
    invoke("import", folder / "t.csv", "-o", folder / "R", "--map", "time=time:s")
    invoke("select", folder / "R", "--method", "stem-root")
    return folder / "R"


@pytest.fixture(scope="module")
def page(run: Path) -> Path:
    """Its page."""
    target = run.parent / "page.html"
    invoke("report", run, "-o", target)
    return target


def runs_of(page: Path) -> list[dict[str, Any]]:
    """The data that the page's scripts read, of each run."""
    found = re.search(r"<script>const DATA = (.*?);\n", page.read_text(encoding="utf-8"))
    assert found
    runs: list[dict[str, Any]] = json.loads(found[1])["runs"]
    return runs


def data_of(page: Path) -> dict[str, Any]:
    """The data of its first run."""
    return runs_of(page)[0]


def test_the_page_holds_the_run(run: Path, page: Path) -> None:
    """GIVEN a selected run WHEN its page is written THEN slices, clusters and kernels add up to the
    run's, and nothing is loaded from elsewhere."""
    data, opened = data_of(page), open_run(run)
    selection = opened.selection
    assert selection is not None and opened.slice_times is not None
    total = opened.slice_times[0].sum()
    slices = data["slices"]
    assert slices["total"] == len(slices["index"]) == 600
    assert sum(slices["value"]) == pytest.approx(total, rel=1e-5)
    assert slices["cluster"] == selection.labels.tolist()
    assert [row["slice"] for row in data["representatives"]] == [
        r.slice for r in selection.representatives
    ]
    clusters = data["clusters"]
    assert sum(row["slices"] for row in clusters) == 600
    assert sum(row["share"] for row in clusters) == pytest.approx(1.0)
    projected = sum(
        r.multiplier * opened.slice_times[0][r.slice] for r in selection.representatives
    )
    assert sum(row["error"] for row in clusters) == pytest.approx(projected / total - 1.0, abs=1e-9)
    assert sum(row["calls"] for row in data["kernels"]) == 600
    assert {tuple(name) for name in data["names"]} == {
        ("gemm", "gemm"),
        ("sum", "ns::sum<float>(float*)"),
        ("evil", CLOSING),
    }
    text = page.read_text(encoding="utf-8")
    assert text.count("</script>") == 2 and not re.search(r'(src|href)="', text)


def test_a_run_without_times_or_selection_has_a_page(tmp_path: Path) -> None:
    """GIVEN a profile alone WHEN its page is written THEN it shows instructions, no clusters."""
    traces.write_run(tmp_path / "P", traces.events(), traces.cpu())
    invoke("report", tmp_path / "P", "-o", tmp_path / "p.html")
    data = data_of(tmp_path / "p.html")
    assert not data["clustered"] and not data["clusters"] and data["slices"]["value"] is None
    assert len(data["slices"]["gpu_instructions"]) == data["slices"]["total"] > 0


def test_timer_runs_alone_have_a_page(tmp_path: Path) -> None:
    """GIVEN a timer run alone WHEN its page is written THEN it shows times."""
    traces.write_run(tmp_path / "T", traces.events(), None, role="time")
    invoke("report", tmp_path / "T", "-o", tmp_path / "t.html")
    data = data_of(tmp_path / "t.html")
    assert data["unit"] == "s" and sum(data["slices"]["value"]) > 0


def test_a_notebook_shows_any_run(run: Path, tmp_path: Path) -> None:
    """GIVEN an import, a profile and a timer run alone THEN a notebook shows kernels, with program
    exit by name, or the reason why there are none."""
    shown = open_run(run)._repr_html_()
    assert "<th>gemm</th>" in shown and "evil<" not in shown
    traces.write_run(tmp_path / "P", traces.events(), traces.cpu())
    assert "<th>program exit</th>" in open_run(tmp_path / "P")._repr_html_()
    traces.write_run(tmp_path / "T", traces.events(), None, role="time")
    assert "holds no profile" in open_run(tmp_path / "T")._repr_html_()


def test_long_runs_are_thinned(monkeypatch: pytest.MonkeyPatch, run: Path, tmp_path: Path) -> None:
    """GIVEN more slices than are drawn WHEN written THEN every n-th and all representatives are
    drawn, and the tables cover all."""
    monkeypatch.setattr("xpuprof.report.page.MOST_POINTS", 100)
    invoke("report", run, "-o", tmp_path / "p.html")
    data = data_of(tmp_path / "p.html")
    drawn = set(data["slices"]["index"])
    assert drawn >= {row["slice"] for row in data["representatives"]}
    assert 100 <= len(drawn) <= 100 + len(data["representatives"])
    assert sum(row["calls"] for row in data["kernels"]) == 600


def test_tables_show_names_brief_or_full(run: Path) -> None:
    """GIVEN C++ kernels WHEN shown as a table THEN names are brief; with --full-names whole; JSON
    always has them whole."""
    assert "ns::" not in invoke("report", run)
    assert "ns::sum<float>(float*)" in invoke("report", run, "--full-names")
    assert "ns::" not in invoke("info", run)
    assert "ns::sum<float>(float*)" in invoke("info", run, "--full-names")
    assert "ns::sum<float>(float*)" in invoke("report", run, "--json")


def facts_of(run: dict[str, Any]) -> dict[str, str]:
    """The numbers at the head of the page."""
    return {name: text for name, text, _ in run["facts"]}


def test_page_report_and_json_agree(tmp_path: Path) -> None:
    """GIVEN a run that is partial, was disturbed and ended with an exit code WHEN shown THEN table,
    JSON and page give the same notes and numbers, and program exit is no kernel."""
    writer = create_run(tmp_path / "R", argv=["./app"])
    traces.add_execution(writer, "profile", "profile", traces.events(), traces.cpu())
    for i in range(3):
        end = traces.RESULT["tsc_end"] + i * 50_000
        traces.add_execution(writer, f"time-{i}", "time", traces.events(), None, tsc_end=end)
    writer.finish("partial", "the disk was full")
    invoke("select", tmp_path / "R", "--no-ends")
    text = invoke("report", tmp_path / "R")
    stated = json.loads(invoke("report", tmp_path / "R", "--json"))
    invoke("report", tmp_path / "R", "-o", tmp_path / "r.html")
    page, run = (tmp_path / "r.html").read_text(encoding="utf-8"), data_of(tmp_path / "r.html")
    notes = stated["notes"]
    assert any("the disk was full" in note for note in notes)
    assert any("the native runs took" in note for note in notes)
    for note in notes:
        assert note in text and f"<li>{html.escape(note)}</li>" in page
    facts = facts_of(run)
    for name in ("measured", "projected"):
        assert re.search(rf"^{name} +{facts[name]}  ", text, re.M)
    assert f"sampling error  {facts['sampling error'].removesuffix(' UNRELIABLE')}" in text
    assert ("UNRELIABLE" in text) == ("UNRELIABLE" in page) == bool(stated["unreliable"])
    assert f"slice reduction {facts['slice reduction']}" in text
    assert facts["kernels"] == str(sum(run["launched"])) == str(len(run["kernels"]) - 1)
    settings = dict(map(tuple, run["settings"]))
    assert settings["--ends"] == "off" and "None" not in settings.values()


def test_several_runs_stand_beside_each_other(run: Path, tmp_path: Path) -> None:
    """GIVEN two runs of one name WHEN a page shows both THEN each is there under its path;
    without a page they are refused."""
    copy = shutil.copytree(run, tmp_path / run.name)
    invoke("select", copy, "--method", "random", "--force")
    invoke("report", run, copy, "-o", tmp_path / "both.html")
    first, second = runs_of(tmp_path / "both.html")
    assert [first["name"], second["name"]] == [str(run), str(copy)]
    assert facts_of(first)["method"] == "stem-root" and facts_of(second)["method"] == "random"
    for words in ((), ("-o", tmp_path / "x.svg"), ("-o", tmp_path / "x.html", "--json")):
        done = CliRunner().invoke(cli, [*map(str, ("report", run, copy, *words))])
        assert isinstance(done.exception, UsageError), done.output
        assert "add -o runs.html" in str(done.exception)


def test_a_profile_alone_is_selected_and_shown(tmp_path: Path) -> None:
    """GIVEN a selected profile without timer runs WHEN its page is written THEN clusters and
    representatives are there, and no error is claimed."""
    traces.write_run(tmp_path / "P", traces.events(), traces.cpu())
    invoke("select", tmp_path / "P")
    invoke("report", tmp_path / "P", "-o", tmp_path / "p.html")
    run = data_of(tmp_path / "p.html")
    assert run["clusters"] and run["representatives"] and "error" not in run["clusters"][0]
    assert sum(row["slices"] for row in run["clusters"]) == run["slices"]["total"]
    assert not {"sampling error", "projected"} & set(facts_of(run))


REPORT = """
const result = document.createElement("pre");
result.id = "seen";
result.textContent = JSON.stringify(seen);
document.body.append(result);
"""
USER = """
const rows = (id) => [...document.querySelectorAll(`#${id} tbody tr`)];
const cells = (row) => [...row.cells].map((cell) => cell.textContent);
const head = (id, label) =>
  [...document.querySelectorAll(`#${id} th`)].find((th) => th.textContent === label);
seen.kernels = rows("kernels").map(cells);
head("kernels", "calls").click();
head("kernels", "kernel").click();
seen.byName = rows("kernels").map((row) => row.cells[0].textContent);
head("kernels", "kernel").click();
seen.byNameDown = rows("kernels").map((row) => row.cells[0].textContent);
const run = DATA.runs[0];
seen.slice = run.representatives[0].slice;
const u = window.xpuprofPlot, at = run.slices.index.indexOf(seen.slice);
const point = [u.valToPos(run.slices.start[at], "x"), u.valToPos(run.slices.value[at], "y")];
u.setCursor({ left: point[0], top: point[1] });
seen.hover = document.getElementById("hover").innerText;
seen.hidden = document.getElementById("hover").hidden;
rows("clusters")[0].click();
seen.chosen = cells(document.querySelector("#clusters tr.chosen"));
seen.everything = !document.getElementById("everything").hidden;
document.getElementById("everything").click();
seen.none = document.querySelectorAll("tr.chosen").length;
document.getElementById("across").selectedIndex = 1;
document.getElementById("across").onchange();
seen.canvas = document.querySelectorAll(".plot canvas").length;
"""


def tried(page: Path, user: str, folder: Path) -> dict[str, Any]:
    """What `user`, a script, saw on the page in a browser; it puts it into `seen`."""
    browser = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
    if browser is None:
        pytest.skip("Chromium is not installed: apt install chromium")
    copy = folder / "tried.html"
    script = f"<script>\nconst seen = {{}};\n{user}\n{REPORT}</script>"
    text = page.read_text(encoding="utf-8").replace("</body>", f"{script}</body>")
    copy.write_text(text, encoding="utf-8")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--window-size=1200,1500"]
    profile = f"--user-data-dir={folder / 'browser'}"
    done = run_text([browser, *options, profile, "--dump-dom", copy.as_uri()])
    found = re.search(r'<pre id="seen">(.*?)</pre>', done.stdout, re.S)
    assert found, done.stderr
    seen: dict[str, Any] = json.loads(html.unescape(found[1]))
    return seen


def test_sorting_hovering_and_choosing(page: Path, tmp_path: Path) -> None:
    """GIVEN the page in a browser WHEN a column is clicked, a point hovered over and a cluster
    chosen THEN the rows are sorted, the slice is described, its cluster is shown alone."""
    seen = tried(page, USER, tmp_path)
    assert [row[0] for row in seen["kernels"]] == ["gemm", "sum", "evil"]  # by time
    assert seen["kernels"][0][1] == "200"
    assert seen["byName"] == sorted(seen["byName"])
    assert seen["byNameDown"] == seen["byName"][::-1]
    assert not seen["hidden"] and f"slice\n{seen['slice']}\n" in seen["hover"]
    assert "representative, multiplier" in seen["hover"]
    assert seen["chosen"][1] == "gemm" and seen["everything"]
    assert seen["none"] == 0 and seen["canvas"] == 1


BOTH = """
const heads = [...document.querySelectorAll("#runs th")].map((th) => th.textContent);
const at = heads.indexOf("method");
const runs = [...document.querySelectorAll("#runs tbody tr")];
seen.runs = runs.map((row) => row.cells[at].textContent);
seen.plots = document.querySelectorAll("#plots canvas").length;
seen.kernels = document.querySelectorAll("#kernels tbody tr").length;
seen.tables = document.querySelectorAll("table.clusters").length;
const ends = (node) => node.getBoundingClientRect().right;
const chips = [...document.querySelectorAll(".legend button")];
seen.beyond = chips.filter((chip) => ends(chip) > ends(chip.parentElement) + 1).length;
document.querySelector("table.clusters tbody tr").click();
seen.pressed = document.querySelectorAll(".legend button[aria-pressed=true]").length;
"""


def test_two_runs_in_a_browser(run: Path, tmp_path: Path) -> None:
    """GIVEN a page of two runs in a browser THEN both have a row, a plot and clusters, and a chosen
    cluster is marked in its own run's legend alone."""
    copy = shutil.copytree(run, tmp_path / "other")
    invoke("select", copy, "--method", "random", "--force")
    invoke("report", run, copy, "-o", tmp_path / "both.html")
    page = tmp_path / "both.html"
    # A kernel's name wider than its run's half of the page.
    page.write_text(page.read_text().replace("gemm", 30 * "gemm"))
    seen = tried(page, BOTH, tmp_path)
    assert seen.pop("beyond") == 0
    assert seen == {
        "runs": ["stem-root", "random"], "plots": 2, "kernels": 3, "tables": 2, "pressed": 1
    }  # fmt: skip


METHODS = """
const rows = [...document.querySelectorAll("#methods tbody tr")];
seen.rows = rows.map((row) => row.cells[0].textContent);
seen.labels = window.xpuprofLabels;
seen.out = document.querySelectorAll("#left-out li").length;
"""


def test_methods_on_a_page_have_readable_names(run: Path, tmp_path: Path) -> None:
    """GIVEN methods compared WHEN written as a page THEN the table has those that ran, the others
    are listed, and no name in the plot covers another."""
    page = tmp_path / "m.html"
    said = json.loads(invoke("compare", run, "-q", "--repeats", "2", "-o", page, "--json"))
    seen = tried(page, METHODS, tmp_path)
    ran = {row["method"] for row in said["methods"] if "reason" not in row}
    assert set(seen["rows"]) == ran and seen["out"] == len(said["methods"]) - len(ran) > 0
    boxes = [label[1:] for label in seen["labels"]]
    assert len(boxes) == len(ran) > 4
    for i, (left, top, right, bottom) in enumerate(boxes):
        for others in boxes[:i]:
            assert (
                right <= others[0] or others[2] <= left or bottom <= others[1] or others[3] <= top
            )
