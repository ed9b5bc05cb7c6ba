# SPDX-License-Identifier: Apache-2.0
"""The page that `report` writes: what it holds, and what it does in a browser."""

from __future__ import annotations

import csv
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


def data_of(page: Path) -> dict[str, Any]:
    """The data that the page's scripts read."""
    found = re.search(r"<script>const DATA = (.*?);\n", page.read_text(encoding="utf-8"))
    assert found
    data: dict[str, Any] = json.loads(found[1])
    return data


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


USER = """
<script>
const rows = (id) => [...document.querySelectorAll(`#${id} tbody tr`)];
const cells = (row) => [...row.cells].map((cell) => cell.textContent);
const head = (id, label) =>
  [...document.querySelectorAll(`#${id} th`)].find((th) => th.textContent === label);
const seen = { kernels: rows("kernels").map(cells) };
head("kernels", "calls").click();
head("kernels", "kernel").click();
seen.byName = rows("kernels").map((row) => row.cells[0].textContent);
head("kernels", "kernel").click();
seen.byNameDown = rows("kernels").map((row) => row.cells[0].textContent);
seen.slice = DATA.representatives[0].slice;
const u = window.xpuprofPlot, at = DATA.slices.index.indexOf(seen.slice);
const point = [u.valToPos(DATA.slices.start[at], "x"), u.valToPos(DATA.slices.value[at], "y")];
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
seen.canvas = document.querySelectorAll("#plot canvas").length;
const result = document.createElement("pre");
result.id = "seen";
result.textContent = JSON.stringify(seen);
document.body.append(result);
</script>
"""


def test_sorting_hovering_and_choosing(page: Path, tmp_path: Path) -> None:
    """GIVEN the page in a browser WHEN a column is clicked, a point hovered over and a cluster
    chosen THEN the rows are sorted, the slice is described, its cluster is shown alone."""
    browser = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
    if browser is None:
        pytest.skip("Chromium is not installed: apt install chromium")
    tried = tmp_path / "tried.html"
    text = page.read_text(encoding="utf-8")
    tried.write_text(text.replace("</body>", f"{USER}</body>"), encoding="utf-8")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--window-size=1200,1500"]
    profile = f"--user-data-dir={tmp_path / 'browser'}"
    done = run_text([browser, *options, profile, "--dump-dom", tried.as_uri()])
    found = re.search(r'<pre id="seen">(.*?)</pre>', done.stdout, re.S)
    assert found, done.stderr
    seen = json.loads(found[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
    assert [row[0] for row in seen["kernels"]] == ["gemm", "sum", "evil"]  # by time
    assert seen["kernels"][0][1] == "200"
    assert seen["byName"] == sorted(seen["byName"])
    assert seen["byNameDown"] == seen["byName"][::-1]
    assert not seen["hidden"] and f"slice: {seen['slice']}\n" in seen["hover"]
    assert "representative, multiplier" in seen["hover"]
    assert seen["chosen"][1] == "gemm" and seen["everything"]
    assert seen["none"] == 0 and seen["canvas"] == 1
