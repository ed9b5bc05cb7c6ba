# SPDX-License-Identifier: Apache-2.0
"""The documentation: pages that are named exist, the site builds, tutorials cannot go stale."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import xpuprof
from tests.support.paths import ROOT
from tests.support.tutorials import alike, pages
from xpuprof.cli.group import COMMANDS
from xpuprof.methods import registry

NAMED = re.compile(r"\bdocs/[\w./-]+\.(?:md|png|svg)\b")
FROM_ELSEWHERE = re.compile(
    r'<(?:script|img|iframe|link)\b[^>]*\b(?:src|href)="(?:https?:)?//[^>]*>'
)

SHOWN = """\
$ 12 slices, method xpu-point, 120 ms

slice  ends with kernel  multiplier
-----  ----------------  ----------
    0  forces                     1
    5  forces                     8
   11  integrate                  3

measured        249 ms   median of 3 native runs
xpuprof: next: xpuprof select RUN
"""


def test_pages_that_messages_and_sources_name_exist() -> None:
    """GIVEN a name such as docs/filters.md anywhere in our files THEN the page exists."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git checkout")
    sources = [ROOT / name for name in listed.stdout.splitlines() if not name.endswith(".png")]
    named = {
        (str(source.relative_to(ROOT)), page)
        for source in sources
        if source.is_file() and source != Path(__file__)
        for page in NAMED.findall(source.read_text(encoding="utf-8", errors="replace"))
    }
    assert len(named) > 50
    assert [where for where in named if not (ROOT / where[1]).exists()] == []


def test_a_page_stands_once_in_the_navigation() -> None:
    """GIVEN the site's navigation THEN no page is listed twice."""
    listed = re.findall(r"[\w./-]+\.md$", (ROOT / "mkdocs.yml").read_text(), flags=re.MULTILINE)
    assert len(listed) > 50
    assert [page for page in {*listed} if listed.count(page) > 1] == []


def test_the_site_builds_and_needs_no_network(tmp_path: Path) -> None:
    """GIVEN strict mode WHEN the site is built THEN no link is broken, and no page loads a script,
    style, font or picture from elsewhere."""
    for module in ("mkdocs", "material", "mkdocstrings"):
        pytest.importorskip(module, reason="the extra docs is not installed")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "-q", "--site-dir", tmp_path],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    html = {str(page.relative_to(tmp_path)): page.read_text() for page in tmp_path.rglob("*.html")}
    assert [link for text in html.values() for link in FROM_ELSEWHERE.findall(text)] == []
    assert "https://github.com/xpuprof/xpuprof\n" in (tmp_path / "links.txt").read_text()
    manual = (tmp_path / "xpuprof.1").read_text()
    assert all(f"\n.SS xpuprof {name} " in manual for name in COMMANDS)
    for page, documented in (
        ("commands", COMMANDS),
        ("methods", registry.names()),
        ("api", {*xpuprof.__all__} - {"__version__"}),
    ):
        headings = re.findall(r'<h[23] id="(?:[\w.]*\.)?([\w-]+)"', html[f"reference/{page}.html"])
        assert {*documented} - {*headings} == set()


@pytest.mark.parametrize(
    ("real", "same"),
    [
        (SHOWN, True),
        (SHOWN.replace("249 ms", "1.02 s").replace("12 slices", "1,300 slices"), True),
        (SHOWN.replace("    5  forces                     8\n", ""), True),
        ("xpuprof: the native runs differ\n" + SHOWN, True),
        (SHOWN.replace("runs\n", "runs   UNRELIABLE\nunreliable   10 % lie apart\n"), True),
        (SHOWN.replace("integrate", "integral "), False),
        (SHOWN.replace("measured", "time    "), False),
        (SHOWN.replace("next: ", "then: "), False),
        (SHOWN + "projected\n", False),
        (SHOWN.replace("multiplier", "factor"), False),
    ],
)
def test_shown_output_may_differ_in_numbers_only(real: str, same: bool) -> None:
    """GIVEN output that a page shows THEN other numbers, rows and notes are alike, other words are
    not."""
    assert alike(SHOWN, real) is same


def test_lines_may_be_left_out() -> None:
    """GIVEN `...` on a page THEN it stands for any lines, and in a table for any rows."""
    assert alike("first\n...\nlast\n", "first\nsecond\nthird\nlast\n")
    assert not alike("first\n...\nlast\n", "first\nsecond\n")
    cut = re.sub(r"    5  forces .*?(?=\n\n)", "...", SHOWN, flags=re.DOTALL)
    assert alike(cut, SHOWN)
    assert not alike(cut.replace("forces", "energy"), SHOWN)


def test_tutorials_are_found() -> None:
    """GIVEN the documentation THEN the four tutorials have commands to run."""
    assert [page.stem for page in pages()] == ["ranks", "sample", "simulator", "trace"]
