# SPDX-License-Identifier: Apache-2.0
"""The native fuzz targets know today's tables, and their seeds today's records."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from tests.support import traces
from tests.support.compile import STRICT
from tests.support.paths import ROOT
from tests.support.run import run
from xpuprof.trace.layout import CPU, EVENTS, TAGS

FUZZ = ROOT / "tools" / "fuzz"
FOLDERS = ["include", "bridge", "runtime", "clustering", "gpu/opencl", "gpu/opencl/layer"]


@pytest.mark.parametrize("target", sorted((FUZZ / "native").glob("*.c*")), ids=lambda p: p.name)
def test_every_target_compiles(target: Path) -> None:
    """GIVEN a target THEN what it asserts about the product's types holds."""
    compiler = ["cc", "-std=gnu11"] if target.suffix == ".c" else ["c++", "-std=c++17"]
    include = [f"-I{ROOT / 'native' / folder}" for folder in FOLDERS]
    done = run([*compiler, "-fsyntax-only", *STRICT, "-Wno-psabi", *include, target])
    assert done.returncode == 0, done.stderr.decode()


@pytest.mark.parametrize(("name", "stream"), [("EVENTS", EVENTS), ("CPU", CPU)])
def test_seeds_hold_every_kind_of_record(name: str, stream: int) -> None:
    """GIVEN the records of the seed streams THEN no kind of the format is missing."""
    records = runpy.run_path(str(FUZZ / "corpus.py"))[name]
    kinds = {record[0] for record in records if record is not traces.SEAL}
    assert kinds == set(TAGS[stream].values())
