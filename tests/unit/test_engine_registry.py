# SPDX-License-Identifier: Apache-2.0
"""Engines are found by their declarations, ours and those of other packages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.plugins import install
from tests.support.run import xpuprof
from xpuprof.engines.base import CpuEngine, Engine, GpuEngine
from xpuprof.engines.registry import engine, engines
from xpuprof.errors import EngineError

OTHER = """
from xpuprof.engines.base import CpuEngine, Engine, Probe

class Other(CpuEngine):
    name = "other"
    honours = frozenset({"--routine"})

    def probe(self):
        return Probe(self.name, True, details={"greeting": "hello"})

    def wrap(self, argv, options, execution_dir):
        return [*argv, *options.routines], {"OTHER": "counts"}

OTHER = Engine(Other, preference=5, help="from another package")
"""
ENTRIES = """[xpuprof.engines]
other = other_package:OTHER
gone = other_package:GONE
valgrind = other_package:OTHER
"""


@pytest.fixture
def other(tmp_path: Path) -> dict[str, str]:
    """An environment with another installed package that declares engines."""
    return install(tmp_path / "site", "other", "other_package", OTHER, ENTRIES)


def test_every_file_declares_its_engine() -> None:
    """GIVEN this installation THEN each engine's file is found, in the order of `auto`."""
    assert [e.name for e in engines(CpuEngine)] == ["dynamorio", "pin", "valgrind"]
    assert [e.name for e in engines(GpuEngine)] == ["nvbit", "cuda", "ptx", "opencl", "gtpin"]
    declared: list[Engine[CpuEngine] | Engine[GpuEngine]] = [*engines(CpuEngine)]
    declared += engines(GpuEngine)
    assert all(e.help and e.kind().probe().engine == e.name for e in declared)
    assert [e.name for e in declared if e.suggested] == ["valgrind", "opencl"]


def test_an_unknown_engine_is_refused() -> None:
    """GIVEN a name that no engine has THEN the error lists the engines of this side; GIVEN one of
    the other side's, its option."""
    with pytest.raises(EngineError, match="choose one of: auto, none, dynamorio, pin, valgrind"):
        engine(CpuEngine, "nonesuch")
    with pytest.raises(EngineError, match="name it with --gpu opencl"):
        engine(CpuEngine, "opencl")


@pytest.mark.slow
def test_an_engine_of_another_package_is_used(tmp_path: Path, other: dict[str, str]) -> None:
    """GIVEN a package with an entry point WHEN its engine is named THEN it wraps the program, with
    the filters that it honours; other filters are refused, naming it."""
    program = ["sh", "-c", "echo $OTHER $0"]
    command = ["profile", "--cpu", "other", "--gpu", "none", "-o", tmp_path / "run"]
    done = xpuprof(*command, "--routine", "solve", "--", *program, environment=other)
    assert (done.returncode, done.stdout) == (0, b"counts solve\n"), done.stderr
    (record,) = json.loads((tmp_path / "run" / "manifest.json").read_text())["executions"]
    assert record["cpu_engine"] == "other"
    refused = xpuprof(*command, "--force", "--thread", "0", "--", *program, environment=other)
    assert refused.returncode == 2
    assert b"CPU engine other does not support --thread" in refused.stderr


@pytest.mark.slow
def test_doctor_lists_engines_of_other_packages(other: dict[str, str]) -> None:
    """GIVEN a package with one valid and two invalid entry points THEN doctor shows the engine and
    the faults of the others; naming one of these is an error."""
    done = xpuprof("doctor", environment=other)
    assert done.returncode == 0, done.stderr
    said = done.stdout.decode()
    assert "CPU  other      usable      from another package\n" in said and "hello" in said
    assert "engine gone of other cannot be loaded" in said
    assert "engine valgrind of other declares a name that is taken" in said
    named = xpuprof("profile", "--cpu", "gone", "--", "true", environment=other)
    assert named.returncode == 2 and b"engine gone of other cannot be loaded" in named.stderr
