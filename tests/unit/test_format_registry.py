# SPDX-License-Identifier: Apache-2.0
"""Formats declare themselves, here and in other packages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.plugins import install
from tests.support.run import xpuprof
from xpuprof.declarations import Declarations
from xpuprof.errors import InputError, UsageError
from xpuprof.formats.format import Head, Importer, Match
from xpuprof.formats.registry import (
    all_exporters,
    all_importers,
    all_result_readers,
    named,
    recognised,
)
from xpuprof.inputs import Source

PACKAGE = """
from pathlib import Path
import numpy as np
from xpuprof.formats.format import Exporter, Importer, Match, Needs, ResultReader

def load(source, writer):
    with source.lines() as lines:
        names = [line.strip() for line in lines][1:]
    writer.append({"kernel": writer.codes("kernel", names),
                   "call": np.arange(1, len(names) + 1, dtype=np.int32)})

def write(source, out, options):
    out.write_text(f"{source.selection.method} {options.warmup}")
    return [out]

def read(source, selection):
    return [(i, {"cycles": 7.0}) for i in range(len(selection.representatives))]

TRACE = Importer(name="ourtrace", help="what we trace", load=load,
                 match=lambda head: Match.YES if head.data.startswith(b"OURS") else Match.NO)
LIST = Exporter(name="ourlist", help="OUT, our list", write=write, needs=Needs.SELECTION,
                takes=frozenset({"warmup"}))
SIM = ResultReader(name="oursim", help="our simulator", read=read, mark="OURSIM")
NSYS = Importer(name="nsys", help="not ours", load=load, match=lambda head: Match.NO)
"""
ENTRIES = """[xpuprof.formats]
ourtrace = our_formats:TRACE
ourlist = our_formats:LIST
oursim = our_formats:SIM
nsys = our_formats:NSYS
gone = our_formats:GONE
"""


@pytest.fixture
def ours(tmp_path: Path) -> dict[str, str]:
    """An environment with another installed package that declares formats."""
    return install(tmp_path / "site", "our", "our_formats", PACKAGE, ENTRIES)


@pytest.mark.slow
def test_formats_of_another_package_are_used(tmp_path: Path, ours: dict[str, str]) -> None:
    """GIVEN a package with entry points WHEN its formats are used from the command line THEN its
    importer recognises its file, its exporter takes its option, its reader gives the results."""
    (tmp_path / "app.ours").write_text("OURS\na\nb\na\n")
    run = tmp_path / "run"
    done = xpuprof("import", tmp_path / "app.ours", "-o", run, environment=ours)
    assert (done.returncode, done.stderr.count(b"xpuprof select")) == (0, 1), done.stderr
    assert b"3 slices from ourtrace" in done.stdout
    chosen = tmp_path / "chosen" / "selection.json"
    select = ("select", run, "--method", "first-n", "-o", chosen.parent)
    assert xpuprof(*select, environment=ours).returncode == 0
    export = ("export", chosen, "--format", "ourlist", "--warmup", "3", "-o", tmp_path / "list")
    assert xpuprof(*export, environment=ours).returncode == 0
    assert (tmp_path / "list").read_text() == "first-n 3"
    (tmp_path / "log").write_text("OURSIM\n")
    estimate = ("estimate", chosen, "--results", tmp_path / "log", "--json")
    done = xpuprof(*estimate, environment=ours)
    assert done.returncode == 0 and b'"cycles"' in done.stdout, done.stderr


@pytest.mark.slow
def test_help_lists_formats_of_other_packages(ours: dict[str, str]) -> None:
    """GIVEN valid and invalid entry points THEN help lists the valid ones; naming one that cannot
    be loaded says why; ours keep their names."""
    shown = xpuprof("import", "--help", environment=ours).stdout.decode()
    assert re.search(r"^  ourtrace +what we trace$", shown, re.MULTILINE)
    assert "not ours" not in shown and "Nsight Systems" in shown
    assert b"our list" in xpuprof("export", "--help", environment=ours).stdout
    refused = xpuprof("import", "x", "-o", "y", "--format", "gone", environment=ours)
    assert refused.returncode == 2
    assert b"format gone of our cannot be loaded" in refused.stderr


def test_options_are_refused_by_declaration(tmp_path: Path, ours: dict[str, str]) -> None:
    """GIVEN an option that a format does not take THEN the refusal names all that take it."""
    (tmp_path / "s").write_text("{}")
    export = ("export", tmp_path / "s", "--format", "chrome", "-o", "out", "--warmup", "1")
    refused = xpuprof(*export, environment=ours)
    assert refused.returncode == 2
    assert b", looppoint, pinpoints and ourlist; omit it" in refused.stderr


def test_aliases_name_formats() -> None:
    assert named(all_exporters(), "perfetto").name == "chrome"
    assert named(all_importers(), "pytorch").name == "kineto"
    with pytest.raises(UsageError, match=r"choose one of: .*nsys"):
        named(all_importers(), "perfetto")


def test_a_file_of_two_formats_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def sure(head: Head) -> Match:
        return Match.YES

    twins = [
        Importer(name=name, help="", load=lambda source, writer: None, match=sure)
        for name in ("one", "two")
    ]
    declared = Declarations("no.such.group", Importer, lambda: twins, lambda format: format.names)
    monkeypatch.setattr("xpuprof.formats.registry._declared", {Importer: declared})
    (tmp_path / "x").write_text("x")
    with pytest.raises(InputError, match="may be one or two; name one of them with --format"):
        recognised(Source(tmp_path / "x"))


@pytest.mark.parametrize(
    ("page", "formats"), [("export", all_exporters()), ("imports", all_importers())]
)
def test_the_page_lists_every_format(page: str, formats: dict[str, object]) -> None:
    """GIVEN the page of the formats THEN its first table names exactly the declared ones."""
    text = (ROOT / "docs" / f"{page}.md").read_text()
    rows = re.search(r"(?:^\|.*\n)+", text, re.MULTILINE)
    assert rows
    cells = [row.split("|")[1] for row in rows[0].splitlines()[2:]]
    assert {name for cell in cells for name in re.findall(r"`(\S+)`", cell)} == set(formats)


def test_every_result_reader_says_what_it_reads() -> None:
    readers = all_result_readers()
    assert set(readers) == {
        *("accelsim", "csv", "gem5", "json", "ncu", "rocpd", "rocprof-compute", "rocprofv3")
    }
    assert all(reader.help and (reader.mark or reader.match) for reader in readers.values())
